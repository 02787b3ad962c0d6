//! Who may report.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ingest::IngestConfig;
use serde_json::json;

use crate::fixture::{batch, event, event_of, tier, tier_with, with_authorization};

/// A body that must not be read.
fn untouchable() -> Body {
    Body::from_stream(futures::stream::poll_fn(
        |_| -> std::task::Poll<Option<Result<Bytes, std::io::Error>>> {
            panic!("the body was read")
        },
    ))
}

#[tokio::test]
async fn the_key_may_come_in_every_form_clients_send() {
    let tier = tier();
    let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    for value in [
        "Bearer report".to_owned(),
        "bearer report".to_owned(),
        "report".to_owned(),
        basic("report:"),
        basic("x:report"),
    ] {
        let answer = tier
            .send(with_authorization(Some(&value), batch(&[event("a")])))
            .await;
        assert_eq!(answer.status, 200, "{value}: {answer:?}");
    }
}

#[tokio::test]
async fn an_unknown_key_is_401_and_a_known_one_that_may_not_report_is_403() {
    let tier = tier();
    for (value, expected) in [
        ("Bearer unknown", (401, "unauthorized")),
        ("Bearer", (401, "unauthorized")),
        ("", (401, "unauthorized")),
        ("Basic %%%", (401, "unauthorized")),
        // Longer than any key of ours, and than any secret.
        (&"k".repeat(513), (401, "unauthorized")),
        (&"k".repeat(9000), (401, "unauthorized")),
        ("Bearer read", (403, "forbidden")),
        ("Bearer token", (403, "forbidden")),
        ("Bearer broken", (503, "unavailable")),
    ] {
        let answer = tier
            .send(with_authorization(Some(value), batch(&[event("a")])))
            .await;
        assert_eq!(answer.error(), expected, "{value}");
        assert_eq!(answer.retry_after_s().is_some(), answer.status == 503);
        let challenge = answer.headers.get("www-authenticate");
        assert_eq!(challenge.is_some(), answer.status == 401, "{value}");
    }
    assert!(tier.records().is_empty());
}

#[tokio::test]
async fn a_known_key_is_checked_before_the_body_is_read() {
    let tier = tier();
    let mut request = with_authorization(Some("Bearer read"), untouchable());
    // The rest of a rejected body is read, unless the client waits for `100 Continue`.
    request
        .headers_mut()
        .insert("expect", "100-continue".parse().unwrap());
    assert_eq!(tier.send(request).await.status, 403);
}

#[tokio::test]
async fn without_a_key_only_listed_apps_are_accepted() {
    let tier = tier();
    let listed = batch(&[event_of("a", "listed"), event_of("b", "listed")]);
    assert_eq!(
        tier.send(with_authorization(None, listed.clone()))
            .await
            .json["accepted"],
        2
    );
    assert_eq!(tier.payloads(), [listed]);
    for body in [
        batch(&[event("a")]),
        batch(&[event_of("a", "other")]),
        batch(&[]),
        batch(&["1".to_owned()]),
    ] {
        let answer = tier.send(with_authorization(None, body.clone())).await;
        assert_eq!(answer.error(), (401, "unauthorized"), "{body}");
    }
    assert_eq!(tier.records().len(), 1);
}

#[tokio::test]
async fn without_a_key_events_of_other_apps_are_rejected() {
    let tier = tier();
    let body = batch(&[event_of("a", "listed"), event_of("b", "main"), event("c")]);
    let answer = tier.send(with_authorization(None, body)).await;
    assert_eq!(
        (&answer.json["accepted"], &answer.json["rejected"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(answer.json["errors"][0]["code"], "app_not_allowed");
    assert_eq!(tier.payloads(), [batch(&[event_of("a", "listed")])]);
}

#[tokio::test]
async fn without_a_key_bodies_are_smaller_and_the_rate_is_the_apps_own() {
    let tier = tier_with(IngestConfig {
        keyless_body_bytes: 1000,
        keyless_events_per_second: 1,
        ..IngestConfig::default()
    });
    let large = batch(&[event_of(&"r".repeat(1000), "listed")]);
    assert_eq!(
        tier.send(with_authorization(None, large)).await.error(),
        (413, "body_too_large")
    );
    let five = batch(&[
        event_of("a", "listed"),
        event_of("b", "listed"),
        event_of("c", "listed"),
        event_of("d", "listed"),
    ]);
    assert_eq!(
        tier.send(with_authorization(None, five.clone()))
            .await
            .status,
        200
    );
    assert_eq!(
        tier.send(with_authorization(None, five.clone()))
            .await
            .status,
        200
    );
    assert_eq!(
        tier.send(with_authorization(None, five.clone()))
            .await
            .status,
        429
    );
    assert_eq!(
        tier.send(with_authorization(Some("Bearer report"), five))
            .await
            .status,
        200
    );
}
