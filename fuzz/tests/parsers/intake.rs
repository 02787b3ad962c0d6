//! `POST /api/report` from the head of the request to the log: encodings, apps, counts and reasons.

use fuzz::fuzz;
use serde::Deserialize;

use crate::ingest_tier::{post, runtime, send};
use crate::report;

/// Rejections named by one response.
const REPORTED_ERRORS: u64 = 100;

#[derive(Deserialize)]
struct Report {
    accepted: u64,
    rejected: u64,
    errors: Vec<Rejection>,
}

#[derive(Deserialize)]
struct Rejection {
    index: u64,
    message: String,
}

#[test]
fn intake() {
    let runtime = runtime();
    fuzz!(report::seeds(), 300, |body: &[u8]| {
        let answer = send(&runtime, post("/api/report", "application/json"), body);
        if answer.status != 200 {
            return;
        }
        let report: Report = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(report.accepted, answer.events());
        let errors = report.errors.len() as u64;
        assert_eq!(errors, report.rejected.min(REPORTED_ERRORS));
        for rejection in report.errors {
            assert!(rejection.index < report.accepted + report.rejected);
            let place = format!("events[{}]", rejection.index);
            assert!(
                rejection.message.starts_with(&place),
                "{}",
                rejection.message
            );
        }
    });
}

/// Compressed bodies: one that cannot be decompressed is rejected, and one that can means the same as its bytes.
#[test]
fn intake_of_compressed_bodies() {
    let runtime = runtime();
    let plain = report::seeds();
    let packed = plain
        .iter()
        .map(|(_, body)| zstd::bulk::compress(body, 1).unwrap());
    let seeds = fuzz::Seeds::of_files("compressed").with_all(packed);
    fuzz!(seeds, 300, |body: &[u8]| {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let request =
                post("/api/report", "application/json").header("content-encoding", encoding);
            let answer = send(&runtime, request, body);
            if encoding == "zstd"
                && let Ok(plain) = zstd::stream::decode_all(body)
                && plain.len() <= crate::ingest_tier::BODY_BYTES
            {
                let same = send(&runtime, post("/api/report", "application/json"), &plain);
                assert_eq!(answer.status, same.status);
                assert_eq!(answer.payloads(), same.payloads());
            }
        }
    });
}
