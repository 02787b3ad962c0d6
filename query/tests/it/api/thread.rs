//! Threads and feedback from a request to its answer.

use axum::http::StatusCode;
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use serde_json::{Value, json};
use store::tables::rows::{FeedbackRow, MessageRow, RunRow};

use crate::tier::{NOON_MS, Tier, run};

fn message(project_id: &'static str, event_id: u128, run_id: &'static str) -> MessageRow<'static> {
    MessageRow {
        project_id,
        app_id: "app",
        timestamp: NOON_MS + event_id as i64,
        event_id,
        run_id,
        parent_run_id: "",
        thread_id: "talk/1",
        agent: "clerk",
        user_email: "ada@example.com",
        role: if event_id % 2 == 1 {
            "user"
        } else {
            "assistant"
        },
        content: "Where is my order?",
        inherits_thread: 1,
    }
}

fn judged(run_id: &'static str, event_id: u128, rating: &'static str) -> FeedbackRow<'static> {
    FeedbackRow {
        project_id: "ours",
        app_id: "app",
        run_id,
        timestamp: NOON_MS + event_id as i64,
        event_id,
        rating,
        comment: "so",
    }
}

async fn insert(tier: &Tier, messages: &[MessageRow<'static>]) {
    let rows = messages.iter().cloned();
    tier.store.insert_messages(rows).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_in_the_list_has_the_fields_of_the_api_exactly() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    insert(&tier, &[message("ours", 1, "r"), message("ours", 2, "r")]).await;
    let row = run("ours", "app", "r", "");
    tier.store.insert_runs([row].into_iter()).await.unwrap();
    let (status, page) = tier.get(&key, "/api/thread").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let expected = json!({
        "data": [{
            "thread_id": "talk/1", "app_id": "app", "agent": "clerk", "user_email": "ada@example.com",
            "started_at": "2026-11-20T10:00:00.001Z", "ended_at": "2026-11-20T10:00:00.002Z", "message_count": 2,
            "total_tokens": 7, "total_cost": 1.5, "totals_truncated": false, "preview": "Where is my order?",
            "grouped_by": "thread_id"
        }],
        "next_cursor": null, "has_more": false
    });
    assert_eq!(page, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_shows_its_messages_with_the_rating_on_the_answer() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let answer_alone = MessageRow {
        role: "user",
        ..message("ours", 3, "alone")
    };
    insert(
        &tier,
        &[
            message("ours", 1, "r"),
            message("ours", 2, "r"),
            answer_alone,
        ],
    )
    .await;
    // Feedback may come before what it judges, and the newest by its own time counts, whenever it came.
    let feedback = [
        judged("r", 9, "negative"),
        judged("r", 5, "positive"),
        judged("alone", 6, "positive"),
        judged("alone", 7, ""),
    ];
    tier.store
        .insert_feedback(feedback.into_iter())
        .await
        .unwrap();
    let row = run("ours", "app", "r", "");
    tier.store.insert_runs([row].into_iter()).await.unwrap();
    let (status, thread) = tier.get(&key, "/api/thread/talk%2F1?app_id=app").await;
    assert_eq!(status, StatusCode::OK, "{thread}");
    assert_eq!(
        thread["messages"][1],
        json!({
            "event_id": "00000000000000000000000000000002", "role": "assistant", "content": "Where is my order?",
            "timestamp": "2026-11-20T10:00:00.002Z", "run_id": "r", "run": "/api/run/r?app_id=app",
            "feedback": {"rating": "negative", "comment": "so", "at": "2026-11-20T10:00:00.009Z"}
        })
    );
    let of = |at: usize, field: &str| thread["messages"][at][field].clone();
    assert_eq!(of(0, "feedback"), Value::Null, "the answer has it");
    assert_eq!(of(2, "feedback")["rating"], json!("positive"));
    assert_eq!(
        (of(0, "run"), of(2, "run")),
        (json!("/api/run/r?app_id=app"), Value::Null)
    );
    assert_eq!(
        (&thread["truncated"], &thread["message_count"]),
        (&json!(false), &json!(3))
    );
    let path = of(1, "run");
    let (status, _) = tier.get(&key, path.as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    for (asked, found) in [("negative", 1), ("positive", 1), ("any", 1), ("none", 0)] {
        let (_, page) = tier
            .get(&key, &format!("/api/thread?feedback={asked}"))
            .await;
        assert_eq!(page["data"].as_array().unwrap().len(), found, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_feedback_is_whole_and_in_order() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let rows = [
        judged("r", 7, "negative"),
        judged("r", 7, "negative"),
        judged("r", 8, ""),
        judged("r", 5, "positive"),
        judged("other", 6, "positive"),
    ];
    tier.store.insert_feedback(rows.into_iter()).await.unwrap();
    let row = RunRow {
        feedback_rating: "negative",
        ..run("ours", "app", "r", "")
    };
    tier.store.insert_runs([row].into_iter()).await.unwrap();
    let (_, whole) = tier.get(&key, "/api/run/r").await;
    let history: Vec<(&Value, &Value)> = whole["feedback_history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|judged| (&judged["rating"], &judged["at"]))
        .collect();
    assert_eq!(
        history,
        [
            (&json!("positive"), &json!("2026-11-20T10:00:00.005Z")),
            (&json!("negative"), &json!("2026-11-20T10:00:00.007Z")),
            (&Value::Null, &json!("2026-11-20T10:00:00.008Z")),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_threads_go_on_where_the_last_one_ended() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let windows: Vec<MessageRow<'static>> = (1..8)
        .map(|n| MessageRow {
            thread_id: "",
            timestamp: NOON_MS + n * 3_600_000,
            ..message("ours", n as u128, "r")
        })
        .collect();
    insert(&tier, &windows).await;
    let (mut path, mut ids) = ("/api/thread?limit=3".to_owned(), Vec::new());
    loop {
        let (status, page) = tier.get(&key, &path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        ids.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|thread| thread["thread_id"].clone()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/thread?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(ids.len(), 7);
    for id in &ids {
        let path = format!("/api/thread/{}", id.as_str().unwrap());
        let (_, thread) = tier.get(&key, &path).await;
        assert_eq!(
            (
                &thread["thread_id"],
                &thread["grouped_by"],
                &thread["message_count"]
            ),
            (id, &json!("window"), &json!(1))
        );
    }
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), 7, "none came twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_a_thread_learns_nothing_t1() {
    let tier = Tier::new().await;
    let theirs = ProjectId::new("theirs");
    tier.credentials
        .put_project(&theirs, "app", &[])
        .await
        .unwrap();
    let window = MessageRow {
        thread_id: "",
        run_id: "w",
        ..message("theirs", 2, "w")
    };
    insert(&tier, &[message("theirs", 1, "r"), window]).await;
    let theirs = tier.key("theirs", &[Scope::Read]).await;
    let ours = tier.key("ours", &[Scope::Read]).await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    let (_, page) = tier.get(&theirs, "/api/thread").await;
    let window = page["data"][0]["thread_id"].as_str().unwrap().to_owned();
    assert!(window.starts_with("w_"), "{page}");
    let (_, page) = tier.get(&ours, "/api/thread").await;
    assert_eq!(page["data"], json!([]));
    let window = format!("/api/thread/{window}");
    for (secret, path, expected) in [
        ("", "/api/thread", 401),
        ("", "/api/thread/t", 401),
        (reporter.as_str(), "/api/thread", 403),
        (&ours, "/api/thread?project_id=theirs", 403),
        (&ours, "/api/thread/talk%2F1", 404),
        (&ours, &window, 404),
        (&theirs, &window, 200),
    ] {
        let (status, body) = tier.get(secret, path).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
    }
    // A caller who reaches several projects gets the project of each thread.
    let viewer = tier.token(Role::Viewer, None).await;
    let (_, thread) = tier.get(&viewer, "/api/thread/talk%2F1").await;
    assert_eq!(thread["project_id"], json!("theirs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_about_threads_are_a_400_that_says_what_is_allowed() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    for (path, named) in [
        ("/api/thread?colour=red", "colour"),
        ("/api/thread?model=m", "model"),
        ("/api/thread?feedback=good", "positive"),
        ("/api/thread?limit=0", "limit"),
        ("/api/thread?from=2026-11-21&to=2026-11-20", "from"),
        ("/api/thread?cursor=abc", "cursor"),
        ("/api/thread/t?limit=5", "limit"),
        ("/api/thread/t?grouped_by=agent", "window"),
        ("/api/thread/%FF", "UTF-8"),
    ] {
        let (status, body) = tier.get(&key, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains(named),
            "{path}: {body}"
        );
    }
    for path in [
        "/api/thread/t",
        "/api/thread/w_AAAA",
        "/api/thread/w_AAABoPcDjEAAAAAAAAAAAAAAAAAAAAlf",
    ] {
        let (status, _) = tier.get(&key, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_of_runs_has_the_fields_of_the_api_and_links_to_its_runs() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let turn = RunRow {
        thread_id: "talk/1",
        turn_at: NOON_MS + 1500,
        latency_ms: Some(1500),
        agent: "clerk",
        user_email: "ada@example.com",
        output_preview: "It is on its way.",
        ..run("ours", "app", "r", "")
    };
    let feedback = [judged("r", 9, "negative")];
    tier.store.insert_runs([turn].into_iter()).await.unwrap();
    tier.store
        .insert_feedback(feedback.into_iter())
        .await
        .unwrap();
    let (status, page) = tier.get(&key, "/api/thread?feedback=negative").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let expected = json!([{
        "thread_id": "talk/1", "app_id": "app", "agent": "clerk", "user_email": "ada@example.com",
        "started_at": "2026-11-20T10:00:00.000Z", "ended_at": "2026-11-20T10:00:01.500Z", "message_count": 2,
        "total_tokens": 7, "total_cost": 1.5, "totals_truncated": false, "preview": "It is on its way.",
        "grouped_by": "thread_id"
    }]);
    assert_eq!(page["data"], expected);
    let (_, none) = tier.get(&key, "/api/thread?feedback=positive").await;
    assert_eq!(none["data"], json!([]));
    let (status, thread) = tier.get(&key, "/api/thread/talk%2F1").await;
    assert_eq!(status, StatusCode::OK, "{thread}");
    let [question, answer] = [0, 1].map(|at| thread["messages"][at].clone());
    assert_eq!(
        (&question["role"], &question["feedback"]),
        (&json!("user"), &Value::Null)
    );
    assert_eq!(
        (
            &answer["role"],
            &answer["content"],
            &answer["feedback"]["rating"]
        ),
        (
            &json!("assistant"),
            &json!("It is on its way."),
            &json!("negative")
        )
    );
    for message in [&question, &answer] {
        assert_eq!(message["run"], json!("/api/run/r?app_id=app"));
    }
}
