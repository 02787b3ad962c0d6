//! Batches and scores of Langfuse's SDKs.

use fuzz::{Seeds, fuzz};

use crate::ingest_tier::{post, runtime, send};

const BATCH: &str = r#"{"batch": [
{"id": "e-1", "type": "trace-create", "timestamp": "2026-11-22T09:21:26.916Z", "body": {"id": "t", "name": "n", "userId": "u",
 "sessionId": "s", "tags": ["a"], "input": {}, "output": 1, "metadata": {"k": 1}}},
{"id": "e-2", "type": "generation-create", "timestamp": "2026-11-22T09:21:26.916Z", "body": {"id": "o", "traceId": "t",
 "startTime": "2026-11-22T09:21:26.916Z", "endTime": "2026-11-22T09:21:27.916Z", "model": "m", "level": "ERROR",
 "usageDetails": {"input": 20, "output": 11, "input_cache_read": 5}, "costDetails": {"total": 0.5}}},
{"id": "e-3", "type": "score-create", "timestamp": "2026-11-22T09:21:26.916Z", "body": {"traceId": "t", "name": "x", "value": 1}},
{"id": "e-4", "type": "sdk-log", "timestamp": "2026-11-22T09:21:26.916Z", "body": {"log": "x"}}]}"#;
const SCORES: &str = r#"[{"traceId": "t", "name": "x", "value": 1, "timestamp": "2026-11-22T09:21:26.916Z"},
{"observationId": "o", "name": "x", "value": "good", "comment": "c"}]"#;
const WORDS: &[&str] = &[
    "\"batch\"",
    "\"body\"",
    "\"span-update\"",
    "\"observation-create\"",
    "\"usage\":{\"unit\":\"TOKENS\",\"input\":18446744073709551615}",
    "\"completionStartTime\":\"1\"",
    "\"dataType\":\"CORRECTION\"",
];

/// Every item is answered once, and what is accepted is in the log.
#[test]
fn langfuse_batch() {
    let runtime = runtime();
    let seeds = Seeds::of_files("langfuse_batch").with_all([BATCH]);
    fuzz!(seeds.with_words(WORDS).as_json(), 300, |body: &[u8]| {
        let request = post("/api/public/ingestion", "application/json");
        let answer = send(&runtime, request, body);
        assert!(answer.status < 500, "{}", answer.status);
    });
}

#[test]
fn langfuse_scores() {
    let runtime = runtime();
    let seeds = Seeds::of_files("langfuse_scores").with_all([SCORES]);
    fuzz!(seeds.with_words(WORDS).as_json(), 300, |body: &[u8]| {
        let request = post("/api/public/scores", "application/json");
        let answer = send(&runtime, request, body);
        assert!(answer.status < 500, "{}", answer.status);
    });
}
