//! Contents of Gemini's API as messages: a role and parts with a text, a call or the answer of a function.

use serde_json::{Value, json};

use super::messages;

/// The messages of a list of contents, or of one.
pub(crate) fn messages(value: Value, role: &str) -> Vec<Value> {
    let list = match value {
        Value::Array(list) => list,
        Value::Null => return Vec::new(),
        one => vec![one],
    };
    let messages = list.into_iter().map(|mut content| {
        if content["role"] == "model" {
            content["role"] = "assistant".into();
        }
        content
    });
    messages
        .flat_map(|one| messages::of_value(one, role))
        .collect()
}

/// The answer of a model as one message: a streamed one is a list of contents, each with some of its parts.
pub(crate) fn answer(value: Value) -> Vec<Value> {
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    let mut parts: Vec<Value> = Vec::new();
    for mut content in list {
        let Some(Value::Array(more)) = content.get_mut("parts").map(Value::take) else {
            continue;
        };
        for part in more {
            let is_text = |part: &Value| part["text"].is_string() && part["thought"] != true;
            match (parts.last_mut(), &part) {
                (Some(last), part) if is_text(last) && is_text(part) => {
                    let joined = [last, part].map(|part| part["text"].as_str().unwrap_or_default());
                    let joined = joined.concat();
                    *last = json!({ "text": joined });
                }
                _ => parts.push(part),
            }
        }
    }
    match parts.is_empty() {
        true => Vec::new(),
        false => messages::of_value(json!({"role": "assistant", "parts": parts}), "assistant"),
    }
}

/// The last text that a user wrote, in the messages of a call.
pub(crate) fn last_asked(messages: &[Value]) -> Option<&str> {
    let mut asked = messages.iter().rev().filter(|one| one["role"] == "user");
    asked.find_map(|one| text_of(&one["content"]))
}

/// The text of a content; of several parts the last.
pub(crate) fn text_of(content: &Value) -> Option<&str> {
    let text = match content {
        Value::Array(parts) => parts.iter().rev().find_map(|part| part["text"].as_str()),
        other => other.as_str(),
    };
    text.filter(|text| !text.is_empty())
}
