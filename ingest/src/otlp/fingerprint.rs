//! What was said in a model call, as a text that two instrumentations report alike: it finds the two reports of a call
//! whose spans are in different traces (decision 0028).

use serde_json::Value;

use super::facts::{Facts, LLM};

/// Bytes of the question and of the answer that are compared.
const COMPARED_BYTES: usize = 64 << 10;

/// The fingerprint of a call that is known by nothing else: one without the identifier of its response, or without a
/// span around it. `None` where the last message or the answer has no text. Call it before the messages are taken.
pub(crate) fn of(facts: &Facts<'_>, has_response_id: bool, has_parent: bool) -> Option<String> {
    if facts.kind != LLM || (has_response_id && has_parent) {
        return None;
    }
    let question = text(facts.said.input.last()?)?;
    let answer = text(facts.said.output.first()?)?;
    let [question, answer] =
        [question, answer].map(|text| xxhash_rust::xxh3::xxh3_64(text.as_bytes()));
    Some(format!("{question:016x}{answer:016x}"))
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

    #[test]
    fn the_same_words_are_the_same_however_they_are_divided() {
        let plain = of(&call(json!("Rain?"), json!("No. ")), false, true);
        assert!(plain.is_some());
        let parts = json!([{"type": "text", "text": "Ra"}, {"type": "text", "text": "in?"}]);
        assert_eq!(of(&call(parts, json!("No.")), true, false), plain);
        assert_ne!(of(&call(json!("Rain?"), json!("Yes.")), false, true), plain);
        assert_ne!(of(&call(json!("Snow?"), json!("No.")), false, true), plain);
    }

    #[test]
    fn a_call_that_is_known_otherwise_or_says_nothing_has_none() {
        assert_eq!(of(&call(json!("a"), json!("b")), true, true), None);
        assert_eq!(of(&call(json!("a"), json!("")), false, false), None);
        assert_eq!(of(&call(json!({"a": 1}), json!("b")), false, false), None);
        assert_eq!(of(&Facts::of(&Attributes::new(&[])), false, false), None);
    }
}
