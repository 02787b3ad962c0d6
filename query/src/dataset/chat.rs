//! From the input and output of a model call to a line of OpenAI's fine-tuning format: `{"messages": [...]}`. Pure.
//!
//! Clients report messages in several shapes; what is understood becomes `role`, `content`, `name` and the calls of
//! tools, and nothing else, because the format refuses keys it does not know. What is not understood is left out with
//! a reason rather than guessed at.

use serde_json::{Map, Value, json};

/// Why a run is not a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    /// Not a model call.
    NotLlm,
    /// There is no input.
    NoInput,
    /// The input is not messages, or not only.
    InputShape,
    /// There is no output.
    NoOutput,
    /// The output is not an answer of the assistant.
    OutputShape,
}

impl LeftOut {
    /// As the report has it.
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

/// What may be in a message, beside role and content.
const MESSAGE_KEYS: [&str; 4] = ["name", "tool_calls", "tool_call_id", "function_call"];
/// What may be in a part of a content.
const PART_KINDS: [&str; 5] = ["text", "image_url", "input_audio", "file", "refusal"];

/// The line of a model call. JSON texts in, one JSON object out.
pub(crate) fn line(input: Option<&str>, output: Option<&str>) -> Result<Value, LeftOut> {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let input = input.ok_or(LeftOut::NoInput)?;
    let input = read(input).ok_or(LeftOut::InputShape)?;
    let mut messages = asked(&input).ok_or(LeftOut::InputShape)?;
    if messages.is_empty() {
        return Err(LeftOut::InputShape);
    }
    let output = output.ok_or(LeftOut::NoOutput)?;
    let output = read(output).ok_or(LeftOut::OutputShape)?;
    messages.push(answered(&output).ok_or(LeftOut::OutputShape)?);
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

/// The messages of an input: a list of them, one, `{messages}`, `{prompt}`, or text.
fn asked(input: &Value) -> Option<Vec<Value>> {
    match input {
        Value::String(text) if !text.is_empty() => Some(vec![said("user", text)]),
        // Some frameworks ask for several prompts at once, and then hand over a list of one.
        Value::Array(list) if matches!(&list[..], [Value::Array(_)]) => asked(&list[0]),
        Value::Array(list) => list.iter().map(|one| message(one, None)).collect(),
        Value::Object(object) if object.contains_key("role") => Some(vec![message(input, None)?]),
        Value::Object(object) => asked(object.get("messages").or_else(|| object.get("prompt"))?),
        _ => None,
    }
}

/// The answer in an output: text, a message, `{message}`, `{choices}`, or a list whose first element is one of these.
fn answered(output: &Value) -> Option<Value> {
    match output {
        Value::String(text) if !text.is_empty() => Some(said("assistant", text)),
        Value::Array(list) => answered(list.first()?),
        Value::Object(object) => match (object.get("choices"), object.get("message")) {
            (Some(choices @ Value::Array(_)), _) => answered(choices),
            (None, Some(message @ Value::Object(_))) => answered(message),
            _ => {
                let message = message(output, Some("assistant"))?;
                (message["role"] == "assistant" && says_something(&message)).then_some(message)
            }
        },
        _ => None,
    }
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// A message with the keys the format knows. `role` is for messages that name none.
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

fn says_something(message: &Value) -> bool {
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
    fn calls_of_tools_and_the_tools_themselves_stay() {
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
    fn what_cannot_be_shown_is_left_out_with_its_reason() {
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
        fn whatever_comes_in_a_line_is_a_conversation_that_the_assistant_ends(input in any_json(), output in any_json()) {
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
