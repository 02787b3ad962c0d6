//! Reports of one tenant that held up the runs of all others.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, event};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Far above what two busy cores need, far below the 204 s that it took.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

fn on_day(days_ago: i64) -> Value {
    let at_ms = chrono::Utc::now().timestamp_millis() - days_ago * DAY_MS;
    json!({
        "name": "agent_start", "app_id": "history", "run_id": format!("r{days_ago}"), "timestamp": at_ms,
    })
}

async fn reported(server: &Server, events: &[Value]) -> Value {
    let answer = server.report(events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_thousands_of_days_does_not_hide_the_runs_of_others_x1() {
    let setup = Setup::new()
        .with("ingest.max_event_age", "1100d")
        // No second worker helps out.
        .with("log.partitions", "1");
    let server = setup.start_ready().await;
    let history: Vec<Value> = (0..3000).map(on_day).collect();
    let report = reported(&server, &history).await;
    assert_eq!(
        (&report["accepted"], &report["rejected"]),
        (&json!(31), &json!(2969))
    );
    assert_eq!(report["errors"][0]["index"], 31);
    assert_eq!(report["errors"][0]["code"], "too_many_days");
    let report = reported(&server, &history[2999..]).await;
    assert_eq!(report["errors"][0]["code"], "timestamp_too_old");
    assert!(
        report["errors"][0]["message"]
            .as_str()
            .is_some_and(|message| message.contains("ingest.max_event_age")),
        "{report}"
    );

    // Month by month, as fast as it is let.
    let mut accepted = 31;
    let mut months = history[31..].chunks(31);
    loop {
        let month = months.next().unwrap();
        let answer = server.report(month).await.unwrap();
        if answer.status() == StatusCode::OK {
            accepted += month.len();
            continue;
        }
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(answer.headers().contains_key("retry-after"));
        let fault: Value = answer.json().await.unwrap();
        assert_eq!(fault["error"], "rate_limited");
        break;
    }
    // The newest days cost nothing, and others are seen while the history is stored.
    let report = reported(
        &server,
        &[event("other", "new", "agent_start", 0), on_day(1)],
    )
    .await;
    assert_eq!(report["accepted"], 2);
    let runs_of = async |app: &str| server.all_runs(app).await.map_or(0, |runs| runs.len());
    server
        .until("the other app's run is seen", SEEN_WITHIN, async || {
            (runs_of("other").await == 1).then_some(())
        })
        .await;
    server
        .until("all of the history is seen", SEEN_WITHIN, async || {
            (runs_of("history").await == accepted).then_some(())
        })
        .await;
}
