//! Feedback, save and unsave: from a request to the event in the log.

use axum::http::{Method, StatusCode};
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use serde_json::{Value, json};
use store::tables::rows::MessageRow;

use crate::tier::{NOON_MS, Tier, run};

async fn post(tier: &Tier, secret: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
    tier.ask(Method::POST, secret, path, body).await
}

fn message<'a>(project_id: &'a str, run_id: &'a str) -> MessageRow<'a> {
    MessageRow {
        project_id,
        app_id: "chat",
        timestamp: NOON_MS,
        event_id: 7,
        run_id,
        parent_run_id: "",
        thread_id: "t",
        agent: "",
        user_email: "",
        role: "assistant",
        content: "because",
        inherits_thread: 1,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_events_are_reported_in_the_project_of_the_run_t1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Report]).await;
    let viewer = tier.token(Role::Viewer, Some(&["ours"])).await;
    tier.store
        .insert_runs(
            [
                run("ours", "app", "r", ""),
                run("theirs", "app", "their", ""),
            ]
            .into_iter(),
        )
        .await
        .unwrap();
    tier.store
        .insert_messages([message("ours", "m"), message("theirs", "their-m")].into_iter())
        .await
        .unwrap();

    let at = "2026-11-20T12:00:00.000Z";
    let body = json!({"rating": "negative", "comment": "no", "event_id": "f-1", "timestamp": at});
    let (status, answer) = post(&tier, &key, "/api/run/r/feedback", Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(
        answer,
        json!({"event": "feedback", "event_id": "f-1", "run_id": "r", "app_id": "app", "timestamp": at})
    );
    let positive = json!({"rating": "positive"});
    let (status, answer) = post(
        &tier,
        &viewer,
        "/api/run/m/feedback",
        Some(positive.clone()),
    )
    .await;
    assert_eq!(
        (status, &answer["app_id"]),
        (StatusCode::ACCEPTED, &json!("chat")),
        "{answer}"
    );
    assert_eq!(
        post(&tier, &key, "/api/run/r/save", None).await.0,
        StatusCode::ACCEPTED
    );
    assert_eq!(
        post(&tier, &viewer, "/api/run/r/unsave", Some(json!({})))
            .await
            .0,
        StatusCode::ACCEPTED
    );

    let reports = std::mem::take(&mut *tier.reports.0.lock().unwrap());
    let events: Vec<&Value> = reports.iter().map(|(_, _, event)| event).collect();
    assert_eq!(
        events[0],
        &json!({"name": "feedback", "run_id": "r", "timestamp": at, "event_id": "f-1", "rating": "negative", "comment": "no"})
    );
    let names: Vec<&Value> = events.iter().map(|event| &event["name"]).collect();
    assert_eq!(names, ["feedback", "feedback", "saved", "unsaved"]);
    assert!(reports.iter().all(|(project, ..)| project == "ours"));
    let apps: Vec<&str> = reports.iter().map(|(_, app, _)| app.as_str()).collect();
    assert_eq!(apps, ["app", "chat", "app", "app"]);
    assert_ne!(events[2]["event_id"], events[3]["event_id"]);

    let reader = tier.key("ours", &[Scope::Read]).await;
    let starter = tier.token(Role::Starter, None).await;
    for (secret, path, body, expected) in [
        ("", "/api/run/r/feedback", Some(&positive), 401),
        (reader.as_str(), "/api/run/r/feedback", Some(&positive), 403),
        (&starter, "/api/run/r/save", None, 403),
        (&key, "/api/run/r/save?project_id=theirs", None, 403),
        (&key, "/api/run/their/feedback", Some(&positive), 404),
        (&key, "/api/run/their-m/feedback", Some(&positive), 404),
        (&key, "/api/run/their/save", None, 404),
        (&key, "/api/run/m/save", None, 404),
        (&key, "/api/run/r/save?app_id=other", None, 404),
        (&key, "/api/run/unknown/unsave", None, 404),
    ] {
        let (status, answer) = post(&tier, secret, path, body.cloned()).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
    }
    assert!(tier.reports.0.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_feedback_is_a_400_that_names_the_allowed_values() {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&ProjectId::new("ours"), "app", &[])
        .await
        .unwrap();
    let key = tier.key("ours", &[Scope::Report]).await;
    tier.store
        .insert_runs([run("ours", "app", "r", "")].into_iter())
        .await
        .unwrap();
    for (path, body, named) in [
        (
            "feedback",
            json!({"rating": "great"}),
            "`positive` or `negative`",
        ),
        ("feedback", json!({"rating": 5}), "rating"),
        ("feedback", json!({"comment": "no"}), "rating"),
        (
            "feedback",
            json!({"rating": "positive", "stars": 5}),
            "stars",
        ),
        (
            "feedback",
            json!({"rating": "positive", "event_id": "a"}),
            "timestamp",
        ),
        (
            "feedback",
            json!({"rating": "positive", "timestamp": "soon"}),
            "timestamp",
        ),
        ("feedback", json!(["positive"]), "object"),
        (
            "feedback?colour=red",
            json!({"rating": "positive"}),
            "colour",
        ),
        (
            "save",
            json!({"event_id": "", "timestamp": "2026-11-20T10:00:00Z"}),
            "event_id",
        ),
        ("unsave", json!({"saved": false}), "saved"),
    ] {
        let (status, answer) = post(&tier, &key, &format!("/api/run/r/{path}"), Some(body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{path}: {answer}"
        );
    }
    let (status, answer) = post(&tier, &key, "/api/run/r/feedback", None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    assert!(tier.reports.0.lock().unwrap().is_empty());
}
