//! Sizes, encodings, times, and damage.

use std::convert::Infallible;
use std::time::Duration;

use async_compression::tokio::bufread::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use futures::StreamExt;
use ingest::IngestConfig;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;

use crate::fixture::{batch, event, event_of, request, tier, tier_with};

async fn compressed(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        "gzip" => GzipEncoder::new(bytes).read_to_end(&mut out).await,
        "deflate" => ZlibEncoder::new(bytes).read_to_end(&mut out).await,
        "br" => BrotliEncoder::new(bytes).read_to_end(&mut out).await,
        "zstd" => ZstdEncoder::new(bytes).read_to_end(&mut out).await,
        _ => panic!("no encoder for {encoding}"),
    }
    .unwrap();
    out
}

fn encoded(encoding: &str, body: impl Into<Body>) -> axum::extract::Request {
    let mut request = request(body);
    request
        .headers_mut()
        .insert(CONTENT_ENCODING, encoding.parse().unwrap());
    request
}

/// A body that comes in pieces, without a length.
fn chunked(bytes: &[u8], piece: usize) -> Body {
    let pieces: Vec<Result<Bytes, Infallible>> = bytes
        .chunks(piece)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    Body::from_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn every_encoding_is_undone_and_the_log_holds_the_plain_body() {
    let tier = tier();
    let body = batch(&vec![event("a"); 500]);
    for encoding in ["gzip", "deflate", "br", "zstd"] {
        let bytes = compressed(encoding, body.as_bytes()).await;
        let answer = tier.send(encoded(encoding, chunked(&bytes, 7))).await;
        assert_eq!(
            (answer.status, &answer.json["accepted"]),
            (200, &500.into()),
            "{encoding}"
        );
        assert_eq!(tier.records().pop().unwrap().payload, body);
    }
    assert_eq!(tier.send(encoded("identity", body)).await.status, 200);
}

#[tokio::test]
async fn what_is_not_what_its_encoding_says_is_400_and_an_unknown_one_415() {
    let tier = tier();
    let body = batch(&[event("a")]);
    for encoding in ["gzip", "deflate", "br", "zstd"] {
        let answer = tier.send(encoded(encoding, body.clone())).await;
        assert_eq!(answer.error(), (400, "invalid_encoding"), "{encoding}");
        let mut cut = compressed(encoding, body.as_bytes()).await;
        cut.truncate(cut.len() / 2);
        let answer = tier.send(encoded(encoding, cut)).await;
        assert_eq!(answer.error(), (400, "invalid_encoding"), "{encoding}, cut");
    }
    for encoding in ["compress", "gzip, gzip", "snappy"] {
        assert_eq!(
            tier.send(encoded(encoding, body.clone())).await.error(),
            (415, "unsupported_encoding")
        );
    }
}

#[tokio::test]
async fn a_content_type_that_is_not_json_is_415_and_none_is_fine() {
    let tier = tier();
    for (value, status) in [
        (None, 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("text/plain;charset=UTF-8"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("application/json; charset=utf-16"), 415),
    ] {
        let mut request = request(batch(&[event("a")]));
        request.headers_mut().remove(CONTENT_TYPE);
        if let Some(value) = value {
            request
                .headers_mut()
                .insert(CONTENT_TYPE, value.parse().unwrap());
        }
        assert_eq!(tier.send(request).await.status, status, "{value:?}");
    }
}

#[tokio::test]
async fn text_is_taken_from_clients_of_the_llmonitor_dialect_alone() {
    let tier = tier();
    let old = r#"{"type": "agent", "event": "start", "runId": "r", "timestamp": "2026-01-01T00:00:00Z", "app": "a"}"#;
    for (body, status) in [
        (batch(&[old.to_owned()]), 200),
        (batch(&[event("a"), old.to_owned()]), 200),
        (batch(&[event("a")]), 415),
        (batch(&[]), 415),
        ("no JSON".to_owned(), 415),
    ] {
        let mut request = request(body.clone());
        let text = "text/plain;charset=UTF-8".parse().unwrap();
        request.headers_mut().insert(CONTENT_TYPE, text);
        assert_eq!(tier.send(request).await.status, status, "{body}");
    }
}

#[tokio::test]
async fn query_parameters_are_refused_by_name() {
    let tier = tier();
    let mut refused = request(batch(&[event("a")]));
    *refused.uri_mut() = "/api/report?x=1&y".parse().unwrap();
    let answer = tier.send(refused).await;
    assert_eq!(answer.error(), (400, "unknown_parameter"));
}

#[tokio::test]
async fn the_limit_counts_decompressed_bytes_and_a_bomb_stops_there() {
    let tier = tier_with(IngestConfig {
        body_bytes: 100_000,
        keyless_body_bytes: 1000,
        ..IngestConfig::default()
    });
    let fitting = |bytes: usize| {
        let without = batch(&[event("a").replace("hello", "")]).len();
        batch(&[event("a").replace("hello", &"h".repeat(bytes - without))])
    };
    let exactly = fitting(100_000);
    assert_eq!(exactly.len(), 100_000);
    let over = format!("{exactly} ");
    assert_eq!(tier.report(exactly.clone()).await.status, 200);
    assert_eq!(
        tier.report(over.clone()).await.error(),
        (413, "body_too_large")
    );
    assert_eq!(
        tier.report(chunked(exactly.as_bytes(), 999)).await.status,
        200
    );
    assert_eq!(
        tier.report(chunked(over.as_bytes(), 999)).await.error(),
        (413, "body_too_large")
    );
    let bomb = vec![b' '; 20 << 20];
    for encoding in ["gzip", "deflate", "zstd", "br"] {
        let plain = compressed(encoding, exactly.as_bytes()).await;
        assert_eq!(
            tier.send(encoded(encoding, plain)).await.status,
            200,
            "{encoding}"
        );
        let size = if encoding == "br" {
            1 << 20
        } else {
            bomb.len()
        };
        let bomb = compressed(encoding, &bomb[..size]).await;
        assert!(bomb.len() < size / 500, "{encoding}: {}", bomb.len());
        assert_eq!(
            tier.send(encoded(encoding, bomb)).await.error(),
            (413, "body_too_large"),
            "{encoding}"
        );
    }
    assert_eq!(tier.metric("spindle_ingest_in_flight_bytes"), 0.0);
}

#[tokio::test]
async fn a_large_body_is_split_into_records_and_nothing_is_lost() {
    let tier = tier();
    let large = event("a").replace("hello", &"h".repeat(50_000));
    let events: Vec<String> = (0..150)
        .map(|i| large.replace(r#""run_id":"a""#, &format!(r#""run_id":"r{i}""#)))
        .collect();
    assert_eq!(
        tier.report(chunked(batch(&events).as_bytes(), 65_536))
            .await
            .json["accepted"],
        150
    );
    let inside: String = tier
        .payloads()
        .iter()
        .map(|payload| std::str::from_utf8(payload).unwrap().to_owned())
        .map(|payload| {
            payload
                .strip_prefix(r#"{"events":["#)
                .unwrap()
                .strip_suffix("]}")
                .unwrap()
                .to_owned()
        })
        .collect::<Vec<_>>()
        .join(",");
    assert!(
        inside == events.join(","),
        "the events are not what was sent"
    );
    assert!(
        tier.records()
            .iter()
            .all(|record| record.payload.len() <= schemas::limits::RECORD_BYTES)
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_408_and_frees_its_memory() {
    let tier = tier();
    let start = tokio::time::Instant::now();
    let first: Result<Bytes, Infallible> = Ok(Bytes::from_static(b"{\"events\":["));
    let stuck = futures::stream::iter([first]).chain(futures::stream::pending());
    let answer = tier.report(Body::from_stream(stuck)).await;
    assert_eq!(answer.error(), (408, "request_timeout"));
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(tier.metric("spindle_ingest_in_flight_bytes"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_408_in_the_same_time() {
    let tier = tier();
    let drip = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(b" ")), ()))
    });
    let start = tokio::time::Instant::now();
    assert_eq!(tier.report(Body::from_stream(drip)).await.status, 408);
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_400() {
    let tier = tier();
    let parts = [
        Ok(Bytes::from_static(b"{\"events\":[")),
        Err(std::io::Error::other("gone")),
    ];
    assert_eq!(
        tier.report(Body::from_stream(futures::stream::iter(parts)))
            .await
            .error(),
        (400, "incomplete_body")
    );
}

#[tokio::test]
async fn all_bodies_together_are_bounded_and_over_it_is_503_x1() {
    let limit = 10_000;
    let tier = tier_with(IngestConfig {
        body_bytes: limit,
        keyless_body_bytes: limit,
        in_flight_bytes: limit,
        ..IngestConfig::default()
    });
    let body = batch(&vec![event("a"); 70]);
    assert!((limit / 2..limit).contains(&body.len()));
    tier.log.hold_appends();
    let mut first = Box::pin(tier.report(body.clone()));
    // The first body is in memory until the log has it.
    let second = tokio::select! {
        biased;
        answer = &mut first => panic!("answered before the log did: {answer:?}"),
        answer = tier.report(body.clone()) => answer,
    };
    assert_eq!(second.error(), (503, "unavailable"));
    assert_eq!(second.retry_after_s(), Some(1));
    tier.log.release_appends();
    assert_eq!(first.await.status, 200);
    assert_eq!(tier.report(body).await.status, 200);
}

#[tokio::test]
async fn the_rest_of_a_refused_body_is_read_off() {
    let tier = tier_with(IngestConfig {
        body_bytes: 1000,
        keyless_body_bytes: 1000,
        ..IngestConfig::default()
    });
    let (sender, receiver) = futures::channel::mpsc::channel::<Result<Bytes, Infallible>>(0);
    let client = async move {
        let mut sender = sender;
        for _ in 0..3 {
            futures::SinkExt::send(&mut sender, Ok(Bytes::from(vec![b' '; 900])))
                .await
                .expect("still being read");
        }
    };
    let (answer, ()) = futures::join!(tier.report(Body::from_stream(receiver)), client);
    assert_eq!(answer.status, 413);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Truncated and damaged bodies, plain or compressed: always an answer, never the server's fault.
    #[test]
    fn damage_at_any_byte_is_never_a_5xx(
        cut in 0usize..2000, at in 0usize..2000, byte: u8, encoding in 0usize..5
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tier = tier();
            let plain = batch(&[event("a"), event_of("b", "x"), "[7]".to_owned()]);
            let encoding = ["identity", "gzip", "deflate", "br", "zstd"][encoding];
            let mut bytes = match encoding {
                "identity" => plain.into_bytes(),
                _ => compressed(encoding, plain.as_bytes()).await,
            };
            let at = at % bytes.len();
            bytes[at] = byte;
            if cut < bytes.len() * 2 {
                bytes.truncate(cut);
            }
            let answer = tier.send(encoded(encoding, bytes)).await;
            prop_assert!(answer.status == 200 || answer.status == 400 || answer.status == 413, "{answer:?}");
            if answer.status == 200 {
                prop_assert_eq!(tier.records().is_empty(), answer.json["accepted"] == 0);
            }
            Ok(())
        })?;
    }
}
