//! The pipeline's counts of all processes, asked of one of them.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Setup, VISIBLE_WITHIN, event};

crate::harness::both_ways!(every_process_says_what_it_counted_and_the_sums_agree_p4);

async fn every_process_says_what_it_counted_and_the_sums_agree_p4(setup: Setup) {
    let server = setup.start_ready().await;
    let bad = json!({"name": "agent_start", "timestamp": "2026-11-20T10:00:00Z"});
    let events = [
        event("p", "a", "agent_start", 0),
        event("p", "a", "agent_end", 5),
        bad,
    ];
    let answer = server.report(&events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let seen = async || {
        let (status, found) = server.get_as(&server.token, "/api/internal/pipeline").await;
        assert_eq!(status, StatusCode::OK, "{found}");
        let processes = found["processes"].as_array().unwrap();
        let sum = |name: &str| -> u64 { processes.iter().filter_map(|it| it[name].as_u64()).sum() };
        let is_through = sum("accepted_events") == 2
            && sum("rejected_events") == 1
            && sum("stored_events") + sum("dead_lettered_events") == 2
            && found["log"]["lag_records"] == 0
            && processes.iter().all(|it| it["ready"] == true);
        is_through.then_some(found)
    };
    let found = server
        .until("all events are through", VISIBLE_WITHIN, seen)
        .await;
    let mut roles: Vec<&str> = Vec::new();
    for process in found["processes"].as_array().unwrap() {
        let role = process["role"].as_str().unwrap();
        let counts = |name: &str| process[name].is_u64();
        // Where people read they also judge, which is an event like any other.
        let takes = ["serve", "ingest", "query"].contains(&role);
        assert_eq!(
            (counts("accepted_events"), counts("rejected_events")),
            (takes, takes)
        );
        let processes = ["serve", "processor"].contains(&role);
        assert_eq!(
            (counts("stored_events"), counts("dead_lettered_events")),
            (processes, processes)
        );
        roles.push(role);
    }
    roles.sort_unstable();
    let (expected, kind): (&[&str], &str) = match setup.backing {
        None => (&["serve"], "embedded"),
        Some(_) => (&["ingest", "processor", "query"], "kafka"),
    };
    assert_eq!(roles, expected);
    assert_eq!(
        (&found["log"]["kind"], &found["log_error"]),
        (&json!(kind), &Value::Null)
    );
    assert_eq!(found["log"]["max_bytes"].is_u64(), kind == "embedded");
}
