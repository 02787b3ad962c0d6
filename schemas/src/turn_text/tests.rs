use proptest::prelude::*;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

#[track_caller]
fn asks(expected: Option<&str>, input: &Value) {
    assert_eq!(question(&raw(input)).as_deref(), expected, "{input}");
}

#[track_caller]
fn answers(expected: Option<&str>, output: &Value) {
    assert_eq!(answer(&raw(output)).as_deref(), expected, "{output}");
}

#[test]
fn the_question_is_the_last_text_of_the_user_in_every_shape() {
    let user = json!({"role": "user", "content": "why?"});
    let class = |name: &str, content: &str| {
        json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name],
            "kwargs": {"content": content, "type": "human"}})
    };
    for input in [
        json!("why?"),
        user.clone(),
        json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"}, user]),
        json!({"messages": [user, {"role": "assistant", "content": null, "tool_calls": [{}]}, {"role": "tool", "content": "22"}], "model": "m"}),
        json!([{"role": "user", "content": [{"type": "text", "text": "why?"}, {"type": "image_url", "image_url": {}}]}]),
        json!([{"role": "user", "content": [{"type": "input_text", "text": "why?"}]}]),
        json!([{"role": "user", "content": [{"text": "why?"}]}, {"role": "assistant", "content": [{"toolUse": {"name": "t"}}]},
            {"role": "user", "content": [{"toolResult": {"content": [{"text": "22"}]}}]}]),
        json!([user, {"role": "user", "content": [{"type": "tool_result", "content": "22"}]}]),
        json!([{"role": "user", "parts": [{"type": "text", "content": "why?"}]}]),
        json!({"contents": [{"role": "user", "parts": [{"text": "why?"}]}]}),
        json!([[user]]),
        json!([["human", "why?"]]),
        json!({"messages": [["system", "Be kind."], ["user", "why?"]]}),
        json!([{"type": "human", "data": {"content": "why?"}}]),
        json!({"messages": [{"type": "human", "content": "why?", "id": "1"}]}),
        json!([[
            class("SystemMessage", "Be kind."),
            class("HumanMessage", "why?")
        ]]),
        json!({"messages": [class("HumanMessage", "why?")]}),
        json!({"input": "why?", "chat_history": [{"role": "user", "content": "hi"}]}),
        json!({"question": "why?", "language": "en"}),
        json!({"query": "why?"}),
        json!({"prompts": ["why?"]}),
        json!({"input": {"messages": [user]}}),
        json!({"inputs": {"question": "why?"}}),
        json!({"args": ["why?"], "kwargs": {}}),
        json!(r#"[{"role": "user", "content": "why?"}]"#),
    ] {
        asks(Some("why?"), &input);
    }
    asks(
        Some("a\nb"),
        &json!([{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}]),
    );
    asks(
        Some("Be kind."),
        &json!([{"role": "system", "content": "Be kind."}]),
    );
    asks(Some(r#"{"a": 1}"#), &json!(r#"{"a": 1}"#));
    for input in [
        json!(null),
        json!(7),
        json!(""),
        json!([]),
        json!({"city": "Paris"}),
        json!([{"role": "user", "content": ""}]),
    ] {
        asks(None, &input);
    }
}

#[test]
fn the_answer_is_the_last_text_of_the_assistant_in_every_shape() {
    let assistant = json!({"role": "assistant", "content": "because"});
    for output in [
        json!("because"),
        assistant.clone(),
        json!([assistant]),
        json!({"messages": [{"role": "user", "content": "why?"}, assistant]}),
        json!({"messages": [{"type": "human", "content": "why?"}, {"type": "ai", "content": "because", "tool_calls": []}]}),
        json!({"choices": [{"index": 0, "message": assistant}], "usage": {}}),
        json!({"choices": [{"text": "because"}]}),
        json!({"message": {"role": "assistant", "content": [{"text": "because"}]}, "stop_reason": "end_turn"}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "because"}]}),
        json!([{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "because"}]}]),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "because"}]}}]}),
        json!({"generations": [[{"text": "because", "message": {"kwargs": {}}}]], "llm_output": null}),
        json!({"lc": 1, "id": ["langchain", "AIMessage"], "kwargs": {"content": "because"}}),
        json!([{"type": "text", "text": "because"}]),
        json!({"content": [{"type": "text", "text": "because"}], "model": "m"}),
        json!({"output": "because", "intermediate_steps": []}),
        json!({"answer": "because", "sources": ["s"]}),
        json!({"return_values": {"output": "because"}}),
        json!({"final_output": "because"}),
        json!(r#"{"output": "because"}"#),
    ] {
        answers(Some("because"), &output);
    }
    for output in [
        json!(null),
        json!({}),
        json!({"messages": [{"role": "user", "content": "why?"}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}),
        json!({"temperature": 22}),
    ] {
        answers(None, &output);
    }
}

#[test]
fn only_a_certain_message_replaces_the_beginning_of_an_output() {
    let spoken = |output: &Value| spoken_answer(&raw(output));
    for output in [
        json!([{"role": "assistant", "content": "because"}]),
        json!({"messages": [{"role": "assistant", "content": "because"}], "language": "en"}),
        json!({"choices": [{"message": {"role": "assistant", "content": "because"}}]}),
        json!({"output": "because"}),
    ] {
        assert_eq!(spoken(&output).as_deref(), Some("because"), "{output}");
    }
    for output in [
        json!("because"),
        json!({"output": "because", "code": 7}),
        json!({"city": "Paris"}),
        json!(["a", "b"]),
    ] {
        assert_eq!(spoken(&output), None, "{output}");
    }
    let long = json!([{"role": "assistant", "content": "x".repeat(SPOKEN_BYTES)}]);
    assert_eq!(spoken(&long), None);
}

proptest! {
    /// Whatever comes in, in any depth: no panic, no empty text, none longer than the value (X1).
    #[test]
    fn no_value_makes_it_panic(text in r#"[\[\]{}",:a-c"]{0,40}|(\[|\{"content":|\{"messages":){0,600}"#, depth in 0usize..600) {
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        for text in [text.as_str(), &nested] {
            let Ok(value) = serde_json::from_str::<&RawValue>(text) else { continue };
            for found in [question(value), answer(value), spoken_answer(value)].into_iter().flatten() {
                prop_assert!(!found.trim().is_empty() && found.len() <= text.len());
            }
        }
    }
}
