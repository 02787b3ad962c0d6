//! `GET /api/run`.

use axum::http::StatusCode;
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use serde_json::{Value, json};

use crate::tier::{Tier, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_list_has_the_fields_of_the_api_exactly() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    tier.store
        .insert_runs([run("ours", "app", "r", "")].into_iter())
        .await
        .unwrap();
    let (status, page) = tier.get(&key, "/api/run?count=true").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let expected = json!({
        "data": [{
            "run_id": "r", "app_id": "app", "parent_run_id": null, "root_run_id": "r", "name": "agent", "type": "agent",
            "status": "success", "stale": false, "agent": "scout", "model": null, "user_email": null, "tags": ["a"],
            "thread_id": null, "started_at": "2026-11-20T10:00:00.000Z", "ended_at": "2026-11-20T10:00:01.234Z",
            "latency_s": 1.234, "prompt_tokens": 7, "completion_tokens": null, "total_tokens": null, "ttft_ms": null, "tokens_per_second": null, "cost": 1e-18,
            "cost_status": "priced", "counted_run_id": null, "total_cost": 1.5, "total_tokens_with_children": 7, "llm_calls": 1, "error_count": 0,
            "error": null, "saved": false, "feedback": {"rating": "positive", "comment": null, "at": null},
            "input_preview": "in", "output_preview": null
        }],
        "next_cursor": null, "has_more": false, "count": 1, "count_capped": false
    });
    assert_eq!(page, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_learns_nothing_t1() {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&ProjectId::new("theirs"), "app", &[])
        .await
        .unwrap();
    let rows = [
        run("ours", "app", "r", ""),
        run("theirs", "app", "r", ""),
        run("theirs", "app", "only", ""),
    ];
    tier.store.insert_runs(rows.into_iter()).await.unwrap();
    let ours = tier.key("ours", &[Scope::Read]).await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    for (secret, path, expected) in [
        ("", "/api/run", 401),
        ("sp_key_nobody", "/api/run", 401),
        (reporter.as_str(), "/api/run", 403),
        (&ours, "/api/run?project_id=theirs", 403),
        (&ours, "/api/run/only", 404),
        (&ours, "/api/run/only/tree", 404),
        (&ours, "/api/internal/keys", 403),
    ] {
        let (status, body) = tier.get(secret, path).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
        assert_eq!(body["status"], json!(expected));
    }
    let (_, page) = tier.get(&ours, "/api/run").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    // A caller who reaches several projects gets the project of each run.
    let viewer = tier.token(Role::Viewer, None).await;
    let (_, page) = tier.get(&viewer, "/api/run?sort=started_at").await;
    let projects: Vec<&Value> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["project_id"])
        .collect();
    assert_eq!(
        projects,
        [&json!("ours"), &json!("theirs"), &json!("theirs")]
    );
    let limited = tier.token(Role::Viewer, Some(&["theirs"])).await;
    let (_, page) = tier.get(&limited, "/api/run").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_a_400_that_says_what_is_allowed() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    for (path, named) in [
        ("/api/run?colour=red", "colour"),
        ("/api/run?status=done", "status"),
        ("/api/run?min_cost=2&max_cost=1", "max_cost"),
        ("/api/run?min_tokens=2&max_tokens=1", "max_tokens"),
        ("/api/run?min_tokens=1.5", "min_tokens"),
        ("/api/run?has_parent=maybe", "has_parent"),
        ("/api/run?cursor=abc", "cursor"),
        ("/api/run?model=%FF", "UTF-8"),
        ("/api/run/r?limit=5", "limit"),
        ("/api/run/%FF", "UTF-8"),
    ] {
        let (status, body) = tier.get(&key, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains(named),
            "{path}: {body}"
        );
    }
}
