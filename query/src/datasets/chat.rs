//! Converts input and output of a model call to a line of OpenAI's fine-tuning format: `{"messages": [...]}`. Pure.
//!
//! Clients report messages in several shapes. A line has only `role`, `content`, `name` and the tool calls, because the
//! format rejects unknown keys. A call in an unknown shape is left out with a reason.

use serde_json::{Map, Value, json};

/// Why a run has no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    NotLlm,
    NoInput,
    /// The input is not a list of messages.
    InputShape,
    NoOutput,
    /// The output is not a message of the assistant.
    OutputShape,
}

impl LeftOut {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LeftOut::NotLlm => "not_llm",
            LeftOut::NoInput => "no_input",
            LeftOut::InputShape => "input_shape",
            LeftOut::NoOutput => "no_output",
            LeftOut::OutputShape => "output_shape",
        }
    }
}

/// Keys of a message beside role and content.
const MESSAGE_KEYS: [&str; 4] = ["name", "tool_calls", "tool_call_id", "function_call"];
/// Types of content parts.
const PART_KINDS: [&str; 5] = ["text", "image_url", "input_audio", "file", "refusal"];

/// The line of a model call with this JSON input and output.
pub(crate) fn line(input: Option<&str>, output: Option<&str>) -> Result<Value, LeftOut> {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let input = input.ok_or(LeftOut::NoInput)?;
    let input = read(input).ok_or(LeftOut::InputShape)?;
    let mut messages = input_messages(&input).ok_or(LeftOut::InputShape)?;
    if messages.is_empty() {
        return Err(LeftOut::InputShape);
    }
    let output = output.ok_or(LeftOut::NoOutput)?;
    let output = read(output).ok_or(LeftOut::OutputShape)?;
    messages.push(output_message(&output).ok_or(LeftOut::OutputShape)?);
    let mut line = json!({"messages": messages});
    for key in ["tools", "functions"] {
        if let Some(Value::Array(tools)) = input.get(key)
            && !tools.is_empty()
        {
            line[key] = Value::Array(tools.clone());
        }
    }
    Ok(line)
}

/// The messages of an input: a list, a message, `{messages}`, `{prompt}`, or a string.
fn input_messages(input: &Value) -> Option<Vec<Value>> {
    match input {
        Value::String(text) if !text.is_empty() => Some(vec![text_message("user", text)]),
        // Some frameworks take several prompts and report a list of one.
        Value::Array(list) if matches!(&list[..], [Value::Array(_)]) => input_messages(&list[0]),
        Value::Array(list) => list.iter().map(|one| message(one, None)).collect(),
        Value::Object(object) if object.contains_key("role") => Some(vec![message(input, None)?]),
        Value::Object(object) => {
            input_messages(object.get("messages").or_else(|| object.get("prompt"))?)
        }
        _ => None,
    }
}

/// The message of an output: a string, a message, `{message}`, `{choices}`, or a list whose first element is one of
/// these.
fn output_message(output: &Value) -> Option<Value> {
    match output {
        Value::String(text) if !text.is_empty() => Some(text_message("assistant", text)),
        Value::Array(list) => output_message(list.first()?),
        Value::Object(object) => match (object.get("choices"), object.get("message")) {
            (Some(choices @ Value::Array(_)), _) => output_message(choices),
            (None, Some(message @ Value::Object(_))) => output_message(message),
            _ => {
                let message = message(output, Some("assistant"))?;
                (message["role"] == "assistant" && has_content(&message)).then_some(message)
            }
        },
        _ => None,
    }
}

fn text_message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// The message with the keys of the format. `role` is the default.
fn message(value: &Value, role: Option<&str>) -> Option<Value> {
    let object = value.as_object()?;
    let role = match object.get("role") {
        Some(role) => role.as_str()?,
        None => role?,
    };
    let role = match role {
        "ai" | "assistant" => "assistant",
        "human" | "user" => "user",
        "system" | "developer" | "tool" | "function" => role,
        _ => return None,
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), role.into());
    for key in MESSAGE_KEYS {
        match object.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Array(list)) if list.is_empty() => {}
            Some(value) => {
                message.insert(key.to_owned(), value.clone());
            }
        }
    }
    let calls = message.contains_key("tool_calls") || message.contains_key("function_call");
    let content = object.get("content").or_else(|| object.get("text"));
    let content = match content {
        None | Some(Value::Null) if calls => Value::Null,
        Some(Value::String(text)) => text.clone().into(),
        Some(Value::Array(parts)) if parts.iter().all(is_part) => parts.clone().into(),
        _ => return None,
    };
    message.insert("content".to_owned(), content);
    Some(Value::Object(message))
}

fn is_part(part: &Value) -> bool {
    let kind = part.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| PART_KINDS.contains(&kind))
}

fn has_content(message: &Value) -> bool {
    let content = match &message["content"] {
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => !parts.is_empty(),
        _ => false,
    };
    content || message.get("tool_calls").is_some() || message.get("function_call").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(input: &Value, output: &Value, expected: &Value) {
        let line = line(Some(&input.to_string()), Some(&output.to_string()));
        assert_eq!(line.as_ref(), Ok(expected), "{input} {output}");
    }

    #[test]
    fn every_shape_of_an_input_becomes_the_same_messages() {
        let expected = json!({"messages": [
            {"role": "user", "content": "why?"}, {"role": "assistant", "content": "because"}
        ]});
        for input in [
            json!("why?"),
            json!({"prompt": "why?"}),
            json!({"role": "user", "content": "why?"}),
            json!([{"role": "user", "content": "why?"}]),
            json!([[{"role": "human", "text": "why?"}]]),
            json!({"messages": [{"role": "user", "text": "why?", "tool_calls": null, "refusal": null}], "temperature": 1}),
            json!({"prompt": [{"role": "user", "content": "why?"}]}),
        ] {
            check(&input, &json!("because"), &expected);
        }
    }

    #[test]
    fn every_shape_of_an_output_becomes_the_same_answer() {
        let expected = json!({"messages": [
            {"role": "user", "content": "why?"}, {"role": "assistant", "content": "because"}
        ]});
        for output in [
            json!("because"),
            json!({"role": "assistant", "content": "because"}),
            json!({"role": "ai", "text": "because", "tool_calls": []}),
            json!({"content": "because"}),
            json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "because"}}]}),
            json!([{"role": "assistant", "content": "because"}, {"role": "assistant", "content": "another"}]),
            json!({"message": {"role": "assistant", "content": "because"}}),
        ] {
            check(&json!("why?"), &output, &expected);
        }
    }

    #[test]
    fn tool_calls_and_tools_are_kept() {
        let calls =
            json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        check(
            &json!({"messages": [
                {"role": "user", "content": [{"type": "text", "text": "why?"}]},
                {"role": "assistant", "content": null, "tool_calls": calls},
                {"role": "tool", "content": "18 C", "tool_call_id": "c"}
            ], "tools": tools}),
            &json!({"role": "assistant", "content": null, "tool_calls": calls}),
            &json!({"messages": [
                {"role": "user", "content": [{"type": "text", "text": "why?"}]},
                {"role": "assistant", "content": null, "tool_calls": calls},
                {"role": "tool", "content": "18 C", "tool_call_id": "c"},
                {"role": "assistant", "content": null, "tool_calls": calls}
            ], "tools": tools}),
        );
    }

    #[test]
    fn an_unknown_shape_is_left_out_with_its_reason() {
        for (input, output, reason) in [
            (None, Some(r#""x""#), LeftOut::NoInput),
            (Some(r#""x""#), None, LeftOut::NoOutput),
            (Some("[]"), Some(r#""x""#), LeftOut::InputShape),
            (Some("7"), Some(r#""x""#), LeftOut::InputShape),
            (
                Some(r#"{"question": "x"}"#),
                Some(r#""x""#),
                LeftOut::InputShape,
            ),
            (Some(r#"["x", "y"]"#), Some(r#""x""#), LeftOut::InputShape),
            (
                Some(r#"[{"role": "robot", "content": "x"}]"#),
                Some(r#""x""#),
                LeftOut::InputShape,
            ),
            (
                Some(r#"[{"role": "user"}]"#),
                Some(r#""x""#),
                LeftOut::InputShape,
            ),
            (Some(r#""x""#), Some(r#""""#), LeftOut::OutputShape),
            (
                Some(r#""x""#),
                Some(r#"{"role": "user", "content": "x"}"#),
                LeftOut::OutputShape,
            ),
            (
                Some(r#""x""#),
                Some(r#"{"role": "assistant", "content": ""}"#),
                LeftOut::OutputShape,
            ),
            (
                Some(r#""x""#),
                Some(r#"{"choices": []}"#),
                LeftOut::OutputShape,
            ),
            (
                Some(r#""x""#),
                Some(r#"{"content": [{"type": "tool_use"}]}"#),
                LeftOut::OutputShape,
            ),
        ] {
            assert_eq!(line(input, output), Err(reason), "{input:?} {output:?}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from),
            prop_oneof![Just("user"), Just("assistant"), Just("ai")].prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 4, |inner| {
            let key = prop_oneof![
                Just("role"),
                Just("content"),
                Just("text"),
                Just("messages"),
                Just("prompt"),
                Just("choices"),
                Just("message"),
                Just("tool_calls"),
                Just("type"),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..4).prop_map(|pairs| {
                    Value::Object(
                        pairs
                            .into_iter()
                            .map(|(key, value)| (key.to_owned(), value))
                            .collect(),
                    )
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_line_is_a_conversation_that_the_assistant_ends(input in any_json(), output in any_json()) {
            if let Ok(line) = line(Some(&input.to_string()), Some(&output.to_string())) {
                let messages = line["messages"].as_array().unwrap();
                prop_assert!(messages.len() >= 2);
                prop_assert_eq!(&messages[messages.len() - 1]["role"], "assistant");
                for message in messages {
                    prop_assert!(message["role"].is_string());
                    let content = &message["content"];
                    prop_assert!(content.is_string() || content.is_array() || content.is_null());
                }
            }
        }
    }
}
