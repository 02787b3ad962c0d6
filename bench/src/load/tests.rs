//! The generator against a small server that records its requests.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use clap::{Args, FromArgMatches};

use super::LoadArgs;
use super::generator::{Content, Counters, Load};
use super::server_metrics::ServerCounts;
use super::visibility::Sampler;
use crate::connection::Target;

#[derive(Clone, Default)]
struct Server {
    events: Arc<Mutex<Vec<String>>>,
    /// Requests still to be rejected with 503.
    refusals: Arc<Mutex<u32>>,
    hides_runs: bool,
    /// The token of `/metrics`; empty for none.
    metrics_token: &'static str,
}

impl Server {
    async fn start(self) -> Arc<Target> {
        Arc::new(Target::new(&self.listen().await, "key").unwrap())
    }

    /// Starts to respond; returns the address.
    async fn listen(self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/api/report", post(report))
            .route("/api/run/", get(list))
            .route("/metrics", get(metrics))
            .with_state(self);
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

async fn report(State(server): State<Server>, body: Bytes) -> impl IntoResponse {
    {
        let mut refusals = server.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return (
                StatusCode::SERVICE_UNAVAILABLE,
                [("retry-after", "0")],
                String::new(),
            );
        }
    }
    let batch = schemas::batch::read(&body, i64::MAX / 2).unwrap();
    let accepted = batch.slots.len();
    let raws = batch.slots.into_iter().map(|slot| slot.raw.to_owned());
    server.events.lock().unwrap().extend(raws);
    let answer = format!(r#"{{"accepted":{accepted},"rejected":0,"errors":[]}}"#);
    (StatusCode::OK, [("retry-after", "0")], answer)
}

async fn list(State(server): State<Server>) -> String {
    let events = server.events.lock().unwrap();
    let sampled = events
        .iter()
        .filter(|raw| raw.contains("bench-sampler") && !server.hides_runs);
    let runs: Vec<serde_json::Value> = sampled
        .map(|raw| serde_json::from_str(raw).unwrap())
        .collect();
    serde_json::json!({"data": runs, "next_cursor": null, "has_more": false}).to_string()
}

async fn metrics(State(server): State<Server>, headers: HeaderMap) -> (StatusCode, String) {
    let required = format!("Bearer {}", server.metrics_token);
    if !server.metrics_token.is_empty() && headers["authorization"] != required.as_str() {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    let count = server.events.lock().unwrap().len();
    let text = format!(
        "spindle_processor_stored_events_total {count}\nspindle_ingest_appended_events_total {count}\n"
    );
    (StatusCode::OK, text)
}

/// Runs `spindle-bench load` with these flags for a moment.
async fn run(url: &str, flags: &[&str]) -> anyhow::Result<()> {
    let fixed = [
        "load",
        "--key",
        "key",
        "--duration",
        "50ms",
        "--verify",
        "--url",
        url,
    ];
    let matches = LoadArgs::augment_args(clap::Command::new("load"))
        .try_get_matches_from(fixed.iter().chain(flags))?;
    super::run(LoadArgs::from_arg_matches(&matches)?).await
}

fn load(target: &Arc<Target>) -> Load {
    Load {
        target: Arc::clone(target),
        counters: Arc::new(Counters::default()),
        content: Content::Events,
        batch_size: 10,
        event_bytes: 600,
        apps: 3,
        connections: 3,
        pause: None,
        duration: Duration::from_millis(200),
    }
}

#[tokio::test]
async fn every_accepted_event_is_counted_once_and_distinct() {
    let server = Server::default();
    *server.refusals.lock().unwrap() = 7;
    let target = server.clone().start().await;
    let before = ServerCounts::read(&target).await.unwrap();
    let outcome = load(&target).run().await.unwrap();
    let counts = ServerCounts::read(&target).await.unwrap().since(before);
    assert!(outcome.accepted > 0);
    assert_eq!(
        (counts.stored, counts.appended),
        (outcome.accepted, Some(outcome.accepted))
    );
    assert_eq!(outcome.statuses[&503], 7);
    assert_eq!(outcome.statuses[&200] * 10, outcome.accepted);
    assert_eq!(
        (outcome.latency_us.len(), outcome.abandoned),
        (outcome.statuses[&200], 0)
    );
    let events = server.events.lock().unwrap();
    assert_eq!(events.iter().collect::<BTreeSet<_>>().len(), events.len());
}

#[tokio::test]
async fn a_rate_is_kept() {
    let target = Server::default().start().await;
    // A batch of 10 each 50 ms on each of 3 connections, for 200 ms.
    let load = Load {
        pause: Some(Duration::from_millis(50)),
        ..load(&target)
    };
    let outcome = load.run().await.unwrap();
    assert!(
        (30..=120).contains(&outcome.accepted),
        "{}",
        outcome.accepted
    );
}

#[tokio::test]
async fn every_sampled_run_is_timed_until_the_list_has_it() {
    let server = Server::default();
    let target = server.clone().start().await;
    let mut sampler = Sampler::start(target, Duration::from_millis(5));
    while server.events.lock().unwrap().len() < 10 {
        tokio::task::yield_now().await;
    }
    let posted = sampler.stop_posting().await.unwrap();
    let seen = sampler.finish(Duration::from_secs(60)).await.unwrap();
    assert_eq!((seen.latency_us.len(), seen.unseen), (posted, 0));
}

#[tokio::test]
async fn a_run_that_never_comes_into_the_list_is_told() {
    let server = Server {
        hides_runs: true,
        ..Server::default()
    };
    let target = server.clone().start().await;
    let mut sampler = Sampler::start(target, Duration::from_millis(5));
    while server.events.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let posted = sampler.stop_posting().await.unwrap();
    let seen = sampler.finish(Duration::from_millis(20)).await.unwrap();
    assert_eq!((seen.latency_us.len(), seen.unseen as u64), (0, posted));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_and_not_a_number() {
    let target = Arc::new(Target::new("http://127.0.0.1:1", "key").unwrap());
    let load = Load {
        duration: Duration::from_secs(60),
        ..load(&target)
    };
    assert!(load.run().await.is_err());
    assert!(Target::new("https://127.0.0.1", "key").is_err());
}

#[tokio::test]
async fn metrics_behind_a_token_are_read_with_it() {
    let server = Server {
        metrics_token: "metrics-token",
        ..Server::default()
    };
    let url = server.listen().await;
    let error = run(&url, &[]).await.unwrap_err();
    assert!(format!("{error:#}").contains("401"), "{error:#}");
    run(&url, &["--metrics-token", "metrics-token"])
        .await
        .unwrap();
}
