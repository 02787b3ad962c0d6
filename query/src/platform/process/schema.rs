//! The JSON Schema of a process's input: compiled once, and every violation named.

use jsonschema::{PatternOptions, Validator};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Violations that are named: enough to mend a form in one go (X1).
pub(super) const VIOLATIONS_MAX: usize = 100;
/// Characters of one message or path: a path of a deep value, or a list of what is allowed (X1).
const TEXT_CHARS: usize = 500;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;
/// Steps back in matching one pattern: patterns that need more are for doing harm.
const BACKTRACKS: usize = 100_000;

/// A compiled schema.
pub(super) struct Schema(Validator);

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
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(PATTERN_BYTES);
        let compiled = jsonschema::options()
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
    pub(super) fn violations(&self, value: &Value) -> (Vec<Violation>, bool) {
        let mut errors = self.0.iter_errors(value);
        let violations = errors.by_ref().take(VIOLATIONS_MAX).map(|error| Violation {
            path: cut(&error.instance_path().to_string()),
            message: cut(&error.masked().to_string()),
            schema_path: cut(&error.schema_path().to_string()),
        });
        let violations: Vec<Violation> = violations.collect();
        (violations, errors.next().is_some())
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn order() -> Schema {
        let schema = json!({
            "type": "object", "required": ["key1", "key2"], "additionalProperties": false,
            "properties": {
                "key1": {"type": "string", "minLength": 1},
                "key2": {"$ref": "#/$defs/name"},
                "items": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}}
            },
            "$defs": {"name": {"type": "string", "pattern": "^(?!x)[a-z]+$"}}
        });
        Schema::compile(&schema).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_violation_is_named_with_its_place_and_without_the_value() {
        let wrong = json!({"key1": "", "key2": "SECRET", "items": [{"count": "many"}], "more": 1});
        let (violations, is_cut) = order().violations(&wrong);
        assert!(!is_cut);
        let places: Vec<(&str, &str)> = violations
            .iter()
            .map(|one| (one.path.as_str(), one.schema_path.as_str()))
            .collect();
        for place in [
            ("/key1", "/properties/key1/minLength"),
            ("/key2", "/$defs/name/pattern"),
            (
                "/items/0/count",
                "/properties/items/items/properties/count/type",
            ),
            ("", "/additionalProperties"),
        ] {
            assert!(places.contains(&place), "{place:?}: {violations:?}");
        }
        assert_eq!(violations.len(), 4);
        let said = serde_json::to_string(&violations).unwrap();
        assert!(!said.contains("SECRET") && said.contains("more"), "{said}");
        let (missing, _) = order().violations(&json!({}));
        let messages: Vec<&str> = missing.iter().map(|one| one.message.as_str()).collect();
        assert!(messages[0].contains("key1") && messages[1].contains("key2"));
        assert_eq!(
            order().violations(&json!({"key1": "a", "key2": "b"})),
            (vec![], false)
        );
    }

    #[test]
    fn what_is_no_schema_or_refers_elsewhere_is_refused_with_a_reason() {
        for (schema, named) in [
            (json!(7), "an object"),
            (json!(false), "an object"),
            (json!({"type": "thing"}), "type"),
            (json!({"properties": {"a": {"minLength": -1}}}), "minLength"),
            (json!({"$ref": "https://example.org/other.json"}), "other"),
            (json!({"$ref": "file:///etc/passwd"}), "passwd"),
            (json!({"$ref": "#/$defs/none"}), "none"),
            (json!({"pattern": "("}), "pattern"),
            (
                json!({"$schema": "https://example.org/own-dialect"}),
                "own-dialect",
            ),
        ] {
            let refused = Schema::compile(&schema).err().unwrap_or_default();
            assert!(refused.contains(named), "{schema}: {refused}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}]}),
        ] {
            if let Ok(compiled) = Schema::compile(&schema) {
                compiled.violations(&json!({"next": {"next": {}}}));
            }
        }
    }

    #[test]
    fn a_pattern_that_goes_back_for_ever_is_given_up() {
        let schema = Schema::compile(&json!({"pattern": "^(?=(a+)+$)(a|aa)+\\1b$"}));
        let schema = schema.unwrap_or_else(|error| panic!("{error}"));
        let started = std::time::Instant::now();
        let (violations, _) = schema.violations(&json!("a".repeat(5000)));
        assert_eq!(violations.len(), 1);
        assert!(started.elapsed().as_secs() < 20);
    }

    #[test]
    fn violations_and_their_texts_are_bounded_x1() {
        let long = "p".repeat(3000);
        let schema = Schema::compile(&json!({"items": {"required": [long]}}));
        let schema = schema.unwrap_or_else(|error| panic!("{error}"));
        let many = Value::Array(vec![json!({}); 1000]);
        let (violations, is_cut) = schema.violations(&many);
        assert_eq!((violations.len(), is_cut), (VIOLATIONS_MAX, true));
        assert!(violations.iter().all(|one| one.message.len() < 600));
    }

    proptest! {
        #[test]
        fn names_and_values_of_any_kind_are_judged_without_a_panic(key in ".{0,20}", text in ".{0,20}") {
            let schema = Schema::compile(&json!({"properties": {key.clone(): {"type": "number"}}}));
            let schema = schema.unwrap_or_else(|error| panic!("{error}"));
            let (violations, _) = schema.violations(&json!({key: text}));
            prop_assert_eq!(violations.len(), 1);
        }
    }
}
