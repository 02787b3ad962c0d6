//! `GET /api/run/{run_id}` and its tree.

use axum::http::StatusCode;
use schemas::credential::Scope;
use serde_json::json;
use store::tables::rows::EventRow;

use crate::tier::{NOON_MS, Tier, run};

#[tokio::test(flavor = "multi_thread")]
async fn one_run_comes_whole_with_its_events_and_its_tree() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let rows = [
        run("ours", "app", "r", ""),
        run("ours", "app", "child", "r"),
        run("ours", "other", "r", ""),
    ];
    tier.store.insert_runs(rows.into_iter()).await.unwrap();
    let start = br#"{"name":"agent_start","run_id":"r","timestamp":"2026-11-20T10:00:00Z","input":{"q":1},"odd":[1],"metadata":{"k":"v"}}"#;
    let end = br#"{"name":"agent_end","run_id":"r","timestamp":"2026-11-20T10:00:01.234Z","output":"done"}"#;
    let event = |payload: &'static [u8], event_id, timestamp| EventRow {
        project_id: "ours",
        app_id: "app",
        timestamp,
        run_id: "r",
        event_id,
        name: "agent",
        payload,
        received_at: timestamp,
        stored_at: timestamp,
    };
    tier.store
        .insert_events([event(end, 2, NOON_MS + 1234), event(start, 1, NOON_MS)].into_iter())
        .await
        .unwrap();
    let (status, whole) = tier.get(&key, "/api/run/r?app_id=app").await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    assert_eq!(
        (&whole["input"], &whole["output"]),
        (&json!({"q": 1}), &json!("done"))
    );
    assert_eq!(
        (&whole["metadata"], &whole["fields"]["odd"]),
        (&json!({"k": "v"}), &json!([1]))
    );
    assert_eq!(
        (&whole["cached_tokens"], &whole["cost_estimated"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(whole["events"].as_array().unwrap().len(), 2);
    assert_eq!(whole["events"][0]["payload"]["input"], json!({"q": 1}));
    let (_, either) = tier.get(&key, "/api/run/r").await;
    assert_eq!(
        either["also_in_apps"].as_array().unwrap().len(),
        1,
        "{either}"
    );
    let (_, tree) = tier.get(&key, "/api/run/r/tree?app_id=app").await;
    let ids: Vec<&str> = tree["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["run_id"].as_str())
        .collect();
    assert_eq!(
        (ids, &tree["truncated"]),
        (vec!["r", "child"], &json!(false))
    );
}
