//! The stream of runs as they change, over the real router and engine.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use schemas::credential::{Role, Scope};
use schemas::fold::RunStatus;
use schemas::ids::ProjectId;
use serde_json::Value;
use store::tables::rows::RunRow;
use tower::ServiceExt;

use crate::tier::{Tier, run};

/// Far above what any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open stream.
struct Follower {
    body: BodyDataStream,
    text: String,
}

/// One event as a client reads it.
#[derive(Debug)]
struct Received {
    name: String,
    id: String,
    data: Value,
}

impl Follower {
    async fn open(
        tier: &Tier,
        secret: &str,
        query: &str,
        last: Option<&str>,
    ) -> Result<Self, StatusCode> {
        let mut request = Request::builder()
            .uri(format!("/api/run/live{query}"))
            .header("authorization", format!("Bearer {secret}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = tier.router.clone().oneshot(request).await.unwrap();
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        })
    }

    /// The next event; `None` when the stream ended.
    async fn next(&mut self) -> Option<Received> {
        let read = async {
            loop {
                while let Some((event, rest)) = self.text.split_once("\n\n") {
                    let (event, rest) = (event.to_owned(), rest.to_owned());
                    self.text = rest;
                    let field = |name: &str| {
                        let lines = event.lines().filter_map(|line| line.strip_prefix(name));
                        lines.map(str::trim).collect::<String>()
                    };
                    if !field("event:").is_empty() {
                        return Some(Received {
                            name: field("event:"),
                            id: field("id:"),
                            data: serde_json::from_str(&field("data:")).unwrap(),
                        });
                    }
                }
                let bytes = self.body.next().await?.unwrap();
                self.text.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, read).await.unwrap()
    }

    async fn run_id(&mut self) -> String {
        let event = self.next().await.unwrap();
        assert_eq!(event.name, "run");
        event.data["run_id"].as_str().unwrap().to_owned()
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

fn written<'a>(run_id: &'a str, version: u64, status: RunStatus) -> RunRow<'a> {
    RunRow {
        version,
        status,
        updated_at: now_ms(),
        ..run("ours", "app", run_id, "")
    }
}

async fn write(tier: &Tier, rows: &[RunRow<'_>]) {
    tier.store.insert_runs(rows.iter()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_comes_each_time_it_changes_as_the_list_shows_it() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    write(&tier, &[written("before", 1, RunStatus::Started)]).await;
    let mut follower = Follower::open(&tier, &key, "", None).await.unwrap();
    write(&tier, &[written("r", 1, RunStatus::Started)]).await;
    let event = follower.next().await.unwrap();
    assert_eq!(
        (&*event.name, event.data["status"].as_str()),
        ("run", Some("started"))
    );
    let (_, list) = tier.get(&key, "/api/run").await;
    let listed = list["data"].as_array().unwrap();
    assert!(listed.contains(&event.data), "{} in {list}", event.data);
    write(&tier, &[written("r", 2, RunStatus::Success)]).await;
    let later = follower.next().await.unwrap();
    assert_eq!(later.data["status"], "success");
    assert!(later.id.parse::<i64>().unwrap() >= event.id.parse::<i64>().unwrap());
    // What became visible later than what was written after it is there too.
    let late = RunRow {
        updated_at: now_ms() - 5000,
        ..written("late", 1, RunStatus::Success)
    };
    write(&tier, &[late]).await;
    assert_eq!(follower.run_id().await, "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_fulfils_the_filter_and_is_within_reach_comes_t1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    let mut follower = Follower::open(&tier, &key, "?status=error&app_id=app", None)
        .await
        .unwrap();
    let theirs = RunRow {
        project_id: "theirs",
        ..written("theirs", 1, RunStatus::Error)
    };
    let gone = RunRow {
        is_deleted: 1,
        ..written("gone", 1, RunStatus::Error)
    };
    let good = written("good", 1, RunStatus::Success);
    write(
        &tier,
        &[theirs, gone, good, written("bad", 1, RunStatus::Error)],
    )
    .await;
    assert_eq!(follower.run_id().await, "bad");
    for (secret, query, expected) in [
        ("", "", 401),
        (reporter.as_str(), "", 403),
        (&key, "?project_id=theirs", 403),
        (&key, "?limit=5", 400),
        (&key, "?status=done", 400),
    ] {
        let refused = Follower::open(&tier, secret, query, None).await.err();
        assert_eq!(
            refused.map(|status| status.as_u16()),
            Some(expected),
            "{query}"
        );
    }
    let refused = Follower::open(&tier, &key, "", Some("yesterday"))
        .await
        .err();
    assert_eq!(refused, Some(StatusCode::BAD_REQUEST));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_taken_up_again_misses_nothing_but_what_a_gap_names() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let mut follower = Follower::open(&tier, &key, "", None).await.unwrap();
    write(&tier, &[written("first", 1, RunStatus::Success)]).await;
    let last = follower.next().await.unwrap().id;
    drop(follower);
    let names: Vec<String> = (0..1200).map(|n| format!("run-{n:04}")).collect();
    let rows: Vec<RunRow<'_>> = names
        .iter()
        .map(|name| written(name, 1, RunStatus::Success))
        .collect();
    write(&tier, &rows).await;
    let mut follower = Follower::open(&tier, &key, "", Some(&last)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 1201 {
        seen.push(follower.run_id().await);
    }
    seen.sort();
    assert_eq!((seen[0].as_str(), &seen[1..]), ("first", &names[..]));
    // From too long ago it begins later and says so.
    let mut follower = Follower::open(&tier, &key, "", Some("5")).await.unwrap();
    let gap = follower.next().await.unwrap();
    assert_eq!(
        (&*gap.name, &gap.data["from"]),
        ("gap", &Value::from("1970-01-01T00:00:00.005Z"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_counted_and_end_with_their_credential_and_the_server_x1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let mut open = Vec::new();
    let (full, over) = (
        Some(StatusCode::SERVICE_UNAVAILABLE),
        Some(StatusCode::TOO_MANY_REQUESTS),
    );
    // Two keys take the half of their project and two tokens the rest, none of them more than its part.
    for secret in [
        key.clone(),
        tier.key("ours", &[Scope::Read]).await,
        tier.token(Role::Viewer, None).await,
        tier.token(Role::Viewer, None).await,
    ] {
        for _ in 0..8 {
            open.push(Follower::open(&tier, &secret, "", None).await.unwrap());
        }
        let refused = Follower::open(&tier, &secret, "", None).await.err();
        assert_eq!(refused, over);
    }
    let third = tier.key("ours", &[Scope::Read]).await;
    assert_eq!(Follower::open(&tier, &third, "", None).await.err(), over);
    let fifth = tier.token(Role::Viewer, None).await;
    assert_eq!(Follower::open(&tier, &fifth, "", None).await.err(), full);
    open.truncate(2);
    let other = tier.key("ours", &[Scope::Read]).await;
    let mut revoked = Follower::open(&tier, &other, "", None).await.unwrap();
    let keys = tier
        .credentials
        .keys(Some(&ProjectId::new("ours")))
        .await
        .unwrap();
    let id = keys.last().unwrap().id.clone();
    tier.credentials.revoke_key(&id).await.unwrap();
    assert!(
        revoked.next().await.is_none(),
        "the stream of a revoked key goes on"
    );
    write(&tier, &[written("r", 1, RunStatus::Success)]).await;
    for follower in &mut open {
        assert_eq!(follower.run_id().await, "r");
    }
    tier.state.end_streams();
    for follower in &mut open {
        assert!(follower.next().await.is_none(), "a stream holds up the end");
    }
}
