//! What OpenTelemetry exports, as protobuf and as JSON.

use fuzz::{Seeds, captured_bodies, fuzz};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use crate::ingest_tier::{Answer, LOGS, TRACES, post, runtime, send};

const PROTOBUF: &str = "application/x-protobuf";
const WORDS: &[&str] = &[
    "\"resourceSpans\"",
    "\"scopeSpans\"",
    "\"spans\"",
    "\"attributes\"",
    "\"intValue\":\"x\"",
    "\"doubleValue\":\"NaN\"",
    "\"arrayValue\":{\"values\":[{}]}",
    "\"kvlistValue\"",
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "llm.token_count.prompt",
    "llm.input_messages.0.message.content",
    "llm.input_messages.4294967295.message.role",
    "session.id",
    "\"startTimeUnixNano\":\"1\"",
    "\"endTimeUnixNano\":18446744073709551615",
];

#[test]
fn otlp_traces_json() {
    json(TRACES, "otlp_traces_json");
}

#[test]
fn otlp_logs_json() {
    json(LOGS, "otlp_logs_json");
}

fn json(path: &str, target: &str) {
    let runtime = runtime();
    let seeds = Seeds::of_files(target)
        .with_all(captured_bodies(&[path], false))
        .with_words(WORDS)
        .as_json();
    fuzz!(seeds, 300, |body: &[u8]| {
        let answer = send(&runtime, post(path, "application/json"), body);
        again_is_the_same(&runtime, path, "application/json", body, &answer);
    });
}

#[test]
fn otlp_traces_protobuf() {
    protobuf::<ExportTraceServiceRequest>(TRACES, "otlp_traces_protobuf");
}

#[test]
fn otlp_logs_protobuf() {
    protobuf::<ExportLogsServiceRequest>(LOGS, "otlp_logs_protobuf");
}

pub(crate) fn protobuf_seeds<T: Message + DeserializeOwned>(path: &str, target: &str) -> Seeds {
    let of_json = captured_bodies(&[path], false);
    let of_json = of_json
        .iter()
        .filter_map(|body| serde_json::from_slice::<T>(body).ok());
    Seeds::of_files(target)
        .with_all(captured_bodies(&[path], true))
        .with_all(of_json.map(|request| request.encode_to_vec()))
        .with_words(WORDS)
}

fn protobuf<T: Message + Default + PartialEq + Serialize + DeserializeOwned>(
    path: &str,
    target: &str,
) {
    let runtime = runtime();
    fuzz!(protobuf_seeds::<T>(path, target), 300, |body: &[u8]| {
        let answer = send(&runtime, post(path, PROTOBUF), body);
        again_is_the_same(&runtime, path, PROTOBUF, body, &answer);
        let Ok(request) = T::decode(body) else {
            return;
        };
        // The package that writes JSON loses numbers that JSON cannot express.
        let json = serde_json::to_vec(&request).unwrap();
        let is_whole = serde_json::from_slice::<T>(&json).is_ok_and(|read| read == request);
        if is_whole {
            let plain = send(&runtime, post(path, PROTOBUF), &request.encode_to_vec());
            let of_json = send(&runtime, post(path, "application/json"), &json);
            same(&plain, &of_json);
        }
    });
}

/// Exporters send a batch again when a response is late: the same bytes yield the same events.
fn again_is_the_same(
    runtime: &Runtime,
    path: &str,
    content_type: &str,
    body: &[u8],
    answer: &Answer,
) {
    same(answer, &send(runtime, post(path, content_type), body));
}

#[track_caller]
pub(crate) fn same(one: &Answer, other: &Answer) {
    assert_eq!(one.status, other.status);
    assert_eq!(one.payloads(), other.payloads());
}
