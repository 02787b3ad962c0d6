//! The generator against a small server that knows what it was sent.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};

use super::connection::Target;
use super::load::{Counters, Load};
use super::server_metrics::ServerCounts;
use super::visibility::Sampler;

/// What the server has, and how it behaves.
#[derive(Clone, Default)]
struct Server {
    events: Arc<Mutex<Vec<String>>>,
    /// Requests still to be refused with 503.
    refusals: Arc<Mutex<u32>>,
    hides_runs: bool,
}

impl Server {
    async fn start(self) -> Arc<Target> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/api/report", post(report))
            .route("/api/run/", get(list))
            .route("/metrics", get(metrics))
            .with_state(self);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Arc::new(Target::new(&url, "key").unwrap())
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

async fn metrics(State(server): State<Server>) -> String {
    let count = server.events.lock().unwrap().len();
    format!(
        "spindle_processor_stored_events_total {count}\nspindle_ingest_appended_events_total {count}\n"
    )
}

fn load(target: &Arc<Target>) -> Load {
    Load {
        target: Arc::clone(target),
        counters: Arc::new(Counters::default()),
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
