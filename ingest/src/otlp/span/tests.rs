//! What single spans become.

use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::Status;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use serde_json::{Value, json};

use super::*;
use crate::config::ClientCost;

const TERMS: Terms = Terms {
    now_ms: 1_795_200_000_000,
    client_cost: ClientCost::TableFirst,
};
const NANOS: u64 = 1_795_000_000_000_000_000;
const READ: Read<'static> = Read {
    terms: TERMS,
    model: None,
};

pub(crate) fn any(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(yes) => Some(Any::BoolValue(*yes)),
        Value::Number(number) => Some(match number.as_i64() {
            Some(number) => Any::IntValue(number),
            None => Any::DoubleValue(number.as_f64().unwrap()),
        }),
        Value::String(text) => Some(Any::StringValue(text.clone())),
        Value::Array(list) => Some(Any::ArrayValue(ArrayValue {
            values: list.iter().map(any).collect(),
        })),
        Value::Object(_) => Some(Any::KvlistValue(KeyValueList {
            values: attributes(value.clone()),
        })),
    };
    AnyValue { value }
}

pub(crate) fn attributes(object: Value) -> Vec<KeyValue> {
    let pairs = object.as_object().unwrap().iter();
    pairs
        .map(|(key, value)| KeyValue {
            key: key.clone(),
            value: Some(any(value)),
            ..KeyValue::default()
        })
        .collect()
}

fn span(object: Value) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: "step".to_owned(),
        start_time_unix_nano: NANOS,
        end_time_unix_nano: NANOS + 1_999_999,
        attributes: attributes(object),
        ..Span::default()
    }
}

#[track_caller]
fn events(span: &Span) -> [Value; 2] {
    let mut out = b"[".to_vec();
    write(span, &Source::default(), &mut out, READ).unwrap();
    out.push(b']');
    serde_json::from_slice(&out).unwrap()
}

/// Checks the fields of both events, without the fields that every span has.
#[track_caller]
fn check(object: Value, expected: [Value; 2]) {
    let mut events = events(&span(object.clone()));
    for event in &mut events {
        let event = event.as_object_mut().unwrap();
        for field in ["event_id", "run_id", "timestamp"] {
            assert!(event.remove(field).is_some(), "{object}");
        }
        // Of what was said, where the response has no identifier; `fingerprint.rs` has its tests.
        let names_response = event.contains_key("response_id");
        let fingerprint = event.remove("call_fingerprint");
        assert!(fingerprint.is_none() || !names_response, "{object}");
        if let Some(metadata) = event.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("trace_id");
            if metadata.is_empty() {
                event.remove("metadata");
            }
        }
    }
    assert_eq!(events, expected, "{object}");
}

#[track_caller]
fn check_kind(object: Value, kind: &str) {
    assert_eq!(events(&span(object.clone()))[0]["type"], kind, "{object}");
}

#[test]
fn every_convention_says_what_a_span_is() {
    for (name, kind) in [
        ("LLM", "llm"),
        ("EMBEDDING", "llm"),
        ("llm", "llm"),
        ("CHAIN", "chain"),
        ("AGENT", "agent"),
        ("TOOL", "tool"),
        ("RETRIEVER", "retriever"),
        ("RERANKER", "reranker"),
        ("GUARDRAIL", "guardrail"),
        ("EVALUATOR", "evaluator"),
        ("UNKNOWN", "span"),
    ] {
        check_kind(json!({"openinference.span.kind": name}), kind);
    }
    for (name, kind) in [
        ("chat", "llm"),
        ("text_completion", "llm"),
        ("generate_content", "llm"),
        ("embeddings", "llm"),
        ("execute_tool", "tool"),
        ("invoke_agent", "agent"),
        ("create_agent", "agent"),
        ("invoke_workflow", "chain"),
        ("something_new", "chain"),
    ] {
        check_kind(json!({"gen_ai.operation.name": name}), kind);
    }
    for (name, kind) in [
        ("workflow", "chain"),
        ("task", "chain"),
        ("agent", "agent"),
        ("tool", "tool"),
    ] {
        check_kind(json!({"traceloop.span.kind": name}), kind);
        check_kind(json!({"agentops.span.kind": name}), kind);
    }
    check_kind(json!({"llm.request.type": "chat"}), "llm");
    check_kind(json!({"http.request.method": "GET"}), "span");
    // One that says it all, and another that was there before.
    check_kind(
        json!({"openinference.span.kind": "TOOL", "gen_ai.operation.name": "chat"}),
        "tool",
    );
}

#[test]
fn a_model_call_in_the_former_words_says_the_same() {
    let end = json!({
        "name": "step_end", "type": "llm", "model": "gpt-4o-2024", "prompt_tokens": 37, "completion_tokens": 11,
        "total_tokens": 48, "cached_tokens": 8, "estimated_cost": 0.25,
        "output": {"role": "assistant", "content": "yes", "finish_reason": "stop"},
    });
    let input =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "well?"}]);
    check(
        json!({
            "llm.request.type": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024",
            "gen_ai.usage.prompt_tokens": 37, "gen_ai.usage.completion_tokens": 11, "llm.usage.total_tokens": 48,
            "gen_ai.usage.cache_read_input_tokens": 8, "gen_ai.usage.cost": 0.25,
            "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief.",
            "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "well?",
            "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "yes",
            "gen_ai.completion.0.finish_reason": "stop",
            "traceloop.association.properties.user_id": "ann",
            "traceloop.association.properties.session_id": "t-1",
        }),
        [
            json!({
                "name": "step_start", "type": "llm", "input": input, "user_email": "ann", "thread_id": "t-1",
                "metadata": {"llm.request.type": "chat", "gen_ai.request.model": "gpt-4o"},
            }),
            end.clone(),
        ],
    );
    check(
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.response.model": "gpt-4o-2024",
            "gen_ai.usage.input_tokens": 37, "gen_ai.usage.output_tokens": 11, "gen_ai.usage.total_tokens": 48,
            "gen_ai.usage.cache_read.input_tokens": 8, "gen_ai.usage.cost": "0.25",
            "gen_ai.system_instructions": r#"[{"type": "text", "content": "Be brief."}]"#,
            "gen_ai.input.messages": r#"[{"role": "user", "parts": [{"type": "text", "content": "well?"}]}]"#,
            "gen_ai.output.messages": [{"role": "assistant", "finish_reason": "stop",
                "parts": [{"type": "text", "content": "yes"}]}],
            "enduser.id": "ann", "gen_ai.conversation.id": "t-1",
        }),
        [
            json!({
                "name": "step_start", "type": "llm", "input": input, "user_email": "ann", "thread_id": "t-1",
                "metadata": {"gen_ai.operation.name": "chat"},
            }),
            end,
        ],
    );
}

/// What a model call of two seconds has.
fn ttft_ms(attributes: Value, events: &[(&str, u64)]) -> Value {
    let mut span = span(attributes);
    span.end_time_unix_nano = NANOS + 2_000_000_000;
    span.attributes
        .extend(self::attributes(json!({"gen_ai.operation.name": "chat"})));
    span.events = events
        .iter()
        .map(|(name, after_ms)| Event {
            name: (*name).to_owned(),
            time_unix_nano: NANOS + after_ms * 1_000_000,
            ..Event::default()
        })
        .collect();
    let [_, end] = self::events(&span);
    end["ttft_ms"].clone()
}

#[test]
fn the_time_to_the_first_token_is_in_milliseconds_from_the_start() {
    let at = |ms: i64| {
        let nanos = i64::try_from(NANOS).unwrap() + ms * 1_000_000;
        chrono::DateTime::from_timestamp_nanos(nanos).to_rfc3339()
    };
    for (attributes, expected) in [
        (json!({"gen_ai.response.time_to_first_chunk": 0.0955}), 96),
        (
            json!({"gen_ai.client.operation.time_to_first_chunk": 0.25}),
            250,
        ),
        (json!({"ai.response.msToFirstChunk": 87.6}), 88),
        (json!({"ai.stream.msToFirstChunk": 88}), 88),
        // Seconds by the conventions, milliseconds from Strands Agents.
        (json!({"gen_ai.server.time_to_first_token": 1.5}), 1500),
        (json!({"gen_ai.server.time_to_first_token": 88}), 88),
        (
            json!({"langfuse.observation.completion_start_time": at(700)}),
            700,
        ),
        (
            json!({"langfuse.observation.completion_start_time": format!("\"{}\"", at(700))}),
            700,
        ),
        (json!({"mastra.completion_start_time": at(700)}), 700),
    ] {
        assert_eq!(ttft_ms(attributes.clone(), &[]), expected, "{attributes}");
    }
    for name in [
        "First Token Stream Event",
        "ai.stream.firstChunk",
        "gen_ai.content.completion.chunk",
    ] {
        let events = [(name, 900), (name, 300)];
        assert_eq!(ttft_ms(json!({}), &events), 300, "{name}");
    }
    // Not within the call.
    for attributes in [
        json!({"gen_ai.response.time_to_first_chunk": 3.0}),
        json!({"gen_ai.response.time_to_first_chunk": -1.0}),
        json!({"mastra.completion_start_time": at(-5)}),
        json!({"mastra.completion_start_time": "soon"}),
    ] {
        assert_eq!(
            ttft_ms(attributes.clone(), &[]),
            Value::Null,
            "{attributes}"
        );
    }
    let [_, end] = events(&span(json!({"gen_ai.response.time_to_first_chunk": 0.1})));
    assert_eq!(end["ttft_ms"], Value::Null, "no model call");
}

#[test]
fn only_model_calls_carry_tokens_and_models() {
    check(
        json!({
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "triage", "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.cost": 5.0,
            "gen_ai.input.messages": r#"[{"role": "user", "parts": [{"type": "text", "content": "well?"}]}]"#,
        }),
        [
            json!({
                "name": "triage_start", "type": "agent", "agent": "triage",
                "input": [{"role": "user", "content": "well?"}],
                "metadata": {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "gpt-4o",
                    "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.cost": 5.0},
            }),
            json!({"name": "triage_end", "type": "agent"}),
        ],
    );
}

#[test]
fn an_embedding_is_paid_for_and_says_what_was_embedded() {
    check(
        json!({
            "openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small",
            "llm.token_count.prompt": 4, "llm.token_count.total": 4,
            "embedding.embeddings.0.embedding.text": "a", "embedding.embeddings.1.embedding.text": "b",
            "embedding.embeddings.0.embedding.vector": [0.5, 0.25],
        }),
        [
            json!({
                "name": "step_start", "type": "llm",
                "input": [{"embedding": {"text": "a"}}, {"embedding": {"text": "b"}}],
                "metadata": {"openinference.span.kind": "EMBEDDING"},
            }),
            json!({"name": "step_end", "type": "llm", "model": "text-embedding-3-small", "prompt_tokens": 4, "completion_tokens": 0, "total_tokens": 4}),
        ],
    );
}

#[test]
fn tools_and_retrievers_have_their_own_words() {
    check(
        json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.arguments": r#"{"city": "Paris"}"#, "gen_ai.tool.call.result": "rain",
        }),
        [
            json!({"name": "weather_start", "type": "tool", "input": {"city": "Paris"},
                "metadata": {"gen_ai.operation.name": "execute_tool"}}),
            json!({"name": "weather_end", "type": "tool", "output": "rain"}),
        ],
    );
    check(
        json!({"traceloop.span.kind": "tool", "traceloop.entity.name": "weather", "traceloop.entity.input": "[1]"}),
        [
            json!({"name": "weather_start", "type": "tool", "input": [1], "metadata": {"traceloop.span.kind": "tool"}}),
            json!({"name": "weather_end", "type": "tool"}),
        ],
    );
    check(
        json!({
            "openinference.span.kind": "RETRIEVER", "input.value": "{not JSON", "input.mime_type": "application/json",
            "retrieval.documents.0.document.content": "a", "retrieval.documents.0.document.score": 0.5,
        }),
        [
            json!({"name": "step_start", "type": "retriever", "input": "{not JSON"}),
            json!({"name": "step_end", "type": "retriever", "output": [{"document": {"content": "a", "score": 0.5}}]}),
        ],
    );
}

#[test]
fn a_value_is_json_where_it_is_said_or_seen_to_be() {
    for (value, mime_type, expected) in [
        (
            json!("{\"a\": 1}"),
            Some("application/json"),
            json!({"a": 1}),
        ),
        (json!("{\"a\": 1}"), Some("text/plain"), json!("{\"a\": 1}")),
        (json!("{\"a\": 1}"), None, json!({"a": 1})),
        (json!("42"), Some("application/json"), json!(42)),
        (json!("42"), None, json!("42")),
        (json!([1, {"a": null}]), None, json!([1, {}])),
        (json!("[1e999]"), None, json!("[1e999]")),
        (json!("[".repeat(1000)), None, json!("[".repeat(1000))),
    ] {
        let mut object = json!({"input.value": value});
        if let Some(mime_type) = mime_type {
            object["input.mime_type"] = json!(mime_type);
        }
        assert_eq!(
            events(&span(object.clone()))[0]["input"],
            expected,
            "{object}"
        );
    }
}

#[test]
fn the_applications_own_metadata_and_tags_are_its_own() {
    check(
        json!({
            "metadata": r#"{"plan": "pro", "app_id": 7, "tags": 1, "none": null}"#,
            "tag.tags": ["a", "", 5, "b"], "langfuse.trace.tags": r#"["c"]"#,
            "spindle.app_id": "support", "user.id": 42, "plan": "overruled",
        }),
        [
            json!({
                "name": "step_start", "type": "span", "app_id": "support", "user_email": "42", "tags": ["a", "b", "c"],
                "metadata": {"plan": "pro", "attribute.app_id": 7, "attribute.tags": 1},
            }),
            json!({"name": "step_end", "type": "span", "app_id": "support"}),
        ],
    );
    check(
        json!({"metadata": r#"{"plan": "pro", "user_id": "ada", "tags": ["v1"]}"#}),
        [
            json!({
                "name": "step_start", "type": "span", "user_email": "ada", "tags": ["v1"],
                "metadata": {"plan": "pro", "user_id": "ada"},
            }),
            json!({"name": "step_end", "type": "span"}),
        ],
    );
}

#[test]
fn a_failed_span_says_what_its_last_exception_said() {
    let exception = |kind: &str| Event {
        name: "exception".to_owned(),
        time_unix_nano: NANOS,
        attributes: attributes(
            json!({"exception.type": kind, "exception.message": "no", "exception.stacktrace": "at"}),
        ),
        ..Event::default()
    };
    let mut failed = span(json!({"error.type": "Timeout"}));
    failed.status = Some(Status {
        message: "it failed".to_owned(),
        code: StatusCode::Error as i32,
    });
    let end = |span: &Span| events(span)[1].clone();
    assert_eq!(end(&failed)["name"], "step_error");
    assert_eq!(
        end(&failed)["error"],
        json!({"name": "Timeout", "message": "it failed"})
    );
    failed.events = vec![exception("First"), exception("Last")];
    assert_eq!(
        end(&failed)["error"],
        json!({"name": "Last", "message": "no", "stack": "at"})
    );
    assert_eq!(
        end(&failed)["metadata"]["events"].as_array().unwrap().len(),
        1
    );
    // A handled exception is no failure.
    failed.status = None;
    assert_eq!(end(&failed)["name"], "step_end");
    assert_eq!(end(&failed).get("error"), None);
    assert_eq!(
        end(&failed)["metadata"]["events"][1]["attributes"]["exception.type"],
        "Last"
    );
}

#[test]
fn links_and_events_are_kept_within_bounds() {
    let mut span = span(json!({}));
    span.links = vec![Link {
        trace_id: vec![3; 16],
        span_id: vec![4; 8],
        attributes: attributes(json!({"why": "retry"})),
        ..Link::default()
    }];
    span.events = (0..70)
        .map(|_| Event {
            name: "tick".to_owned(),
            time_unix_nano: NANOS,
            ..Event::default()
        })
        .collect();
    span.dropped_events_count = 4;
    let [_, end] = events(&span);
    let link = json!({"trace_id": "03".repeat(16), "run_id": "04".repeat(8), "attributes": {"why": "retry"}});
    assert_eq!(end["metadata"]["links"], json!([link]));
    assert_eq!(end["metadata"]["events"].as_array().unwrap().len(), 64);
    assert_eq!(end["metadata"]["dropped_events"], 10);
}

#[test]
fn what_was_said_in_events_is_input_and_output() {
    let mut call = span(json!({"gen_ai.operation.name": "chat"}));
    let event = |name: &str, object: Value| Event {
        name: name.to_owned(),
        attributes: attributes(object),
        ..Event::default()
    };
    call.events = vec![
        event(
            "gen_ai.user.message",
            json!({"content": "well?", "gen_ai.system": "openai"}),
        ),
        event(
            "gen_ai.choice",
            json!({"index": 0, "message": r#"{"role": "assistant", "content": "yes"}"#}),
        ),
    ];
    let [start, end] = events(&call);
    assert_eq!(
        start["input"],
        json!([{"role": "user", "content": "well?"}])
    );
    assert_eq!(
        end["output"],
        json!({"role": "assistant", "content": "yes"})
    );
    assert_eq!(end.get("metadata"), None);
}

#[test]
fn what_is_too_much_is_cut_or_refused() {
    let mut long = span(json!({"note": "é".repeat(9000), "many": vec![0; 200_000]}));
    long.name = "é".repeat(600);
    let [start, _] = events(&long);
    assert_eq!(start["name"].as_str().unwrap().len(), 506 + "_start".len());
    let note = start["metadata"]["note"].as_str().unwrap();
    assert!(note.ends_with("… (18000 bytes)") && note.len() < 9000);
    assert!(start["metadata"]["many"].is_string());
    let large =
        span(json!({"input.value": "\u{1}".repeat(limits::EVENT_BYTES), "output.value": "yes"}));
    let [start, end] = events(&large);
    let input = start["input"].as_str().unwrap();
    assert!(input.ends_with("… (1048576 bytes)") && input.len() < 100_000);
    assert_eq!(end["output"], "yes");
}

#[test]
fn a_large_answer_of_a_model_keeps_its_tokens() {
    let [_, end] = events(&span(json!({
        "openinference.span.kind": "LLM", "llm.token_count.prompt": 7, "llm.cost.total": 0.5,
        "llm.output_messages.0.message.content": "\"".repeat(3 * limits::EVENT_BYTES),
    })));
    assert_eq!(
        (&end["prompt_tokens"], &end["estimated_cost"]),
        (&json!(7), &json!(0.5))
    );
    assert!(end["output"].as_str().unwrap().contains("…"));
}

#[test]
fn a_model_call_is_known_without_the_name_of_its_operation() {
    for (object, kind) in [
        (
            json!({"gen_ai.request.model": "m", "gen_ai.system": "openai"}),
            "llm",
        ),
        (
            json!({"gen_ai.request.model": "m", "gen_ai.provider.name": "openai"}),
            "llm",
        ),
        (json!({"gen_ai.request.model": "m"}), "span"),
        (
            json!({"gen_ai.request.model": "m", "gen_ai.system": "openai", "gen_ai.agent.name": "a"}),
            "span",
        ),
        (
            json!({"gen_ai.request.model": "m", "gen_ai.system": "openai", "gen_ai.tool.name": "t"}),
            "tool",
        ),
        (
            json!({"gen_ai.request.model": "m", "gen_ai.system": "openai", "traceloop.span.kind": "task"}),
            "chain",
        ),
        (
            json!({"gen_ai.usage.input_tokens": 5, "gen_ai.system": "openai"}),
            "span",
        ),
        (json!({"gen_ai.operation.name": "Chat"}), "llm"),
        (json!({"gen_ai.operation.name": "chat.completions"}), "llm"),
        (json!({"gen_ai.operation.name": "responses"}), "llm"),
        (json!({"gen_ai.operation.name": "embedding"}), "llm"),
        (json!({"gen_ai.operation.name": "EXECUTE_TOOL"}), "tool"),
    ] {
        check_kind(object, kind);
    }
}

#[test]
fn only_our_own_name_tells_the_app_and_an_address_goes_before_an_id() {
    check(
        json!({"app_id": "theirs", "spindle.app_id": 7, "user.id": "u-1", "user.email": "ann@example.com"}),
        [
            json!({
                "name": "step_start", "type": "span", "user_email": "ann@example.com",
                "metadata": {"attribute.app_id": "theirs", "spindle.app_id": 7, "user.id": "u-1"},
            }),
            json!({"name": "step_end", "type": "span"}),
        ],
    );
}

#[test]
fn an_event_of_the_whole_call_is_read_like_the_span() {
    let mut call = span(json!({"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}));
    call.events = vec![Event {
        name: "gen_ai.client.inference.operation.details".to_owned(),
        attributes: attributes(json!({
            "gen_ai.response.model": "other",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.output.messages": r#"[{"role": "assistant", "parts": [{"type": "text", "content": "yes"}]}]"#,
        })),
        ..Event::default()
    }];
    let [_, end] = events(&call);
    assert_eq!(
        end["output"],
        json!({"role": "assistant", "content": "yes"})
    );
    assert_eq!(
        (&end["prompt_tokens"], &end["model"]),
        (&json!(3), &json!("m"))
    );
    assert_eq!(end.get("metadata"), None);
}

#[test]
fn times_and_ids_are_what_they_must_be() {
    for (change, code) in [
        (
            (|span| span.trace_id = vec![0; 16]) as fn(&mut Span),
            "invalid_value",
        ),
        (|span| span.span_id = vec![1; 7], "invalid_value"),
        (|span| span.span_id = vec![], "missing_field"),
        (|span| span.parent_span_id = vec![1; 9], "invalid_value"),
        (|span| span.end_time_unix_nano = 0, "missing_field"),
        (
            |span| span.start_time_unix_nano = 0,
            "timestamp_out_of_range",
        ),
        (
            |span| span.end_time_unix_nano = u64::MAX,
            "timestamp_out_of_range",
        ),
    ] {
        let mut span = span(json!({}));
        change(&mut span);
        let fault = write(&span, &Source::default(), &mut Vec::new(), READ).unwrap_err();
        assert_eq!(fault.code.as_str(), code, "{fault:?}");
    }
    // Some clients send zeros for no parent.
    let mut root = span(json!({}));
    root.parent_span_id = vec![0; 8];
    assert_eq!(events(&root)[0].get("parent_run_id"), None);
}

#[test]
fn a_text_that_was_continued_is_input_and_output() {
    check(
        json!({
            "openinference.span.kind": "LLM", "llm.prompts.0.prompt.text": "Once", "llm.choices.0.completion.text": "upon",
            "llm.choices.1": 5,
        }),
        [
            json!({"name": "step_start", "type": "llm", "input": [{"role": "user", "content": "Once"}]}),
            json!({"name": "step_end", "type": "llm", "output": {"role": "assistant", "content": "upon"}}),
        ],
    );
}
