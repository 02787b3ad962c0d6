//! Captured requests of real exporters, replayed: the runs are the ones that `runs.txt` beside the capture expects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Method, Request, header};
use schemas::batch;
use schemas::digest::Identity;
use schemas::fold::full::FullRun;
use schemas::ids::{AppId, ProjectId};
use serde_json::{Value, json};

use crate::fixture::{Answer, Tier, tier};

/// After the captures were made.
const NOW_MS: i64 = 1_795_200_000_000;

fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../tests/captures").join(name)
}

/// A captured request.
struct Capture {
    meta: Value,
    bytes: Vec<u8>,
}

/// The requests of a scenario, in order.
fn captures(name: &str) -> Vec<Capture> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        // What is expected stands beside the requests, which are numbered.
        name.starts_with(|first: char| first.is_ascii_digit()) && name.ends_with(".json")
    });
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let meta: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            // The exact bytes of a body that is not JSON as it stands.
            let bytes = fs::read(path.with_extension("bin"));
            let bytes = bytes.unwrap_or_else(|_| meta["body"].to_string().into_bytes());
            Capture { meta, bytes }
        })
        .collect()
}

impl Capture {
    fn path(&self) -> &str {
        self.meta["path"].as_str().unwrap()
    }

    /// Replays the request as it was sent.
    async fn replay(&self, tier: &Tier) -> Answer {
        let mut request = post(self.path());
        for (name, value) in self.meta["headers"].as_object().unwrap() {
            let name = name.to_ascii_lowercase();
            if ["content-type", "content-encoding"].contains(&name.as_str()) {
                request = request.header(name, value.as_str().unwrap());
            }
        }
        let body = Body::from(self.bytes.clone());
        tier.send(request.body(body).unwrap()).await
    }

    /// Replays its content in OTLP's JSON.
    async fn replay_as_json(&self, tier: &Tier) -> Answer {
        let request = post(self.path()).header(header::CONTENT_TYPE, "application/json");
        let body = Body::from(self.meta["body"].to_string());
        tier.send(request.body(body).unwrap()).await
    }
}

fn post(path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::AUTHORIZATION, "Bearer report")
}

/// The runs of everything in the log.
fn runs(tier: &Tier) -> BTreeMap<String, FullRun> {
    let identity = Identity::new(&ProjectId::new("acme"), &AppId::new("main"));
    let mut runs: BTreeMap<String, FullRun> = BTreeMap::new();
    for payload in tier.payloads() {
        for slot in batch::read(&payload, NOW_MS).unwrap().slots {
            let event = slot.event.unwrap();
            let id = identity.of(&event, slot.raw);
            let run = runs.entry(event.run_id.to_string()).or_default();
            run.apply(&event, id);
        }
    }
    runs
}

/// The runs as trees, in order of their starts.
fn told(runs: &BTreeMap<String, FullRun>) -> String {
    let mut out = String::new();
    tell_below(runs, "", 0, &mut out);
    out
}

fn tell_below(runs: &BTreeMap<String, FullRun>, parent: &str, depth: usize, out: &mut String) {
    let parent_of = |run: &FullRun| run.state().parent_run_id().to_owned();
    let mut children: Vec<_> = runs
        .iter()
        .filter(|(_, run)| parent_of(run) == parent)
        .collect();
    children.sort_by_key(|(id, run)| (run.state().started_at_ms(), *id));
    for (id, run) in children {
        tell(run, &"  ".repeat(depth), out);
        tell_below(runs, id, depth + 1, out);
    }
}

fn tell(run: &FullRun, indent: &str, out: &mut String) {
    let state = run.state();
    write!(
        out,
        "{indent}{} {:?}: {}",
        state.kind(),
        state.name(),
        state.status().as_str()
    )
    .unwrap();
    for (label, text) in [
        ("model", state.model()),
        ("agent", state.own_agent()),
        ("user", state.own_user_email()),
        ("thread", state.thread_id()),
    ] {
        if !text.is_empty() {
            write!(out, ", {label} {text}").unwrap();
        }
    }
    let tokens = state.usage().tokens;
    for (label, count) in [
        ("prompt", tokens.prompt),
        ("completion", tokens.completion),
        ("total", tokens.total),
        ("cached", tokens.cached),
        ("reasoning", tokens.reasoning.filter(|count| *count > 0)),
    ] {
        if let Some(count) = count {
            write!(out, ", {count} {label}").unwrap();
        }
    }
    let tags: Vec<&str> = state.tags().collect();
    if !tags.is_empty() {
        write!(out, ", tags {}", tags.join(" ")).unwrap();
    }
    writeln!(out).unwrap();
    if let Some(error) = state.error() {
        writeln!(out, "{indent}    error {}: {}", error.name, error.message).unwrap();
    }
    for (label, json) in [("input", run.input()), ("output", run.output())] {
        if let Some(json) = json {
            writeln!(out, "{indent}    {label} {json}").unwrap();
        }
    }
}

#[tokio::test]
async fn captured_exports_are_the_runs_that_a_person_would_expect() {
    for name in [
        "npm-otel-otlp-http-0.223.1/main",
        "npm-otel-otlp-http-0.223.1/gzip",
        "pypi-otel-openai-v2-2.3b0/main",
        "pypi-otel-openinference-openai-0.1.66/main",
        "pypi-otel-traceloop-openai-0.62.4/main",
    ] {
        let tier = tier();
        for capture in captures(name) {
            let answer = capture.replay(&tier).await;
            // Empty: everything was taken.
            let is_empty = answer.json.is_null() || answer.json == json!({});
            assert!(answer.status == 200 && is_empty, "{name}: {answer:?}");
        }
        let path = folder(name).join("runs.txt");
        let told = told(&runs(&tier));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &told).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), told, "{name}");
    }
}

#[tokio::test]
async fn protobuf_and_json_of_one_request_make_the_same_events() {
    for name in [
        "npm-otel-otlp-http-0.223.1/gzip",
        "pypi-otel-openai-v2-2.3b0/main",
        "pypi-otel-openinference-openai-0.1.66/main",
        "pypi-otel-traceloop-openai-0.62.4/main",
    ] {
        let (as_sent, as_json) = (tier(), tier());
        for capture in captures(name) {
            assert_eq!(capture.replay(&as_sent).await.status, 200, "{name}");
            assert_eq!(capture.replay_as_json(&as_json).await.status, 200, "{name}");
        }
        assert_eq!(as_sent.payloads(), as_json.payloads(), "{name}");
    }
}

#[tokio::test]
async fn logs_before_their_spans_and_everything_twice_change_nothing() {
    let name = "pypi-otel-openai-v2-2.3b0/main";
    let (in_order, backwards) = (tier(), tier());
    for capture in captures(name) {
        capture.replay(&in_order).await;
    }
    for capture in captures(name).iter().rev() {
        capture.replay(&backwards).await;
        capture.replay(&backwards).await;
    }
    assert_eq!(told(&runs(&in_order)), told(&runs(&backwards)));
}
