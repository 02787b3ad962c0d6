//! What records and spans of coding agents become, and that both become the same runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use serde_json::{Value, json};

use super::super::log_record::{Incoming, Runs};
use super::super::source::Source;
use super::super::span::tests::{any, attributes};
use super::super::span::{self, Read};
use super::super::terms::Terms;
use super::*;
use crate::config::ClientCost;

mod claude_code;
mod codex;
mod gemini_cli;

const TERMS: Terms = Terms {
    now_ms: 1_795_400_000_000,
    client_cost: ClientCost::TableFirst,
};
const NANOS: u64 = 1_795_339_573_402_000_000;

fn source(scope: &str) -> Arc<Source> {
    let scope = InstrumentationScope {
        name: scope.to_owned(),
        ..InstrumentationScope::default()
    };
    Arc::new(Source::default().with_scope(&scope))
}

/// The events of records, each with its time after [`NANOS`] in milliseconds.
#[track_caller]
fn recorded(scope: &str, records: &[(u64, Value)]) -> Vec<Value> {
    let (kept, lost) = recorded_and_rejected(scope, records);
    assert!(lost.is_empty(), "{lost:?}");
    kept
}

fn recorded_and_rejected(scope: &str, records: &[(u64, Value)]) -> (Vec<Value>, Vec<String>) {
    let mut out = b"[".to_vec();
    let mut lost = Vec::new();
    let mut runs = Runs::default();
    for (index, (at_ms, object)) in records.iter().enumerate() {
        let mut object = object.clone();
        let fields = object.as_object_mut().unwrap();
        let ids = fields.remove("ids").is_some();
        let body = fields.remove("body").unwrap_or_default();
        let record = LogRecord {
            time_unix_nano: NANOS + at_ms * 1_000_000,
            trace_id: if ids { vec![1; 16] } else { Vec::new() },
            span_id: if ids { vec![2; 8] } else { Vec::new() },
            body: Some(any(&body)),
            attributes: attributes(object),
            ..LogRecord::default()
        };
        let incoming = Incoming {
            index,
            record,
            source: &source(scope),
            terms: TERMS,
        };
        let start = out.len();
        if let Err(fault) = runs.add(incoming, &mut out) {
            out.truncate(start);
            lost.push(fault.message);
        }
    }
    runs.write(&mut out, |index, fault| panic!("{index} {fault:?}"));
    if out.ends_with(b",") {
        out.pop();
    }
    out.push(b']');
    (serde_json::from_slice(&out).unwrap(), lost)
}

/// A span: number, number of the parent or 0, name, attributes.
type Given<'a> = (u8, u8, &'a str, Value);

fn spanned(scope: &str, (id, parent, name, object): Given<'_>, model: Option<&str>) -> Vec<Value> {
    let mut object = object;
    let output = object.as_object_mut().unwrap().remove("tool.output");
    let events = output.into_iter().map(|output| Event {
        name: "tool.output".to_owned(),
        attributes: attributes(output),
        ..Event::default()
    });
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![id; 8],
        parent_span_id: vec![parent; 8],
        name: name.to_owned(),
        start_time_unix_nano: NANOS - 500_000_000,
        end_time_unix_nano: NANOS,
        attributes: attributes(object),
        events: events.collect(),
        ..Span::default()
    };
    let mut out = b"[".to_vec();
    let read = Read {
        terms: TERMS,
        model,
    };
    span::write(&span, &source(scope), &mut out, read).unwrap();
    out.push(b']');
    serde_json::from_slice(&out).unwrap()
}

/// The runs of events, with the fields of all their events. Of a field that several have the last counts.
fn runs(events: &[Value]) -> BTreeMap<String, Value> {
    let mut runs: BTreeMap<String, Value> = BTreeMap::new();
    for event in events {
        let id = event["run_id"].as_str().unwrap().to_owned();
        let run = runs.entry(id).or_insert_with(|| json!({}));
        for (key, value) in event.as_object().unwrap() {
            run[key] = value.clone();
        }
    }
    runs
}

/// The only run of a type, and its identifier.
#[track_caller]
fn only<'a>(runs: &'a BTreeMap<String, Value>, kind: &str) -> (&'a str, &'a Value) {
    let mut of_kind = runs.iter().filter(|(_, run)| run["type"] == kind);
    let (id, run) = of_kind
        .next()
        .unwrap_or_else(|| panic!("no {kind} in {runs:#?}"));
    assert!(of_kind.next().is_none(), "{runs:#?}");
    (id, run)
}

#[track_caller]
fn check(run: &Value, expected: Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(run[key], *value, "{key} of {run:#}");
    }
}

const CLAUDE: &str = "com.anthropic.claude_code.events";
const CODEX: &str = "codex_otel.log_only";
const GEMINI: &str = "gemini-cli";

#[test]
fn records_without_any_attributes_make_no_fault_but_a_rejection_or_a_run() {
    for (scope, client, names) in [
        (
            CLAUDE,
            "claude_code.",
            [
                "user_prompt",
                "api_request",
                "api_error",
                "tool_result",
                "tool_decision",
                "assistant_response",
            ],
        ),
        (
            CODEX,
            "codex.",
            [
                "conversation_starts",
                "user_prompt",
                "sse_event",
                "tool_result",
                "tool_decision",
                "api_request",
            ],
        ),
        (
            GEMINI,
            "gemini_cli.",
            [
                "user_prompt",
                "api_response",
                "api_error",
                "tool_call",
                "api_request",
                "config",
            ],
        ),
    ] {
        for name in names {
            let record = json!({"event.name": format!("{client}{name}")});
            let (events, _) = recorded_and_rejected(scope, &[(0, record)]);
            for event in events {
                assert_ne!(event["run_id"], "", "{event}");
            }
        }
    }
}
