//! `GET /api/analytics/unpriced`.

use axum::http::StatusCode;
use schemas::credential::{Role, Scope};
use schemas::fold::CostStatus;
use serde_json::json;
use store::tables::rows::RunRow;

use crate::tier::{NOON_MS, Tier, run};

fn call<'a>(project: &'a str, run_id: &'a str, model: &'a str, version: u64) -> RunRow<'a> {
    RunRow {
        r#type: "llm",
        calls: 1,
        model,
        version,
        cost: 0,
        cost_status: CostStatus::UnpricedModel,
        prompt_tokens: Some(7),
        completion_tokens: Some(3),
        total_tokens: Some(10),
        ..run(project, "app", run_id, "")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_without_a_price_are_counted_once_per_run_p3() {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&schemas::ids::ProjectId::new("theirs"), "app", &[])
        .await
        .unwrap();
    let key = tier.key("ours", &[Scope::Read]).await;
    let unknown = RunRow {
        prompt_tokens: None,
        completion_tokens: None,
        total_tokens: Some(5),
        started_at: NOON_MS + 60_000,
        ..call("ours", "total", "new", 1)
    };
    let priced = RunRow {
        cost_status: CostStatus::Priced,
        ..call("ours", "later-priced", "old", 2)
    };
    let gone = RunRow {
        is_deleted: 1,
        ..call("ours", "deleted", "new", 2)
    };
    let elsewhere = RunRow {
        app_id: "other",
        started_at: NOON_MS - 86_400_000,
        total_tokens: Some(1000),
        ..call("ours", "elsewhere", "big", 1)
    };
    // One insert each: what is not merged must not be counted twice either.
    for row in [
        call("ours", "a", "new", 1),
        call("ours", "a", "new", 2),
        unknown,
        call("ours", "later-priced", "old", 1),
        priced,
        call("ours", "deleted", "new", 1),
        gone,
        elsewhere,
        call("theirs", "x", "secret", 1),
        run("ours", "app", "agent", ""),
    ] {
        tier.store.insert_runs([row].into_iter()).await.unwrap();
    }
    let (status, all) = tier.get(&key, "/api/analytics/unpriced").await;
    assert_eq!(status, StatusCode::OK, "{all}");
    let big = json!({"model": "big", "calls": 1, "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 1000,
        "first_seen": "2026-11-19T10:00:00.000Z", "last_seen": "2026-11-19T10:00:00.000Z"});
    let new = json!({"model": "new", "calls": 2, "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 15,
        "first_seen": "2026-11-20T10:00:00.000Z", "last_seen": "2026-11-20T10:01:00.000Z"});
    assert_eq!(all, json!({"data": [big, new], "truncated": false}));
    for (query, expected) in [
        ("app_id=app", vec![&new]),
        ("app_id=other&from=2026-11-19&to=2026-11-19", vec![&big]),
        ("from=2026-11-20", vec![&new]),
        ("to=2026-11-18", vec![]),
    ] {
        let (_, page) = tier
            .get(&key, &format!("/api/analytics/unpriced?{query}"))
            .await;
        assert_eq!(page["data"], json!(expected), "{query}");
    }
    let viewer = tier.token(Role::Viewer, None).await;
    let (_, everywhere) = tier.get(&viewer, "/api/analytics/unpriced").await;
    assert_eq!(everywhere["data"].as_array().unwrap().len(), 3);
    for (secret, query, status) in [
        (key.as_str(), "project_id=theirs", 403),
        (&key, "model=new", 400),
        (&key, "from=2026-11-21&to=2026-11-20", 400),
        ("", "", 401),
    ] {
        let path = format!("/api/analytics/unpriced?{query}");
        assert_eq!(tier.get(secret, &path).await.0.as_u16(), status, "{query}");
    }
}
