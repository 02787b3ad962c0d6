//! Validation of process inputs against JSON Schemas.
//!
//! Schemas of users decide the cost of a validation. Checks of one value are bounded before a schema is compiled
//! ([`bounds`]), and checks of all parts of an input during the validation ([`metered`]). Both would block a thread that
//! serves requests: call them on a thread of [`super::checks`].

mod bounds;
mod metered;

use std::time::Instant;

use jsonschema::{PatternOptions, ValidationError, Validator};
use metered::{Counted, Limits, Metered};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Violations in an answer: enough to correct a form at once (X1).
pub(super) const VIOLATIONS_MAX: usize = 100;
/// Characters of one message or path (X1).
const TEXT_CHARS: usize = 500;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 256 << 10;
/// Backtracking steps of one pattern: only malicious patterns need more.
const BACKTRACKS: usize = 100_000;

/// Accesses to an input or a part of it: 512 KiB of numbers in an array take 800,000 (X1).
const STEPS: u64 = 2_000_000;
/// Bytes of the violations of one validation and the values that they quote (X1).
const REPORT_BYTES: usize = 128 << 20;

pub(super) use metered::Exceeded;

/// A compiled schema.
pub(super) struct Schema(Validator<Metered>);

/// A part of the body that does not conform to the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Violation {
    /// JSON pointer into the body; empty for the body itself.
    #[schema(example = "/order/items/0/count")]
    path: String,
    /// The violated rule, without values of the body.
    message: String,
    /// JSON pointer into the schema.
    schema_path: String,
}

impl Schema {
    /// Compiles a schema that does not refer to other documents.
    ///
    /// # Errors
    /// The violated rule.
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        // `true` and `false` are schemas too, but a process with them is a mistake.
        if !schema.is_object() {
            return Err("a schema must be an object".to_owned());
        }
        bounds::check(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(PATTERN_BYTES);
        let compiled = jsonschema::options_for::<Metered>()
            .with_pattern_options(patterns)
            .with_retriever(NoRetriever)
            .build(schema);
        match compiled {
            Ok(validator) => Ok(Self(validator)),
            Err(error) => {
                let path = error.instance_path().to_string();
                let at = if path.is_empty() { "" } else { " at " };
                Err(cut(&format!("{}{at}{path}", error.masked())))
            }
        }
    }

    /// # Errors
    /// The limit that the validation exceeded.
    pub(super) fn violations(
        &self,
        value: &Value,
        deadline: Instant,
    ) -> Result<Violations, Exceeded> {
        let limits = Limits {
            steps: STEPS,
            report_bytes: REPORT_BYTES,
            deadline,
        };
        let all = metered::within(limits, || {
            let mut errors = self.0.iter_errors(Counted(value));
            let violations = errors.by_ref().take(VIOLATIONS_MAX);
            let listed = violations.map(|one| Violation::of(&one)).collect();
            Violations {
                listed,
                has_more: errors.next().is_some(),
            }
        });
        match all {
            // More than fit in memory: only the first one.
            Err(Exceeded::Report) => metered::within(limits, || {
                let first = self.0.validate(Counted(value)).err();
                Violations {
                    listed: first.iter().map(Violation::of).collect(),
                    has_more: true,
                }
            }),
            all => all,
        }
    }
}

/// The first violations of an input, at most [`VIOLATIONS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violations {
    pub(super) listed: Vec<Violation>,
    pub(super) has_more: bool,
}

impl Violation {
    fn of(error: &ValidationError<'_>) -> Self {
        Self {
            path: cut(&error.instance_path().to_string()),
            message: cut(&error.masked().to_string()),
            schema_path: cut(&error.schema_path().to_string()),
        }
    }
}

/// Rejects references to other documents.
struct NoRetriever;

impl jsonschema::Retrieve for NoRetriever {
    fn retrieve(
        &self,
        _: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema must not refer to other documents".into())
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

#[cfg(test)]
mod tests;
