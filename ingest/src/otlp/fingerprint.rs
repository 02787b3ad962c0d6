//! What was said in a model call, as a text that two instrumentations report alike: it finds the two reports of a call
//! whose spans are in different traces (decision 0028).

use serde_json::Value;

use super::facts::{Facts, LLM};
use super::value::cut;

/// Bytes of the question and of the answer that are compared.
const COMPARED_BYTES: usize = 64 << 10;

/// Bytes of the instrumentation's name.
const SCOPE_BYTES: usize = 128;

/// What is known of the span of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The name of the instrumentation.
    pub(crate) scope: &'a str,
    pub(crate) has_response_id: bool,
    pub(crate) has_parent: bool,
    pub(crate) has_failed: bool,
}

/// The fingerprint of a call that is known by nothing else: one without the identifier of its response, or without a
/// span around it. `None` where the last message has no text, or the answer of a call that did not fail. Call it before the messages are taken.
pub(crate) fn of(facts: &Facts<'_>, known: Known<'_>) -> Option<String> {
    if facts.kind != LLM || (known.has_response_id && known.has_parent) {
        return None;
    }
    let question = text(facts.said.input.last()?)?;
    let answer = match facts.said.output.first().and_then(text) {
        Some(answer) => answer,
        None if known.has_failed => String::new(),
        None => return None,
    };
    let [question, answer] =
        [question, answer].map(|text| xxhash_rust::xxh3::xxh3_64(text.as_bytes()));
    Some(format!(
        "{question:016x}{answer:016x}/{}",
        cut(known.scope, SCOPE_BYTES)
    ))
}

/// The text of a message without blanks around it, which instrumentations treat differently.
fn text(message: &Value) -> Option<String> {
    let content = &message["content"];
    let text = match content {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().concat().trim().to_owned()
        }
        _ => return None,
    };
    (1..=COMPARED_BYTES).contains(&text.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::otlp::attributes::Attributes;
    use crate::otlp::messages::Said;

    fn call(question: Value, answer: Value) -> Facts<'static> {
        let mut facts = Facts::of(&Attributes::new(&[]));
        facts.kind = LLM;
        facts.said = Said {
            input: vec![
                json!({"role": "system", "content": "s"}),
                json!({"role": "user", "content": question}),
            ],
            output: vec![json!({"role": "assistant", "content": answer})],
        };
        facts
    }

    const KNOWN: Known<'_> = Known {
        scope: "s",
        has_response_id: false,
        has_parent: true,
        has_failed: false,
    };

    #[test]
    fn the_same_words_are_the_same_however_they_are_divided() {
        let plain = of(&call(json!("Rain?"), json!("No. ")), KNOWN).unwrap();
        let parts = json!([{"type": "text", "text": "Ra"}, {"type": "text", "text": "in?"}]);
        let by_another = Known {
            scope: "t",
            has_response_id: true,
            has_parent: false,
            ..KNOWN
        };
        let other = of(&call(parts, json!("No.")), by_another).unwrap();
        let words = |text: &str| {
            text.split_once('/')
                .map(|(words, by)| (words.to_owned(), by.to_owned()))
        };
        let ((said, by), (also_said, by_other)) = (words(&plain).unwrap(), words(&other).unwrap());
        assert_eq!(
            (said, by.as_str(), by_other.as_str()),
            (also_said, "s", "t")
        );
        for (question, answer) in [("Rain?", "Yes."), ("Snow?", "No.")] {
            assert_ne!(
                of(&call(json!(question), json!(answer)), KNOWN),
                Some(plain.clone())
            );
        }
    }

    #[test]
    fn a_call_that_is_known_otherwise_or_says_nothing_has_none() {
        let known = Known {
            has_response_id: true,
            ..KNOWN
        };
        assert_eq!(of(&call(json!("a"), json!("b")), known), None);
        assert_eq!(of(&call(json!("a"), json!("")), KNOWN), None);
        let has_failed = true;
        assert!(
            of(
                &call(json!("a"), json!("")),
                Known {
                    has_failed,
                    ..KNOWN
                }
            )
            .is_some()
        );
        assert_eq!(of(&call(json!({"a": 1}), json!("b")), KNOWN), None);
        assert_eq!(of(&Facts::of(&Attributes::new(&[])), KNOWN), None);
    }
}
