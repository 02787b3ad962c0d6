//! The usage of the model calls in `tests/recordings`, by the README's account of the model that answered them.

use std::path::Path;

use axum::body::Body;
use axum::http::{Method, Request, header};
use serde_json::Value;

use crate::fixture::{Tier, tier};

/// Recordings whose spans and records have a vocabulary of their own.
const OTHERS: [&str; 3] = ["claude-code", "codex", "gemini-cli"];

/// The events of all spans of a recording, each request in its own type and encoding.
async fn replayed(folder: &Path) -> Vec<Value> {
    let tier: Tier = tier();
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with("v1-traces.json") {
            continue;
        }
        let recorded: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let binary = file.with_extension("bin");
        let body = match binary.exists() {
            true => std::fs::read(binary).unwrap(),
            false => recorded["body"].to_string().into_bytes(),
        };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/v1/traces")
            .header(header::AUTHORIZATION, "Bearer report");
        let headers = recorded["headers"].as_object().unwrap();
        for (name, value) in headers {
            if ["content-type", "content-encoding"].contains(&name.to_lowercase().as_str()) {
                request = request.header(name, value.as_str().unwrap());
            }
        }
        let answer = tier.send_raw(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.0.status, 200, "{name}");
    }
    let bodies = tier.payloads();
    let events = bodies.iter().flat_map(|body| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["events"].as_array().unwrap().clone()
    });
    events.collect()
}

/// Prompt, completion, cached, written, reasoning; 0 where a client does not say.
fn counts(event: &Value) -> [u64; 5] {
    let names = ["prompt", "completion", "cached", "cache_write", "reasoning"];
    names.map(|name| event[format!("{name}_tokens")].as_u64().unwrap_or(0))
}

#[tokio::test]
async fn every_call_in_the_recordings_has_the_counts_of_its_model() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
    let mut seen = [0; 4];
    for folder in std::fs::read_dir(recordings).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if !folder.is_dir() || OTHERS.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        for event in replayed(&folder).await {
            let model = event["model"].as_str().unwrap_or_default();
            if event["type"] != "llm" || event.get("prompt_tokens").is_none() {
                continue;
            }
            let found = counts(&event);
            let what = format!("{name}: {event}");
            if model.contains("claude-sonnet") {
                assert_eq!(found, [8920, 11, 8000, 900, 0], "{what}");
                seen[0] += 1;
            } else if model.contains("claude-haiku") {
                assert_eq!(found, [31, 11, 8, 3, 0], "{what}");
                seen[1] += 1;
            } else if model.contains("gpt-4o-mini") && !name.starts_with("rotel") {
                assert_eq!(found, [37, 11, 8, 0, 0], "{what}");
                seen[2] += 1;
            } else if model.starts_with("gpt-5") {
                // Not every client says how much of it was reasoning.
                assert!(
                    [[37, 75, 8, 0, 64], [37, 75, 8, 0, 0]].contains(&found),
                    "{what}"
                );
                seen[3] += 1;
            } else if model.contains("embedding") {
                assert_eq!(found, [9, 0, 0, 0, 0], "{what}");
            }
            for kind in [
                "input_audio",
                "output_audio",
                "input_image",
                "cache_write_1h",
            ] {
                assert_eq!(event.get(format!("{kind}_tokens")), None, "{what}");
            }
            assert_eq!(event.get("service_tier"), None, "{what}");
            assert_eq!(event.get("cost"), None, "clients compute it: {what}");
        }
    }
    assert!(seen.iter().all(|calls| *calls >= 2), "{seen:?}");
}

#[tokio::test]
async fn a_streamed_call_has_the_time_to_its_first_token() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
    for (name, calls) in [
        ("py-anthropic-sdk-native", 2),
        ("py-pydantic-ai", 3),
        ("py-sdks-openinference", 4),
        ("py-strands", 4),
        ("py-langgraph-genai", 2),
        ("js-ai-sdk-7-otel", 1),
        ("js-ai-sdk-7-legacy", 1),
    ] {
        let events = replayed(&recordings.join(name)).await;
        let times: Vec<&Value> = events
            .iter()
            .filter_map(|event| event.get("ttft_ms"))
            .collect();
        assert_eq!(times.len(), calls, "{name}: {times:?}");
        let is_time = |ms: &&Value| ms.as_u64().is_some_and(|ms| ms > 0);
        assert!(times.iter().all(is_time), "{name}: {times:?}");
    }
}
