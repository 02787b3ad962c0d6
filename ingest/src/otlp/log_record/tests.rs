//! What log records become.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use schemas::event::Dialect;
use serde_json::{Value, json};

use super::*;
use crate::config::ClientCost;
use crate::otlp::span::tests::{any, attributes};

const NOW_MS: i64 = 1_795_200_000_000;
const NANOS: u64 = 1_795_000_000_000_000_000;

fn record(name: &str, at_ms: u64, body: Value, object: Value) -> LogRecord {
    LogRecord {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        time_unix_nano: NANOS + at_ms * 1_000_000,
        event_name: name.to_owned(),
        body: Some(any(&body)),
        attributes: attributes(object),
        ..LogRecord::default()
    }
}

#[track_caller]
fn events(records: Vec<LogRecord>) -> Vec<Value> {
    events_of(Source::default(), records)
}

#[track_caller]
fn events_of(source: Source, records: Vec<LogRecord>) -> Vec<Value> {
    let source = Arc::new(source);
    let mut out = b"[".to_vec();
    let mut runs = Runs::default();
    for (index, record) in records.into_iter().enumerate() {
        let incoming = Incoming {
            index,
            record,
            source: &source,
            terms: Terms {
                now_ms: NOW_MS,
                client_cost: ClientCost::TableFirst,
            },
        };
        runs.add(incoming, &mut out).unwrap();
    }
    runs.write(&mut out, |index, fault| panic!("{index} {fault:?}"));
    if out.ends_with(b",") {
        out.pop();
    }
    out.push(b']');
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn messages_of_one_run_are_one_event_in_order_of_their_times() {
    let said = |at_ms, text: &str| {
        record(
            "gen_ai.user.message",
            at_ms,
            json!({"content": text}),
            json!({}),
        )
    };
    let [event] = events(vec![
        record(
            "gen_ai.choice",
            30,
            json!({"message": {"content": "yes"}}),
            json!({}),
        ),
        said(20, "second"),
        said(10, "first"),
    ])
    .try_into()
    .unwrap();
    assert_eq!(event["name"], "llm_start");
    assert_eq!(event["run_id"], "02".repeat(8));
    let first = json!({"role": "user", "content": "first"});
    let second = json!({"role": "user", "content": "second"});
    assert_eq!(event["input"], json!([first, second]));
    assert_eq!(
        event["output"],
        json!({"role": "assistant", "content": "yes"})
    );
}

#[test]
fn its_time_is_past_the_millisecond_in_which_the_span_began() {
    let mut said = record(
        "gen_ai.user.message",
        0,
        json!({"content": "hi"}),
        json!({}),
    );
    said.time_unix_nano = 0;
    said.observed_time_unix_nano = NANOS + 999;
    let [event] = events(vec![said]).try_into().unwrap();
    let expected = schemas::timestamp::to_text(i64::try_from(NANOS / 1_000_000).unwrap() + 1);
    assert_eq!(event["timestamp"], expected);
}

#[test]
fn a_record_of_everything_gives_its_span_messages_and_no_usage() {
    let details = record(
        DETAILS,
        5,
        Value::Null,
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.response.model": "gpt-4o", "gen_ai.usage.input_tokens": 3,
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "well?"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "yes"}]}],
        }),
    );
    let openlit = Source::default().with_scope(&InstrumentationScope {
        name: "openlit.otel.events".to_owned(),
        ..InstrumentationScope::default()
    });
    // OpenLIT's own span has the messages, and the one that the record names may be the agent's.
    let [event] = events_of(openlit, vec![details.clone()])
        .try_into()
        .unwrap();
    assert_eq!(
        (&event["input"], &event["output"]),
        (&Value::Null, &Value::Null)
    );
    let [event] = events(vec![details]).try_into().unwrap();
    assert_eq!(
        event["input"],
        json!([{"role": "user", "content": "well?"}])
    );
    assert_eq!(
        event["output"],
        json!({"role": "assistant", "content": "yes"})
    );
    // The span that it names may be the one around the call.
    for field in ["model", "prompt_tokens", "cost"] {
        assert_eq!(event[field], Value::Null, "{field}");
    }
}

#[test]
fn messages_are_parts_of_runs_and_inherit_no_thread() {
    let said = |span: u8, mut attributes: Value| {
        attributes["gen_ai.input.messages"] =
            json!([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]);
        LogRecord {
            span_id: vec![span; 8],
            ..record(DETAILS, 0, Value::Null, attributes)
        }
    };
    let events = events(vec![
        said(2, json!({"gen_ai.conversation.id": "talk"})),
        said(3, json!({})),
    ]);
    let mut threads: Vec<(&Value, &Value)> = events
        .iter()
        .map(|event| (&event["run_id"], &event["thread_id"]))
        .collect();
    threads.sort_by_key(|(run, _)| run.as_str());
    let run = |span: &str| json!(span.repeat(8));
    assert_eq!(
        threads,
        [(&run("02"), &json!("talk")), (&run("03"), &Value::Null)]
    );
    let body = json!({"events": events}).to_string();
    let mut read = 0;
    schemas::batch::visit(body.as_bytes(), NOW_MS, |slot| {
        let event = slot.event.unwrap();
        // A row of a conversation comes from a chat event, and only one of the other dialect inherits a thread.
        assert!(event.custom.is_none() && event.message.is_none());
        assert_eq!(event.dialect, Dialect::Documented);
        read += 1;
    })
    .unwrap();
    assert_eq!(read, 2);
}

#[test]
fn the_name_may_be_an_attribute() {
    let mut said = record(
        "",
        0,
        json!({"content": "hi"}),
        json!({"event.name": "gen_ai.user.message"}),
    );
    assert_eq!(event_name(&said), "gen_ai.user.message");
    said.attributes = vec![KeyValue::default()];
    assert_eq!(event_name(&said), "");
}
