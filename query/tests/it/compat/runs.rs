//! What lunary clients ask beside reporting: scores, feedback, templates, and llmonitor's greeting.

use axum::http::{Method, StatusCode};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};
use store::tables::rows::FeedbackRow;

use crate::tier::{NOON_MS, Tier, run};

async fn score(tier: &Tier, secret: &str, path: &str, body: Value) -> (StatusCode, Value) {
    tier.ask(Method::PATCH, secret, path, Some(body)).await
}

fn judged<'a>(
    run_id: &'a str,
    ms: i64,
    (rating, comment): (&'static str, &'static str),
) -> FeedbackRow<'a> {
    FeedbackRow {
        project_id: "ours",
        app_id: "app",
        run_id,
        timestamp: NOON_MS + ms,
        event_id: ms as u128,
        rating,
        comment,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_is_feedback_on_the_run_under_whichever_id_it_was_reported_t1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Report]).await;
    let body = json!({"label": "tone", "value": 1, "comment": "kind", "source": "unknown to us"});
    // Nothing is known yet: both ids a client may report it under, in the app of the key.
    let (status, answer) = score(&tier, &key, "/v1/runs/plain/score", body.clone()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let hash = answer["run_ids"][1].as_str().unwrap().to_owned();
    let expected =
        json!({"rating": "positive", "comment": "tone = 1: kind", "run_ids": ["plain", hash]});
    assert_eq!(answer, expected);
    let runs = [
        run("ours", "app", &hash, ""),
        run("theirs", "app", "plain", ""),
    ];
    tier.store.insert_runs(runs.into_iter()).await.unwrap();
    // Reported by the Python client, then one by another client.
    let (_, answer) = score(&tier, &key, "/v1/runs/plain/score", body.clone()).await;
    assert_eq!(answer["run_ids"], json!([hash]));
    let runs = [run("ours", "other", "exact", "")];
    tier.store.insert_runs(runs.into_iter()).await.unwrap();
    let viewer = tier.token(Role::Viewer, Some(&["ours"])).await;
    let unclear = json!({"label": "length", "value": 0.7});
    let (_, answer) = score(&tier, &viewer, "/v1/runs/exact/score", unclear).await;
    let expected = json!({"rating": null, "comment": "length = 0.7", "run_ids": ["exact"]});
    assert_eq!(answer, expected);

    let reports = std::mem::take(&mut *tier.reports.0.lock().unwrap());
    assert!(reports.iter().all(|(project, ..)| project == "ours"));
    let told: Vec<(&str, &Value)> = reports
        .iter()
        .map(|(_, app, event)| (app.as_str(), &event["runId"]))
        .collect();
    let default_app = reports[0].1.as_str();
    let (plain, hash, exact) = (json!("plain"), json!(hash), json!("exact"));
    assert_eq!(
        told,
        [
            (default_app, &plain),
            (default_app, &hash),
            ("app", &hash),
            ("other", &exact)
        ]
    );
    let mut ids: Vec<&Value> = reports.iter().map(|report| &report.2["event_id"]).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each is one of its own");
    // Label and value stay as they were given, whatever became of them.
    let kept = &reports[3].2["feedback"];
    assert_eq!(
        (&kept["label"], &kept["value"]),
        (&json!("length"), &json!(0.7))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_that_cannot_be_meant_is_refused_and_told() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Report]).await;
    let reader = tier.key("ours", &[Scope::Read]).await;
    let viewer = tier.token(Role::Viewer, None).await;
    let good = json!({"label": "tone", "value": true});
    for (secret, path, body, expected) in [
        ("", "/v1/runs/r/score", good.clone(), 401),
        (reader.as_str(), "/v1/runs/r/score", good.clone(), 403),
        (
            &key,
            "/v1/runs/r/score?project_id=theirs",
            good.clone(),
            403,
        ),
        // A token does not say in which project a run would come.
        (&viewer, "/v1/runs/r/score", good.clone(), 404),
        (&key, "/v1/runs/r/score?x=1", good, 400),
        (
            &key,
            "/v1/runs/r/score",
            json!({"label": "", "value": 1}),
            400,
        ),
        (&key, "/v1/runs/r/score", json!({"label": "tone"}), 400),
        (
            &key,
            "/v1/runs/r/score",
            json!({"label": "tone", "value": [1]}),
            400,
        ),
    ] {
        let (status, answer) = score(&tier, secret, path, body).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
        assert!(answer["message"].is_string(), "{answer}");
    }
    assert!(tier.reports.0.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_feedback_comes_in_lunarys_words() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let runs = ["rated", "silent"].map(|id| run("ours", "app", id, ""));
    tier.store.insert_runs(runs.into_iter()).await.unwrap();
    let rows = [
        judged("rated", 1, ("positive", "good")),
        judged("rated", 2, ("negative", "")),
        judged("rated", 3, ("", "tone = 3")),
    ];
    tier.store.insert_feedback(rows.into_iter()).await.unwrap();
    let (status, answer) = tier.get(&key, "/v1/runs/rated/feedback").await;
    let expected = json!({"thumb": "down", "thumbs": "down", "comment": "tone = 3"});
    assert_eq!((status, answer), (StatusCode::OK, expected));
    let (status, answer) = tier.get(&key, "/v1/runs/silent/feedback").await;
    assert_eq!((status, answer), (StatusCode::OK, json!({})));
    let (status, answer) = tier.get(&key, "/v1/runs/unknown/feedback").await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let theirs = [run("theirs", "app", "their", "")];
    tier.store.insert_runs(theirs.into_iter()).await.unwrap();
    let (status, _) = tier.get(&key, "/v1/runs/their/feedback").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
