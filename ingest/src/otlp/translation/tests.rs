//! Arbitrary requests.

use crate::config::ClientCost;
use crate::days::DayBounds;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Status};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use schemas::ids::AppId;

use super::super::value::Any;
use super::*;
use crate::named_keys::NamedKeys;
use crate::plan::{self, Apps};
use schemas::api_error::ApiError;

const NOW_MS: i64 = 1_795_200_000_000;
const NANOS: u64 = 1_795_000_000_000_000_000;

/// Names with a meaning, so that values of any type occur under them.
const KNOWN: [&str; 34] = [
    "openinference.span.kind",
    "input.value",
    "input.mime_type",
    "output.value",
    "llm.model_name",
    "llm.token_count.prompt",
    "llm.token_count.total",
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.tool_calls.0.tool_call.id",
    "llm.output_messages.0.message",
    "llm.invocation_parameters",
    "metadata",
    "tag.tags",
    "user.id",
    "session.id",
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.cost",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.prompt.0.content",
    "gen_ai.agent.name",
    "gen_ai.tool.call.arguments",
    "traceloop.span.kind",
    "traceloop.entity.input",
    "retrieval.documents.0.document",
    "app_id",
    "spindle.app_id",
    "tags",
    "agent",
];
/// Texts with a meaning.
const TEXTS: [&str; 12] = [
    "LLM",
    "AGENT",
    "chat",
    "execute_tool",
    "application/json",
    "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\"}, 1]}]",
    "{\"app_id\": [1], \"tags\": [1], \"user_email\": 5}",
    "[1e999]",
    "{\"\\ud800\": 1}",
    "37",
    "-1",
    "{\"model\": 1}",
];

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(&TEXTS[..]).prop_map(str::to_owned),
        ".{0,12}",
        ".{0,3}".prop_map(|text| text.repeat(300)),
    ]
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        4 => any_text().prop_map(Any::StringValue),
        1 => any::<bool>().prop_map(Any::BoolValue),
        2 => any::<i64>().prop_map(Any::IntValue),
        1 => proptest::num::f64::NORMAL.prop_map(Any::DoubleValue),
        1 => vec(any::<u8>(), 0..4).prop_map(Any::BytesValue),
    ];
    let value = |value| AnyValue { value: Some(value) };
    leaf.prop_map(value).prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|values| Any::ArrayValue(ArrayValue { values })),
            attributes_of(inner).prop_map(|values| Any::KvlistValue(KeyValueList { values })),
        ]
        .prop_map(value)
    })
}

fn attributes_of(value: impl Strategy<Value = AnyValue>) -> impl Strategy<Value = Vec<KeyValue>> {
    let key = prop_oneof![
        4 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        1 => ".{0,8}",
    ];
    let pair = (key, value).prop_map(|(key, value)| KeyValue {
        key,
        value: Some(value),
        ..KeyValue::default()
    });
    vec(pair, 0..10)
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    attributes_of(any_value())
}

fn any_span() -> impl Strategy<Value = Span> {
    let event = (
        proptest::sample::select(
            &["exception", "gen_ai.user.message", "gen_ai.choice", "tick"][..],
        ),
        attributes(),
    )
        .prop_map(|(name, attributes)| Event {
            name: name.to_owned(),
            attributes,
            ..Event::default()
        });
    let link = attributes().prop_map(|attributes| Link {
        attributes,
        span_id: vec![7; 8],
        trace_id: vec![7; 16],
        ..Link::default()
    });
    let listed = (vec(event, 0..3), vec(link, 0..2));
    (
        any::<u64>(),
        any_text(),
        attributes(),
        listed,
        0..4i32,
        any_text(),
    )
        .prop_map(
            |(id, name, attributes, (events, links), code, message)| Span {
                trace_id: vec![1; 16],
                span_id: (id | 1).to_be_bytes().to_vec(),
                name,
                start_time_unix_nano: NANOS,
                end_time_unix_nano: NANOS + id % 1_000_000_000,
                attributes,
                events,
                links,
                status: Some(Status { message, code }),
                ..Span::default()
            },
        )
}

fn any_request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    (vec(any_span(), 0..4), attributes(), any_text()).prop_map(|(spans, attributes, name)| {
        let scope = InstrumentationScope {
            name,
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans {
            spans,
            scope: Some(scope),
            ..ScopeSpans::default()
        }];
        let resource = Resource {
            attributes,
            ..Resource::default()
        };
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans,
                ..ResourceSpans::default()
            }],
        }
    })
}

fn export(wire: Wire, bytes: &Bytes) -> ExportBody<'_> {
    ExportBody {
        wire,
        bytes,
        terms: Terms {
            now_ms: NOW_MS,
            client_cost: ClientCost::TableFirst,
        },
        events_bytes_max: 64 << 20,
    }
}

fn translated(wire: Wire, body: Vec<u8>) -> Result<Translation, ApiError> {
    let room = Room::new(|_| true, usize::MAX);
    Signal::Traces.translate(export(wire, &body.into()), room)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_span_carries_its_two_events_are_taken(request in any_request()) {
        let spans = request.resource_spans[0].scope_spans[0].spans.len();
        let translation = translated(Wire::Protobuf, request.encode_to_vec()).unwrap();
        prop_assert_eq!(translation.rejections.count, 0, "{:?}", translation.rejections.reported);
        let apps = Apps::AnyOr(AppId::new("main"), NamedKeys::default());
        let plan = plan::plan(translation.events, &apps, &DayBounds::new(NOW_MS, std::time::Duration::ZERO), schemas::limits::REPORTED_ERRORS).unwrap();
        prop_assert_eq!(plan.rejections.count, 0, "{:?}", plan.rejections.reported);
        prop_assert_eq!(plan.accepted, 2 * spans);
        // Only messages of the other dialect inherit threads.
        prop_assert!(!plan.has_llmonitor);
    }

    #[test]
    fn protobuf_and_json_of_one_request_make_the_same_events(request in any_request()) {
        let from_protobuf = translated(Wire::Protobuf, request.encode_to_vec()).unwrap();
        let from_json = translated(Wire::Json, serde_json::to_vec(&request).unwrap()).unwrap();
        prop_assert_eq!(from_protobuf.events, from_json.events);
    }

    #[test]
    fn no_bytes_make_it_panic(body in vec(any::<u8>(), 0..200), cut in any::<usize>(), request in any_request()) {
        let mut half = request.encode_to_vec();
        half.truncate(cut % (half.len() + 1));
        for body in [body, half] {
            for signal in [Signal::Traces, Signal::Logs] {
                for wire in [Wire::Protobuf, Wire::Json] {
                    let body = body.clone().into();
                    let _ = signal.translate(export(wire, &body), Room::new(|_| true, usize::MAX));
                }
            }
        }
    }
}

#[test]
fn integers_are_read_as_numbers_and_as_text_and_what_is_absent_as_null() {
    let span = |int: &str, time: &str| {
        format!(
            r#"{{"resourceSpans": [{{"scopeSpans": [{{"scope": null, "spans": [{{
                "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "eee19b7ec3c1b174", "kind": 3, "flags": 257,
                "startTimeUnixNano": {time}, "endTimeUnixNano": {time}, "unknown": {{}},
                "attributes": [{{"key": "gen_ai.operation.name", "value": {{"stringValue": "chat"}}}},
                    {{"key": "gen_ai.usage.input_tokens", "value": {{"intValue": {int}}}}}]
            }}]}}]}}]}}"#
        )
    };
    let number = translated(Wire::Json, span("37", "1714557600000000000").into_bytes()).unwrap();
    let text = translated(
        Wire::Json,
        span("\"37\"", "\"1714557600000000000\"").into_bytes(),
    )
    .unwrap();
    assert_eq!(number.events, text.events);
    let events = String::from_utf8(number.events.to_vec()).unwrap();
    assert!(events.contains("\"prompt_tokens\":37"), "{events}");
    assert!(
        events.contains("5b8efff798038103d269b633813fc60c"),
        "{events}"
    );
}

/// A request in protobuf of these items, under these numbers.
fn wrapped(items: &[Vec<u8>]) -> Vec<u8> {
    let field = |inner: &[u8]| {
        let mut out = vec![0x12];
        prost::encoding::encode_varint(inner.len() as u64, &mut out);
        out.extend_from_slice(inner);
        out
    };
    let items: Vec<u8> = items.iter().flat_map(|item| field(item)).collect();
    let mut body = field(&field(&items)[..]);
    body[0] = 0x0a;
    body
}

/// The maximum reserved for a body, and the result, where one item may take `most` bytes.
fn reserved(signal: Signal, body: Vec<u8>, most: usize) -> (usize, Result<Translation, ApiError>) {
    let mut bytes = 0;
    let reserve = |more| {
        bytes += more;
        bytes < 256 << 20
    };
    let room = Room::new(reserve, most);
    let translation = signal.translate(export(Wire::Protobuf, &body.into()), room);
    (bytes, translation)
}

#[test]
fn an_item_that_needs_more_memory_than_there_may_ever_be_is_refused_and_the_others_are_not() {
    for (signal, empty) in [(Signal::Logs, [0x32, 0]), (Signal::Traces, [0x6a, 0])] {
        let items = [empty.repeat(2_000_000), empty.repeat(10)];
        let (bytes, answer) = reserved(signal, wrapped(&items), 128 << 20);
        let rejections = answer.unwrap().rejections;
        assert_eq!(
            rejections.reported[0].code.as_str(),
            "event_too_large",
            "{signal:?}"
        );
        assert_eq!(rejections.reported[0].index, 0);
        assert!(bytes < 1 << 20, "{signal:?} {bytes}");
    }
    // Parsed strictly, then leniently.
    let span = format!(
        "{{\"spanId\":7,\"attributes\":[{}{{}}]}}",
        "{},".repeat(800_000)
    );
    let body = format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{span}]}}]}}]}}");
    let room = Room::new(|_| true, 128 << 20);
    let translation = Signal::Traces.translate(export(Wire::Json, &body.into()), room);
    let rejections = translation.unwrap().rejections;
    assert_eq!(rejections.reported[0].code.as_str(), "event_too_large");
}

#[test]
fn the_memory_of_empty_elements_is_reserved_before_they_are_read() {
    // Empty attributes of a record and empty links of a span: two bytes each.
    for (signal, empty) in [(Signal::Logs, [0x32, 0]), (Signal::Traces, [0x6a, 0])] {
        let items = vec![empty.repeat(100_000); 4];
        let (bytes, _) = reserved(signal, wrapped(&items), usize::MAX);
        // One item at a time is in memory.
        assert!((10 << 20..40 << 20).contains(&bytes), "{signal:?} {bytes}");
        let (_, answer) = reserved(signal, wrapped(&[empty.repeat(2_000_000)]), usize::MAX);
        assert_eq!(answer.unwrap_err().status, 503, "{signal:?}");
    }
    // Nested values.
    let mut inner = [0x0a, 0].repeat(10_000);
    for tag in [0x2a, 0x12, 0x32] {
        let mut outer = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.append(&mut inner);
        inner = outer;
    }
    let (bytes, _) = reserved(Signal::Logs, wrapped(&[inner]), usize::MAX);
    assert!((2 << 20..4 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn records_that_are_held_count_against_the_limit() {
    let record = |span: u32| {
        let record = LogRecord {
            trace_id: vec![1; 16],
            span_id: [[1; 4], span.to_be_bytes()].concat(),
            time_unix_nano: NANOS,
            event_name: "gen_ai.user.message".to_owned(),
            ..LogRecord::default()
        };
        record.encode_to_vec()
    };
    let body: bytes::Bytes = wrapped(&(0..1000).map(record).collect::<Vec<_>>()).into();
    let answer = |events_bytes_max| {
        let body = ExportBody {
            events_bytes_max,
            ..export(Wire::Protobuf, &body)
        };
        Signal::Logs.translate(body, Room::new(|_| true, usize::MAX))
    };
    assert_eq!(answer(200_000).unwrap_err().code.as_str(), "body_too_large");
    assert_eq!(answer(4 << 20).unwrap().rejections.count, 0);
}

#[test]
fn a_value_that_cannot_be_read_is_none_and_the_span_is_kept() {
    let body = |value: &str| {
        format!(
            r#"{{"resourceSpans": [{{"resource": {{"attributes": [{{"key": 5}}]}}, "scopeSpans": [{{
                "scope": {{"name": "s", "version": null}}, "spans": [{{
                "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "parentSpanId": null,
                "name": null, "events": null, "links": null, "status": null,
                "startTimeUnixNano": "1714557600000000000", "endTimeUnixNano": "1714557601000000000",
                "attributes": [{{"key": "a", "value": {value}}}, {{"key": "b", "value": {{"stringValue": "kept"}}}}]
            }}]}}]}}]}}"#
        )
    };
    for (value, expected) in [
        (r#"{"arrayValue": {}}"#, "\"a\":[]"),
        (r#"{"kvlistValue": {}}"#, "\"a\":{}"),
        (
            r#"{"arrayValue": {"values": [null, {"intValue": 1}]}}"#,
            "\"a\":[null,1]",
        ),
        (r#"{"doubleValue": "NaN"}"#, "\"a\":\"NaN\""),
        (r#"{"doubleValue": "Infinity"}"#, "\"a\":\"Infinity\""),
        (r#"{"doubleValue": "1.5"}"#, "\"a\":1.5"),
        (r#"{"intValue": 1e+21}"#, "\"a\":1e"),
        (r#"{"intValue": "5"}"#, "\"a\":5"),
        (r#"{"intValue": {}}"#, "\"metadata\":{\"b\""),
        (r#"{"stringValue": 5}"#, "\"metadata\":{\"b\""),
        ("null", "\"metadata\":{\"b\""),
    ] {
        let translation = translated(Wire::Json, body(value).into_bytes()).unwrap();
        assert_eq!(
            translation.rejections.count, 0,
            "{value} {:?}",
            translation.rejections.reported
        );
        let events = String::from_utf8(translation.events.to_vec()).unwrap();
        assert!(
            events.contains(expected) && events.contains("\"b\":\"kept\""),
            "{value} {events}"
        );
    }
}
