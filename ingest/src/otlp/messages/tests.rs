//! Messages of each shape.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(given: Value, expected: Value) {
    let any = Any::StringValue(given.to_string());
    assert_eq!(Value::from(of_attribute(&any, "user")), expected, "{given}");
}

#[test]
fn parts_of_the_genai_conventions_become_contents_and_calls() {
    check(
        json!([
            {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
            {"role": "assistant", "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
            ], "finish_reason": "tool_call"},
            {"role": "tool", "parts": [
                {"type": "tool_call_response", "id": "c1", "response": {"celsius": 18}},
                {"type": "tool_call_response", "id": "c2", "result": "none"}
            ]},
        ]),
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": null, "finish_reason": "tool_call", "reasoning_content": "hm",
             "tool_calls": [{"id": "c1", "type": "function", "function":
                {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"celsius\":18}"},
            {"role": "tool", "tool_call_id": "c2", "content": "none"},
        ]),
    );
}

#[test]
fn several_parts_stay_several() {
    check(
        json!([{"role": "user", "parts": [
            {"type": "text", "content": "look"},
            {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
            {"type": "blob", "mime_type": "audio/wav", "content": "AAAA"}
        ]}]),
        json!([{"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "blob", "mime_type": "audio/wav", "content": "AAAA"}
        ]}]),
    );
}

#[test]
fn openinference_wraps_messages_calls_and_contents() {
    check(
        json!([
            {"message": {"role": "assistant", "tool_calls": [
                {"tool_call": {"id": "c1", "function": {"name": "f", "arguments": "{}"}}}]}},
            {"message": {"role": "user", "contents": [
                {"message_content": {"type": "text", "text": "see"}},
                {"message_content": {"type": "image", "image": {"image": {"url": "u"}}}}]}},
        ]),
        json!([
            {"role": "assistant", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "user", "content": [
                {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        ]),
    );
}

#[test]
fn openais_own_shape_stays_as_it_is() {
    let messages = json!([
        {"role": "user", "content": "hi", "name": "ann"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]},
    ]);
    check(messages.clone(), messages);
}

#[test]
fn a_text_or_anything_else_is_what_somebody_said() {
    let any = Any::StringValue("hi".into());
    assert_eq!(
        of_attribute(&any, "user"),
        [json!({"role": "user", "content": "hi"})]
    );
    check(
        json!([1, "a"]),
        json!([{"role": "user", "content": 1}, {"role": "user", "content": "a"}]),
    );
    check(
        json!({"content": "x"}),
        json!([{"role": "user", "content": "x"}]),
    );
    assert!(of_attribute(&Any::StringValue(String::new()), "user").is_empty());
}

#[test]
fn instructions_are_a_message_of_the_system() {
    for (given, content) in [
        (
            json!([{"type": "text", "content": "Be brief."}]),
            json!("Be brief."),
        ),
        (json!("Be brief."), json!("Be brief.")),
    ] {
        let text = given
            .as_str()
            .map_or_else(|| given.to_string(), str::to_owned);
        let said = of_instructions(&Any::StringValue(text));
        assert_eq!(said, [json!({"role": "system", "content": content})]);
    }
}

#[test]
fn several_turns_in_one_message_stay_in_order() {
    check(
        json!([{"role": "assistant", "finish_reason": "stop", "parts": [
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}},
            {"type": "tool_call_response", "id": "c1", "response": {"celsius": 18}},
            {"type": "text", "content": "18 degrees"},
        ]}]),
        json!([
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function":
                {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"celsius\":18}"},
            {"role": "assistant", "content": "18 degrees", "finish_reason": "stop"},
        ]),
    );
}

#[test]
fn tool_calls_of_the_ai_sdk_are_those_of_openai() {
    check(
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Paris?"}]},
            {"role": "assistant", "content": [
                {"type": "reasoning", "text": "hm"},
                {"type": "text", "text": "I look."},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Paris"}},
                {"type": "tool-call", "toolCallId": "c2", "toolName": "time", "args": {}},
            ]},
            {"role": "tool", "content": [
                {"type": "tool-result", "toolCallId": "c1", "toolName": "weather",
                 "output": {"type": "json", "value": {"celsius": 18}}},
                {"type": "tool-result", "toolCallId": "c2", "toolName": "time", "result": "noon"},
            ]},
        ]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Paris?"}]},
            {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"celsius\":18}"},
            {"role": "tool", "tool_call_id": "c2", "content": "noon"},
        ]),
    );
}

#[test]
fn a_tool_has_its_arguments_and_its_result_without_the_message_around_them() {
    for (said, value) in [
        (
            json!([{"role": "tool", "content": "{\"city\": \"Paris\"}", "tool_call_id": "c1"}]),
            json!({"city": "Paris"}),
        ),
        (
            json!([{"role": "assistant", "content": null, "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": "[1]"}}]}]),
            json!([1]),
        ),
        (
            json!({"role": "assistant", "content": [{"json": {"celsius": 18}}]}),
            json!({"celsius": 18}),
        ),
        (
            json!({"role": "assistant", "content": "{18}"}),
            json!("{18}"),
        ),
        (json!({"role": "tool"}), json!({"role": "tool"})),
    ] {
        assert_eq!(of_tool(said.clone()), value, "{said}");
    }
    let several = json!([{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]);
    assert_eq!(of_tool(several.clone()), several);
}
