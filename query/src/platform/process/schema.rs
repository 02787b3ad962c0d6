//! The JSON Schema of a process's input: compiled once, and every violation named.
//!
//! Whoever registers a schema decides what a check of it costs. What it asks of one value is bounded before it is
//! compiled ([`bounds`]), and what it asks of all parts of an input while it is checked ([`metered`]). Both take longer
//! than a thread that serves requests may be held up: call them on one of [`super::checks`].

mod bounds;
mod metered;

use std::time::Instant;

use jsonschema::{PatternOptions, ValidationError, Validator};
use metered::{Counted, Limits, Metered};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Violations that are named: enough to mend a form in one go (X1).
pub(super) const VIOLATIONS_MAX: usize = 100;
/// Characters of one message or path: a path of a deep value, or a list of what is allowed (X1).
const TEXT_CHARS: usize = 500;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 256 << 10;
/// Steps back in matching one pattern: patterns that need more are for doing harm.
const BACKTRACKS: usize = 100_000;

/// Looks at an input or a part of it in one check: 512 KiB of numbers in an array take 800,000 (X1).
const STEPS: u64 = 2_000_000;
/// Bytes of the violations of one check, and of the values that they quote (X1).
const REPORT_BYTES: usize = 128 << 20;

pub(super) use metered::Exceeded;

/// A compiled schema.
pub(super) struct Schema(Validator<Metered>);

/// What of an input does not conform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Violation {
    /// Where in the body, as a JSON pointer; empty for the body itself.
    #[schema(example = "/order/items/0/count")]
    path: String,
    /// What is wrong with it. Values of the body are not repeated.
    message: String,
    /// Which part of the schema says so, as a JSON pointer.
    schema_path: String,
}

impl Schema {
    /// Compiles a schema. One that refers to anything outside of itself is refused.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        // `true` and `false` are schemas too, of processes that take anything or that nobody can start.
        if !schema.is_object() {
            return Err("a schema has to be an object".to_owned());
        }
        bounds::check(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(PATTERN_BYTES);
        let compiled = jsonschema::options_for::<Metered>()
            .with_pattern_options(patterns)
            .with_retriever(Nothing)
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

    /// What does not conform, at most [`VIOLATIONS_MAX`], and whether there is more.
    ///
    /// # Errors
    /// The limit that the check reached before its end.
    pub(super) fn violations(
        &self,
        value: &Value,
        deadline: Instant,
    ) -> Result<(Vec<Violation>, bool), Exceeded> {
        let limits = Limits {
            steps: STEPS,
            report_bytes: REPORT_BYTES,
            deadline,
        };
        let all = metered::within(limits, || {
            let mut errors = self.0.iter_errors(Counted(value));
            let violations = errors.by_ref().take(VIOLATIONS_MAX);
            let violations: Vec<Violation> = violations.map(|one| Violation::of(&one)).collect();
            (violations, errors.next().is_some())
        });
        match all {
            // More than can be held: the first one alone.
            Err(Exceeded::Report) => metered::within(limits, || {
                let first = self.0.validate(Counted(value)).err();
                (first.iter().map(Violation::of).collect(), true)
            }),
            all => all,
        }
    }
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

/// Fetches nothing from anywhere.
struct Nothing;

impl jsonschema::Retrieve for Nothing {
    fn retrieve(
        &self,
        _: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema may not refer to other documents".into())
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
