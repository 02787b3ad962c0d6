//! How events come through, as the people who run it see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use query::{Cleared, DiskReport, Infrastructure, LogReport, Processes};
use schemas::control::KnownProcess;
use schemas::control::{EventCounts, Heartbeat, StalledPartition, WaitingMarks};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};

use crate::tier::Tier;

const PATH: &str = "/api/internal/pipeline";

fn known(role: &str, silent_ms: u64, events: EventCounts) -> KnownProcess {
    KnownProcess {
        heartbeat: Heartbeat {
            process: format!("process_{role}"),
            role: role.to_owned(),
            version: "9.9.9".to_owned(),
            endpoint: format!("http://{role}:7070"),
            events,
            ..Heartbeat::default()
        },
        silent_ms,
    }
}

/// Three tiers, of which one lacks something and one is silent.
struct Three;

#[async_trait]
impl Processes for Three {
    fn processes(&self) -> Vec<KnownProcess> {
        let taken = EventCounts {
            accepted: Some(9),
            rejected: Some(2),
            ..EventCounts::default()
        };
        let processed = EventCounts {
            stored: Some(7),
            dead_lettered: Some(1),
            ..EventCounts::default()
        };
        let mut processor = known("processor", 400, processed);
        let missing = ("engine".to_owned(), "does not answer".to_owned());
        processor.heartbeat.missing = vec![missing];
        processor.heartbeat.stalled = vec![StalledPartition {
            partition: 7,
            committed: 120,
            lag_records: 7,
            seconds: 75,
            owner: String::new(),
            state: "PreparingRebalance".to_owned(),
        }];
        processor.heartbeat.waiting_marks = Some(WaitingMarks {
            runs: 4,
            oldest_ms: Some(1_795_168_800_007),
        });
        vec![
            known("query", 0, EventCounts::default()),
            known("ingest", 60_000, taken),
            processor,
        ]
    }

    async fn clear(&self, _: &[String]) -> Result<Cleared, String> {
        Err("not here".to_owned())
    }
}

/// A log that counts how often it was asked.
#[derive(Default)]
struct Log {
    asked: AtomicU64,
    is_away: AtomicBool,
}

#[async_trait]
impl Infrastructure for Log {
    async fn log(&self) -> Result<LogReport, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err("it does not answer".to_owned());
        }
        Ok(LogReport {
            kind: "embedded",
            version: "9.9.9".to_owned(),
            brokers: 1,
            topics: 2,
            lag_records: Some(3),
            bytes: Some((10, 100)),
        })
    }

    fn log_kind(&self) -> &'static str {
        "embedded"
    }

    async fn disk(&self) -> Option<DiskReport> {
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_of_everything_see_every_process_and_the_log() {
    let mut tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    assert_eq!(
        tier.get(&operator, PATH).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let log = Arc::new(Log::default());
    let with = tier.state.clone().with_processes(Arc::new(Three));
    tier.router = query::router(with.clone().with_infrastructure(log.clone()));
    let (status, found) = tier.get(&operator, PATH).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert!(found["at"].is_string());
    let process = |role: &str,
                   ready: bool,
                   missing: Value,
                   silent_ms: u64,
                   counts: [Option<u64>; 4]| {
        json!({
            "process": format!("process_{role}"), "role": role, "version": "9.9.9",
            "endpoint": format!("http://{role}:7070"), "ready": ready, "missing": missing, "silent_ms": silent_ms,
            "accepted_events": counts[0], "stored_events": counts[1],
            "dead_lettered_events": counts[2], "rejected_events": counts[3],
            "stalled_partitions": [],
        })
    };
    let lacks = json!([{"part": "engine", "reason": "does not answer"}]);
    let mut expected = json!([
        process("query", true, json!([]), 0, [None; 4]),
        process(
            "ingest",
            false,
            json!([]),
            60_000,
            [Some(9), None, None, Some(2)]
        ),
        process(
            "processor",
            false,
            lacks,
            400,
            [None, Some(7), Some(1), None]
        ),
    ]);
    expected[2]["stalled_partitions"] = json!([{
        "partition": 7, "committed": 120, "lag_records": 7, "seconds": 75, "owner": null, "state": "PreparingRebalance",
    }]);
    assert_eq!(found["processes"], expected);
    let waiting = json!({"runs": 4, "oldest_at": "2026-11-20T10:00:00.007Z"});
    assert_eq!(found["waiting_marks"], waiting);
    let expected = json!({
        "kind": "embedded", "version": "9.9.9", "brokers": 1, "topics": 2,
        "lag_records": 3, "used_bytes": 10, "max_bytes": 100,
    });
    assert_eq!(
        (&found["log"], &found["log_error"]),
        (&expected, &Value::Null)
    );

    // Many who look at the same time ask the log once.
    let before = log.asked.load(Ordering::SeqCst);
    let many = (0..20).map(|_| tier.get(&operator, PATH));
    let answers = futures::future::join_all(many).await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
    assert!(log.asked.load(Ordering::SeqCst) <= before + 5);

    // Without an answer of the log, the rest is answered.
    let mut other = Tier::new().await;
    let admin = other.token(Role::Admin, None).await;
    let away = Log::default();
    away.is_away.store(true, Ordering::SeqCst);
    let with = other.state.clone().with_processes(Arc::new(Three));
    for (state, reason) in [
        (with.clone(), "this server has no access to the log"),
        (
            with.with_infrastructure(Arc::new(away)),
            "it does not answer",
        ),
    ] {
        other.router = query::router(state);
        let (status, found) = other.get(&admin, PATH).await;
        assert_eq!(status, StatusCode::OK, "{found}");
        assert_eq!(
            (&found["log"], &found["log_error"]),
            (&Value::Null, &json!(reason))
        );
        assert_eq!(found["processes"].as_array().map(Vec::len), Some(3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sees_it() {
    let mut tier = Tier::new().await;
    let with = tier.state.clone().with_processes(Arc::new(Three));
    tier.router = query::router(with);
    for (secret, expected) in [
        (String::new(), StatusCode::UNAUTHORIZED),
        (
            tier.key("ours", &[Scope::Read]).await,
            StatusCode::FORBIDDEN,
        ),
        (tier.token(Role::Viewer, None).await, StatusCode::FORBIDDEN),
        (tier.token(Role::Starter, None).await, StatusCode::FORBIDDEN),
        (
            tier.token(Role::Operator, Some(&["ours"])).await,
            StatusCode::FORBIDDEN,
        ),
        (
            tier.token(Role::Admin, Some(&["ours"])).await,
            StatusCode::FORBIDDEN,
        ),
        (tier.token(Role::Admin, None).await, StatusCode::OK),
    ] {
        assert_eq!(tier.get(&secret, PATH).await.0, expected);
    }
    let operator = tier.token(Role::Operator, None).await;
    let (status, _) = tier
        .ask(Method::GET, &operator, "/api/internal/pipeline?x=1", None)
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
