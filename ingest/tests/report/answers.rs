//! What is accepted, what is rejected, and how the answer says so.

use axum::body::Body;
use axum::http::{Method, Request, header};
use ingest::IngestConfig;
use schemas::record::RecordHeader;
use serde_json::json;

use crate::fixture::{batch, event, event_of, request, tier, tier_with};

fn header_of(record: &eventlog::Record) -> RecordHeader {
    RecordHeader::decode(
        record
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_ref())),
    )
    .unwrap()
}

#[tokio::test]
async fn a_good_batch_is_answered_with_200_and_kept_byte_for_byte() {
    let tier = tier();
    let body = format!("  {} ", batch(&[event("a"), event("b")]));
    let answer = tier.report(body.clone()).await;
    assert_eq!(
        (answer.status, &answer.json),
        (200, &json!({"accepted": 2, "rejected": 0, "errors": []}))
    );
    let [record] = tier.records().try_into().unwrap();
    assert_eq!(record.payload, body);
    assert_eq!(record.key, "acme/main");
    let header = header_of(&record);
    assert_eq!(
        (header.project.as_str(), header.app.as_str(), header.events),
        ("acme", "main", 2)
    );
    assert!(header.received_at_ms > 1_700_000_000_000);
}

#[tokio::test]
async fn no_events_are_200_with_zeros_and_nothing_in_the_log() {
    let tier = tier();
    for body in [r#"{"events":[]}"#, r#"{"events":[[],[[]]]}"#] {
        let answer = tier.report(body).await;
        assert_eq!(
            (answer.status, &answer.json),
            (200, &json!({"accepted": 0, "rejected": 0, "errors": []}))
        );
    }
    assert!(tier.records().is_empty());
}

#[tokio::test]
async fn a_bad_event_is_told_with_its_place_and_the_good_ones_are_kept() {
    let tier = tier();
    let bad = event("x").replace(r#""run_id":"x","#, "");
    let answer = tier.report(batch(&[event("a"), bad, event("b")])).await;
    let errors =
        json!([{"index": 1, "code": "missing_field", "message": "events[1].run_id is required"}]);
    assert_eq!(
        (answer.status, &answer.json),
        (
            200,
            &json!({"accepted": 2, "rejected": 1, "errors": errors})
        )
    );
    assert_eq!(tier.payloads(), [batch(&[event("a"), event("b")])]);
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 2.0);
    assert_eq!(tier.metric("spindle_ingest_rejected_events_total"), 1.0);
}

#[tokio::test]
async fn no_good_event_among_some_is_still_200() {
    let tier = tier();
    let answer = tier.report(r#"{"events":[1,"2",null]}"#).await;
    assert_eq!(
        (
            answer.status,
            &answer.json["accepted"],
            &answer.json["rejected"]
        ),
        (200, &json!(0), &json!(3))
    );
    assert!(tier.records().is_empty());
}

#[tokio::test]
async fn events_of_several_apps_become_records_of_their_own_keys() {
    let tier = tier();
    let events = [event_of("a", "x"), event("b"), event_of("c", "x")];
    assert_eq!(tier.report(batch(&events)).await.json["accepted"], 3);
    let records = tier.records();
    let keys: Vec<_> = records.iter().map(|record| record.key.clone()).collect();
    assert_eq!(keys, ["acme/x", "acme/main"]);
    assert_eq!(
        tier.payloads(),
        [
            batch(&[events[0].clone(), events[2].clone()]),
            batch(&[events[1].clone()])
        ]
    );
    assert_eq!(tier.metric("spindle_ingest_appended_records_total"), 2.0);
}

#[tokio::test]
async fn the_project_is_that_of_the_key_whatever_the_payload_says_t1() {
    let tier = tier();
    let event = event_of("a", "other/../x").replacen(
        '{',
        r#"{"project_id":"victim","project":"victim","#,
        1,
    );
    assert_eq!(tier.report(batch(&[event])).await.json["accepted"], 1);
    let header = header_of(&tier.records()[0]);
    assert_eq!(
        (header.project.as_str(), header.app.as_str()),
        ("acme", "other/../x")
    );
}

#[tokio::test]
async fn sending_a_batch_again_is_accepted_again_in_order() {
    // Duplicates are harmless by the events' identities; records of one key stay in order (L2).
    let tier = tier();
    let bodies = [
        batch(&[event("a")]),
        batch(&[event("b")]),
        batch(&[event("a")]),
    ];
    for body in &bodies {
        assert_eq!(tier.report(body.clone()).await.status, 200);
    }
    assert_eq!(tier.payloads(), bodies);
}

#[tokio::test]
async fn lists_of_lists_are_taken_as_deep_as_clients_nest_them() {
    let tier = tier();
    let body = format!(
        r#"{{"events":{}{}{}}}"#,
        "[".repeat(152),
        event("a"),
        "]".repeat(152)
    );
    assert_eq!(tier.report(body.clone()).await.json["accepted"], 1);
    assert_eq!(tier.payloads(), [body]);
}

#[tokio::test]
async fn a_body_that_is_no_batch_is_400_as_a_whole() {
    let tier = tier();
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "invalid_body"),
        ("null", "invalid_body"),
        ("{}", "invalid_body"),
        (r#"{"events":{}}"#, "invalid_body"),
        (r#"{"events":[]} x"#, "invalid_json"),
        ("\u{feff}{\"events\":[]}", "invalid_json"),
    ] {
        assert_eq!(tier.report(body).await.error(), (400, code), "{body:?}");
    }
    assert_eq!(
        tier.report(vec![0xff, 0xfe]).await.error(),
        (400, "invalid_json")
    );
}

#[tokio::test]
async fn another_method_is_405_and_says_which_is_allowed() {
    let tier = tier();
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder()
            .method(method)
            .uri("/api/report")
            .body(Body::empty())
            .unwrap();
        let answer = tier.send(request).await;
        assert_eq!(answer.error(), (405, "method_not_allowed"));
        assert_eq!(answer.headers[header::ALLOW], "POST");
    }
}

#[tokio::test]
async fn a_rate_is_answered_with_429_and_a_time() {
    let tier = tier_with(IngestConfig {
        key_events_per_second: 1,
        ..IngestConfig::default()
    });
    let ten: Vec<String> = (0..10).map(|i| event(&format!("r{i}"))).collect();
    assert_eq!(tier.report(batch(&ten)).await.status, 200);
    let answer = tier.report(batch(&ten[..5])).await;
    assert_eq!(answer.error(), (429, "rate_limited"));
    assert!(
        (1..=10).contains(&answer.retry_after_s().unwrap()),
        "{answer:?}"
    );
    assert_eq!(tier.records().len(), 1);
    let eleven: Vec<String> = (0..11).map(|i| event(&format!("r{i}"))).collect();
    assert_eq!(
        tier.report(batch(&eleven)).await.error(),
        (413, "batch_over_rate")
    );
}

#[tokio::test]
async fn a_preflight_is_answered_for_the_origins_in_the_settings_only() {
    let allowed_origins = vec!["https://app.example.com".to_owned()];
    let tier = tier_with(IngestConfig {
        allowed_origins,
        ..IngestConfig::default()
    });
    let preflight = |origin: &str| {
        Request::builder()
            .method(Method::OPTIONS)
            .uri("/api/report")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .header(
                header::ACCESS_CONTROL_REQUEST_HEADERS,
                "authorization,content-type",
            )
            .body(Body::empty())
            .unwrap()
    };
    let answer = tier.send(preflight("https://app.example.com")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN],
        "https://app.example.com"
    );
    assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_METHODS], "POST");
    assert_eq!(
        answer.headers[header::ACCESS_CONTROL_ALLOW_HEADERS],
        "authorization,content-type,content-encoding"
    );
    let answer = tier.send(preflight("https://evil.example.com")).await;
    assert!(
        !answer
            .headers
            .contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
    );

    let mut report = request(batch(&[event("a")]));
    report
        .headers_mut()
        .insert(header::ORIGIN, "https://app.example.com".parse().unwrap());
    let answer = tier.send(report).await;
    assert_eq!(
        (
            answer.status,
            answer
                .headers
                .contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        ),
        (200, true)
    );
}

#[test]
fn the_document_names_every_answer() {
    let document = serde_json::to_value(ingest::openapi()).unwrap();
    let responses = document["paths"]["/api/report"]["post"]["responses"]
        .as_object()
        .unwrap();
    let statuses: Vec<&str> = responses.keys().map(String::as_str).collect();
    assert_eq!(
        statuses,
        [
            "200", "400", "401", "403", "408", "413", "415", "429", "500", "503"
        ]
    );
    for name in ["ApiError", "Rejection", "Report", "ReportBody"] {
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}
