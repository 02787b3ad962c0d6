//! Events with one message each (`gen_ai.user.message`, `gen_ai.choice`): log records of a span, or events on it.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use serde_json::{Map, Value};

use super::messages::{self, Said};
use super::value::{held, object, parsed};

/// All of a call in one event, with the attributes of a span.
pub(crate) const DETAILS: &str = "gen_ai.client.inference.operation.details";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageEvent {
    /// A message to the model, with its role.
    To(&'static str),
    Choice,
    /// The first form, of 2024: all messages in one attribute.
    Prompt,
    /// The same for the output.
    Completion,
}

impl MessageEvent {
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "gen_ai.system.message" => Self::To("system"),
            "gen_ai.user.message" => Self::To("user"),
            "gen_ai.assistant.message" => Self::To("assistant"),
            "gen_ai.tool.message" => Self::To("tool"),
            "gen_ai.choice" => Self::Choice,
            "gen_ai.content.prompt" => Self::Prompt,
            "gen_ai.content.completion" => Self::Completion,
            _ => return None,
        })
    }

    /// `body` is the log record's; an event on a span has attributes only.
    pub(crate) fn add_to(self, said: &mut Said, body: Option<Value>, attributes: &[KeyValue]) {
        let attribute = |key: &str| {
            let pair = attributes.iter().find(|pair| pair.key == key)?;
            held(pair.value.as_ref())
        };
        match self {
            Self::To(role) => {
                let mut fields = fields(body, attributes);
                if role == "tool"
                    && let Some(id) = fields.remove("id")
                {
                    fields.entry("tool_call_id").or_insert(id);
                }
                said.input
                    .extend(messages::of_value(Value::Object(fields), role));
            }
            Self::Choice => {
                let mut fields = fields(body, attributes);
                fields.remove("index");
                if !fields.contains_key("message") {
                    fields.entry("content").or_insert(Value::Null);
                }
                said.output
                    .extend(messages::of_value(Value::Object(fields), "assistant"));
            }
            Self::Prompt => {
                let any = attribute("gen_ai.prompt");
                said.input.extend(
                    any.into_iter()
                        .flat_map(|any| messages::of_attribute(any, "user")),
                );
            }
            Self::Completion => {
                let any = attribute("gen_ai.completion");
                let messages = any
                    .into_iter()
                    .flat_map(|any| messages::of_attribute(any, "assistant"));
                said.output.extend(messages);
            }
        }
    }
}

/// The fields of a message: the body, else the JSON in `gen_ai.event.content`, else the attributes, except the one that
/// names the system.
fn fields(body: Option<Value>, attributes: &[KeyValue]) -> Map<String, Value> {
    match body {
        Some(Value::Object(fields)) => return fields,
        Some(Value::Null) | None => {}
        Some(other) => return Map::from_iter([("content".to_owned(), other)]),
    }
    let mut fields = object(attributes);
    for key in ["gen_ai.system", "gen_ai.provider.name", "event.name"] {
        fields.remove(key);
    }
    if let Some(Value::String(text)) = fields.remove("gen_ai.event.content") {
        return match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::from_iter([("content".to_owned(), text.into())]),
        };
    }
    for key in ["message", "tool_calls"] {
        let pair = attributes.iter().find(|pair| pair.key == key);
        if let Some(any) = pair.and_then(|pair| held(pair.value.as_ref())) {
            fields.insert(key.to_owned(), parsed(any));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use serde_json::json;

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<KeyValue> {
        let pairs = pairs.into_iter().map(|(key, text)| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue {
                value: Some(Any::StringValue(text.to_owned())),
            }),
            ..KeyValue::default()
        });
        pairs.collect()
    }

    #[track_caller]
    fn check(name: &str, body: Option<Value>, attributes: &[KeyValue], expected: Value) {
        let mut said = Said::default();
        MessageEvent::of(name)
            .unwrap()
            .add_to(&mut said, body, attributes);
        let heard = json!({"input": said.input, "output": said.output});
        assert_eq!(heard, expected, "{name}");
    }

    #[test]
    fn a_message_is_read_from_the_body_or_from_the_attributes() {
        let expected = json!({"input": [{"role": "user", "content": "hi"}], "output": []});
        let name = "gen_ai.user.message";
        check(name, Some(json!({"content": "hi"})), &[], expected.clone());
        check(
            name,
            None,
            &pairs([("gen_ai.system", "openai"), ("content", "hi")]),
            expected.clone(),
        );
        let content = pairs([(
            "gen_ai.event.content",
            r#"{"role": "user", "content": "hi"}"#,
        )]);
        check(name, None, &content, expected);
    }

    #[test]
    fn the_answer_of_a_tool_names_its_call() {
        check(
            "gen_ai.tool.message",
            Some(json!({"content": "18", "id": "c1"})),
            &[],
            json!({"input": [{"role": "tool", "content": "18", "tool_call_id": "c1"}], "output": []}),
        );
    }

    #[test]
    fn a_message_that_is_no_object_is_what_was_said() {
        let said = |content: Value| json!({"input": [], "output": [{"role": "assistant", "content": content}]});
        let list = pairs([("message", r#"[{"text":"yo"}]"#)]);
        check("gen_ai.choice", None, &list, said(json!("yo")));
        check(
            "gen_ai.choice",
            Some(json!({"message": "yo"})),
            &[],
            said(json!("yo")),
        );
        let parts = pairs([("content", r#"[{"type": "text", "text": "yo"}]"#)]);
        check(
            "gen_ai.choice",
            None,
            &parts,
            said(json!([{"type": "text", "text": "yo"}])),
        );
        let typed = pairs([("content", "[1, 2]")]);
        check("gen_ai.choice", None, &typed, said(json!("[1, 2]")));
    }

    #[test]
    fn an_answer_carries_why_it_ended() {
        check(
            "gen_ai.choice",
            Some(
                json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}),
            ),
            &[],
            json!({"input": [], "output": [{"role": "assistant", "content": "yes", "finish_reason": "stop"}]}),
        );
        check(
            "gen_ai.content.completion",
            None,
            &pairs([(
                "gen_ai.completion",
                r#"[{"role": "assistant", "content": "yes"}]"#,
            )]),
            json!({"input": [], "output": [{"role": "assistant", "content": "yes"}]}),
        );
    }
}
