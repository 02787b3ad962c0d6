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
