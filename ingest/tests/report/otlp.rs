//! `POST /v1/traces` and `POST /v1/logs`: what is answered, in the encoding of the request.

use axum::body::Body;
use axum::http::{Method, Request, header};
use ingest::IngestConfig;
use serde_json::{Value, json};

use crate::fixture::{Answer, Tier, tier, tier_with};

/// A good span in OTLP's JSON.
fn span(id: &str) -> Value {
    json!({
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": id,
        "name": "answer",
        "startTimeUnixNano": "1714557600000000000",
        "endTimeUnixNano": "1714557601000000000",
        "attributes": [{"key": "openinference.span.kind", "value": {"stringValue": "AGENT"}}],
    })
}

fn traces(spans: &[Value]) -> String {
    json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}).to_string()
}

fn request(path: &str, content_type: &str, authorization: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::AUTHORIZATION, authorization)
}

async fn export(tier: &Tier, body: impl Into<Body>) -> Answer {
    let request = request("/v1/traces", "application/json", "Bearer report");
    tier.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn a_span_becomes_two_events_of_the_keys_project_and_app() {
    let tier = tier();
    let answer = export(&tier, traces(&[span("eee19b7ec3c1b174")])).await;
    assert_eq!((answer.status, &answer.json), (200, &json!({})));
    let [record] = tier.records().try_into().unwrap();
    assert_eq!(record.key, "acme/main");
    let payload: Value = serde_json::from_slice(&record.payload).unwrap();
    let common = |name: &str, phase: &str, timestamp: &str| {
        json!({
            "name": name, "type": "agent", "run_id": "eee19b7ec3c1b174", "timestamp": timestamp,
            "event_id": format!("5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-{phase}"),
        })
    };
    let mut start = common("answer_start", "start", "2024-05-01T10:00:00.000Z");
    start["agent"] = json!("answer");
    start["metadata"] = json!({"trace_id": "5b8efff798038103d269b633813fc60c"});
    let end = common("answer_end", "end", "2024-05-01T10:00:01.000Z");
    assert_eq!(payload, json!({"events": [start, end]}));
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 2.0);
}

#[tokio::test]
async fn a_bad_span_is_counted_with_its_reason_and_the_good_ones_are_kept() {
    let tier = tier();
    let mut endless = span("eee19b7ec3c1b175");
    endless.as_object_mut().unwrap().remove("endTimeUnixNano");
    let mut zero = span("0000000000000000");
    let mut short = span("eee1");
    let mut early = span("eee19b7ec3c1b176");
    early["startTimeUnixNano"] = json!(1_000_000_000);
    let mut unreadable = span("not hexadecimal!");
    for (place, span) in [&mut zero, &mut short, &mut early, &mut unreadable]
        .into_iter()
        .enumerate()
    {
        span["name"] = json!(format!("span {place}"));
    }
    let spans = [
        span("eee19b7ec3c1b174"),
        endless,
        zero,
        short,
        early,
        unreadable,
    ];
    let answer = export(&tier, traces(&spans)).await;
    assert_eq!(answer.status, 200);
    let partial = &answer.json["partialSuccess"];
    assert_eq!(partial["rejectedSpans"], "5", "{partial}");
    let message = partial["errorMessage"].as_str().unwrap();
    for reason in [
        "spans[1] has no endTimeUnixNano",
        "spans[2] spanId must be 8 bytes and not all zero",
        "spans[3] spanId must be 8 bytes",
        "; ...",
    ] {
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 2.0);
    assert_eq!(tier.metric("spindle_ingest_rejected_events_total"), 5.0);
}

#[tokio::test]
async fn nothing_to_take_is_taken() {
    let tier = tier();
    for body in [
        "{}",
        r#"{"resourceSpans": []}"#,
        r#"{"resourceSpans": null, "new": 1}"#,
    ] {
        let answer = export(&tier, body).await;
        assert_eq!((answer.status, &answer.json), (200, &json!({})), "{body}");
    }
    let empty = request("/v1/logs", "application/x-protobuf", "Bearer report");
    let answer = tier.send(empty.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "application/x-protobuf"
    );
    assert!(tier.records().is_empty());
}

#[tokio::test]
async fn errors_are_a_status_in_the_encoding_of_the_request() {
    let tier = tier();
    for (path, content_type, authorization, body, status, rpc_code) in [
        (
            "/v1/traces",
            "application/json",
            "Bearer nobodys",
            "{}",
            401,
            16,
        ),
        (
            "/v1/traces",
            "application/json",
            "Bearer read",
            "{}",
            403,
            7,
        ),
        (
            "/v1/traces",
            "application/json",
            "Bearer report",
            "[]",
            400,
            3,
        ),
        ("/v1/logs", "application/json", "Bearer report", "{", 400, 3),
        (
            "/v1/logs?a=1",
            "application/json",
            "Bearer report",
            "{}",
            400,
            3,
        ),
        ("/v1/traces", "text/plain", "Bearer report", "{}", 415, 3),
        (
            "/v1/traces",
            "application/json",
            "Bearer broken",
            "{}",
            503,
            14,
        ),
        (
            "/v1/traces",
            "application/x-protobuf",
            "Bearer nobodys",
            "",
            401,
            16,
        ),
        (
            "/v1/traces",
            "application/x-protobuf",
            "Bearer report",
            "\n\x7f",
            400,
            3,
        ),
        (
            "/v1/logs",
            "application/x-protobuf",
            "Bearer report",
            "{}",
            400,
            3,
        ),
    ] {
        let what = format!("{path} {content_type} {authorization} {body}");
        let request = request(path, content_type, authorization);
        let body = body.as_bytes().to_vec();
        let (answer, bytes) = tier.send_raw(request.body(body.into()).unwrap()).await;
        assert_eq!(answer.status, status, "{what}");
        if content_type == "application/x-protobuf" {
            assert_eq!(answer.headers[header::CONTENT_TYPE], content_type, "{what}");
            // Field 1 is the code, field 2 the message.
            assert_eq!(bytes[..2], [8, rpc_code], "{what}");
            assert_eq!(bytes[2], 0x12, "{what}");
            assert_eq!(usize::from(bytes[3]), bytes.len() - 4, "{what}");
        } else {
            assert_eq!(answer.error().0, status, "{what}");
            assert_eq!(answer.json["code"], rpc_code, "{what}");
        }
        assert_eq!(answer.retry_after_s().is_some(), status == 503, "{what}");
    }
}

#[tokio::test]
async fn a_body_is_bounded_as_it_comes_and_as_the_events_it_makes() {
    let config = IngestConfig {
        body_bytes: 4096,
        keyless_body_bytes: 4096,
        ..IngestConfig::default()
    };
    let tier = tier_with(config);
    let spans: Vec<Value> = (0..40)
        .map(|place| span(&format!("{:016x}", place + 1)))
        .collect();
    let answer = export(&tier, traces(&spans)).await;
    assert_eq!(answer.error(), (413, "body_too_large"));
    // A span of 40 bytes in protobuf makes events of some 500.
    let mut spans = Vec::new();
    for place in 1..=80u8 {
        let trace_id = [&[0x0a, 16][..], &[1; 16]].concat();
        let span_id = [&[0x12, 8][..], &[place; 8]].concat();
        let times = [
            &[0x39][..],
            &1_714_557_600_000_000_000u64.to_le_bytes(),
            &[0x41],
            &1_714_557_601_000_000_000u64.to_le_bytes(),
        ]
        .concat();
        let span = [trace_id, span_id, times].concat();
        spans.extend([0x12, span.len() as u8]);
        spans.extend(span);
    }
    let wrap = |inner: Vec<u8>, key: u8| {
        let length = [(inner.len() & 0x7f) as u8 | 0x80, (inner.len() >> 7) as u8];
        [&[key][..], &length, &inner].concat()
    };
    let body = wrap(wrap(spans, 0x12), 0x0a);
    assert!(body.len() < 4096, "{}", body.len());
    let request = request("/v1/traces", "application/x-protobuf", "Bearer report");
    let (answer, bytes) = tier.send_raw(request.body(body.into()).unwrap()).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    let message = String::from_utf8_lossy(&bytes);
    assert!(message.contains("send smaller batches"), "{message}");
    assert!(tier.records().is_empty());
}

#[tokio::test]
async fn without_a_key_all_spans_are_of_one_listed_app() {
    let tier = tier();
    let with_app = |app: &str| {
        let attributes = json!([{"key": "spindle.app_id", "value": {"stringValue": app}}]);
        json!({"resourceSpans": [{
            "resource": {"attributes": attributes},
            "scopeSpans": [{"spans": [span("eee19b7ec3c1b174")]}],
        }]})
        .to_string()
    };
    for (app, status) in [("listed", 200), ("unlisted", 401)] {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/traces")
            .header(header::CONTENT_TYPE, "application/json");
        let answer = tier.send(request.body(with_app(app).into()).unwrap()).await;
        assert_eq!(answer.status, status, "{app}: {answer:?}");
    }
    let [record] = tier.records().try_into().unwrap();
    assert_eq!(record.key, "acme/listed");
}

#[tokio::test]
async fn log_records_that_say_nothing_of_a_model_call_are_counted_as_not_taken() {
    let tier = tier();
    let ids = json!({"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174"});
    let mut said = ids.clone();
    said["eventName"] = json!("gen_ai.user.message");
    said["observedTimeUnixNano"] = json!("1714557600000000000");
    said["body"] =
        json!({"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}});
    let mut plain = ids.clone();
    plain["body"] = json!({"stringValue": "started"});
    let mut nowhere = said.clone();
    nowhere.as_object_mut().unwrap().remove("spanId");
    let mut timeless = said.clone();
    timeless["observedTimeUnixNano"] = json!("0");
    let records = [said, plain, nowhere, timeless];
    let body = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let request = request("/v1/logs", "application/json", "Bearer report");
    let answer = tier.send(request.body(body.into()).unwrap()).await;
    assert_eq!(
        answer.json["partialSuccess"]["rejectedLogRecords"], "3",
        "{answer:?}"
    );
    let message = answer.json["partialSuccess"]["errorMessage"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("logRecords[1] says nothing of a model call"),
        "{message}"
    );
    assert!(message.contains("logRecords[2] has no spanId"), "{message}");
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 1.0);
}

#[tokio::test]
async fn a_browser_may_export_from_an_allowed_origin() {
    let config = IngestConfig {
        allowed_origins: vec!["https://app.example.com".to_owned()],
        ..IngestConfig::default()
    };
    let tier = tier_with(config);
    for path in ["/v1/traces", "/v1/logs"] {
        let preflight = Request::builder()
            .method(Method::OPTIONS)
            .uri(path)
            .header(header::ORIGIN, "https://app.example.com")
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
        let answer = tier.send(preflight.body(Body::empty()).unwrap()).await;
        assert_eq!(
            answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN],
            "https://app.example.com",
            "{path}"
        );
        let get = Request::builder().uri(path).body(Body::empty()).unwrap();
        assert_eq!(tier.send(get).await.error(), (405, "method_not_allowed"));
    }
}

#[tokio::test]
async fn grpc_is_the_same_with_five_bytes_before_it_and_the_outcome_behind() {
    const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/captures/pypi-otel-openinference-openai-0.1.66/main/001-POST-v1-traces.bin"
    );
    let gzipped = std::fs::read(capture).unwrap();
    let framed = |flag: u8, message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag][..], &length, message].concat()
    };
    let over_http = tier();
    let request_over_http = request("/v1/traces", "application/x-protobuf", "Bearer report")
        .header(header::CONTENT_ENCODING, "gzip");
    let body = Body::from(gzipped.clone());
    over_http.send(request_over_http.body(body).unwrap()).await;
    let tier = tier();
    let call = |authorization, body: Vec<u8>| {
        let request = request(TRACES, "application/grpc", authorization);
        let request = request.header("grpc-encoding", "gzip");
        tier.call(request.body(body.into()).unwrap())
    };
    let (headers, bytes, trailers) = call("Bearer report", framed(1, &gzipped)).await;
    assert_eq!(headers[header::CONTENT_TYPE], "application/grpc");
    assert_eq!(bytes[..], [0; 5]);
    assert_eq!(trailers["grpc-status"], "0");
    assert_eq!(tier.payloads(), over_http.payloads());
    for (authorization, body, status) in [
        ("Bearer nobodys", framed(1, &gzipped), "16"),
        ("Bearer broken", framed(1, &gzipped), "14"),
        ("Bearer report", framed(1, b"no gzip"), "3"),
        ("Bearer report", framed(0, b"no protobuf"), "3"),
        ("Bearer report", b"short".to_vec(), "3"),
    ] {
        let (headers, bytes, _) = call(authorization, body).await;
        assert_eq!(headers["grpc-status"], status, "{headers:?}");
        assert!(!headers["grpc-message"].is_empty() && bytes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_may_be_sent_again() {
    let tier = tier();
    let stuck = futures::stream::pending::<Result<axum::body::Bytes, std::convert::Infallible>>();
    let answer = export(&tier, Body::from_stream(stuck)).await;
    assert_eq!(answer.error().0, 503, "{answer:?}");
    assert_eq!(answer.retry_after_s(), Some(1));
}

#[tokio::test]
async fn what_is_refused_behind_the_translation_is_told_in_spans() {
    let tier = tier();
    let of_app = |app: &str, id: &str| {
        let mut span = span(id);
        let name = json!({"key": "spindle.app_id", "value": {"stringValue": app}});
        span["attributes"].as_array_mut().unwrap().push(name);
        span
    };
    let spans = [
        of_app("listed", "eee19b7ec3c1b174"),
        of_app("other", "eee19b7ec3c1b175"),
    ];
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/traces")
        .header(header::CONTENT_TYPE, "application/json");
    let answer = tier
        .send(request.body(traces(&spans).into()).unwrap())
        .await;
    let partial = &answer.json["partialSuccess"];
    assert_eq!(partial["rejectedSpans"], "1", "{answer:?}");
    let message = partial["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("a span names another app"), "{message}");
    assert!(!message.contains("events["), "{message}");
}

#[tokio::test]
async fn the_memory_of_what_is_read_at_once_is_counted_and_given_back() {
    let tier = tier_with(IngestConfig {
        in_flight_bytes: 16 << 20,
        body_bytes: 4 << 20,
        ..IngestConfig::default()
    });
    let request = request("/v1/logs", "application/json", "Bearer report");
    let record = format!("{{\"attributes\":[{}{{}}]}}", "{},".repeat(200_000));
    let body = format!("{{\"resourceLogs\":[{{\"scopeLogs\":[{{\"logRecords\":[{record}]}}]}}]}}");
    let answer = tier.send(request.body(body.into()).unwrap()).await;
    // One record that could never be read is refused for good; a 503 would be asked again for ever.
    let partial = &answer.json["partialSuccess"];
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(partial["rejectedLogRecords"], "1", "{answer:?}");
    let message = partial["errorMessage"].as_str().unwrap();
    assert!(message.contains("split it"), "{message}");
    assert_eq!(tier.metric("spindle_ingest_in_flight_bytes"), 0.0);
}
