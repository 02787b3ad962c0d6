//! Asking for jobs: what is refused, and why.

use axum::http::{Method, StatusCode};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};

use crate::tier::Tier;

async fn post(tier: &Tier, secret: &str, path: &str, body: Value) -> (u16, Value) {
    let (status, answer) = tier.ask(Method::POST, secret, path, Some(body)).await;
    (status.as_u16(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_accepted_followed_and_cancelled() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let asked = json!({"from": "2026-11-20T10:00:00+01:00", "project_id": "ours", "dry_run": true});
    let (status, job) = post(&tier, &admin, "/api/internal/cost/recalculate", asked).await;
    assert_eq!(status, 202, "{job}");
    let id = job["job_id"].as_str().unwrap();
    assert_eq!(
        (
            &job["state"],
            &job["kind"],
            &job["project_id"],
            &job["done"]
        ),
        (
            &json!("queued"),
            &json!("recalculate"),
            &json!("ours"),
            &json!(0)
        )
    );
    assert_eq!(job["parameters"]["from"], "2026-11-20T09:00:00.000Z");
    assert_eq!(
        (&job["cost_before"], &job["error"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(job["position"], 1);
    let (status, found) = tier.get(&admin, &format!("/api/internal/jobs/{id}")).await;
    assert_eq!((status, &found), (StatusCode::OK, &job));
    let (status, list) = tier.get(&admin, "/api/internal/jobs?limit=1").await;
    assert_eq!((status, &list["data"][0]), (StatusCode::OK, &job));
    let path = format!("/api/internal/jobs/{id}/cancel");
    let (status, cancelled) = tier.ask(Method::POST, &admin, &path, None).await;
    assert_eq!(
        (status, &cancelled["state"]),
        (StatusCode::OK, &json!("cancelled"))
    );
    assert_eq!(cancelled["position"], Value::Null);
    let (status, made) = tier
        .ask(Method::POST, &admin, "/api/internal/retention", None)
        .await;
    assert_eq!(
        status,
        StatusCode::ACCEPTED,
        "no body means no wishes: {made}"
    );
    assert_eq!(
        (&made["project_id"], &made["cost_before"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_queue_behind_each_other_and_the_same_job_is_one() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    const RECALCULATE: &str = "/api/internal/cost/recalculate";
    let asked = [
        ("/api/internal/retention", json!({})),
        (RECALCULATE, json!({})),
        (RECALCULATE, json!({"dry_run": true})),
        (RECALCULATE, json!({"project_id": "ours"})),
        ("/api/internal/rebuild", json!({})),
        ("/api/internal/rebuild", json!({"check_only": true})),
    ];
    let mut ids = Vec::new();
    for (at, (path, body)) in asked.iter().enumerate() {
        let (status, job) = post(&tier, &admin, path, body.clone()).await;
        assert_eq!((status, &job["state"]), (202, &json!("queued")), "{job}");
        assert_eq!(job["position"], at + 1, "{job}");
        ids.push(job["job_id"].as_str().unwrap().to_owned());
    }
    for (at, (path, body)) in asked.iter().enumerate() {
        let (status, job) = post(&tier, &admin, path, body.clone()).await;
        assert_eq!((status, &job["job_id"]), (202, &json!(ids[at])), "{job}");
        assert_eq!(job["position"], at + 1, "{job}");
    }
    let (_, list) = tier.get(&admin, "/api/internal/jobs").await;
    let places = |list: &Value| -> Vec<(String, Value)> {
        let place = |job: &Value| {
            (
                job["job_id"].as_str().unwrap().to_owned(),
                job["position"].clone(),
            )
        };
        let mut places: Vec<_> = list["data"].as_array().unwrap().iter().map(place).collect();
        places.sort_by_key(|(id, _)| ids.iter().position(|known| known == id));
        places
    };
    let expected = |positions: [Value; 6]| -> Vec<(String, Value)> {
        ids.iter().cloned().zip(positions).collect()
    };
    assert_eq!(places(&list), expected([1, 2, 3, 4, 5, 6].map(Value::from)));
    // One that is canceled makes room for those behind it.
    let path = format!("/api/internal/jobs/{}/cancel", ids[1]);
    assert_eq!(post(&tier, &admin, &path, json!({})).await.0, 200);
    let (_, list) = tier.get(&admin, "/api/internal/jobs").await;
    let null = || Value::Null;
    let positions = [1.into(), null(), 2.into(), 3.into(), 4.into(), 5.into()];
    assert_eq!(places(&list), expected(positions));
    let path = format!("/api/internal/jobs/{}", ids[5]);
    assert_eq!(tier.get(&admin, &path).await.1["position"], 5);
    // A canceled job is over: the same request is another one.
    let (_, job) = post(&tier, &admin, RECALCULATE, json!({})).await;
    assert!(job["position"] == 6 && job["job_id"] != ids[1], "{job}");
    let none = tier.get(&admin, "/api/internal/jobs/job_none").await;
    assert_eq!(none.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_a_429_for_the_project_that_filled_it_x1() {
    let tier = Tier::new().await;
    let ours = tier.token(Role::Admin, Some(&["ours"])).await;
    let all = tier.token(Role::Admin, None).await;
    const RECALCULATE: &str = "/api/internal/cost/recalculate";
    let from = |day: usize| json!({"from": format!("2026-11-{day:02}T00:00:00Z")});
    for day in 1..=20 {
        assert_eq!(post(&tier, &ours, RECALCULATE, from(day)).await.0, 202);
    }
    let (status, fault) = post(&tier, &ours, RECALCULATE, from(21)).await;
    assert_eq!((status, &fault["error"]), (429, &json!("too_many_jobs")));
    assert_eq!(post(&tier, &ours, RECALCULATE, from(20)).await.0, 202);
    let (status, job) = post(&tier, &all, RECALCULATE, json!({})).await;
    assert_eq!((status, &job["position"]), (202, &json!(21)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_with_its_reason() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    const RECALCULATE: &str = "/api/internal/cost/recalculate";
    for (path, body, expected, says) in [
        (
            RECALCULATE,
            json!({"from": "2026-11-21T00:00:00Z", "to": "2026-11-20T00:00:00Z"}),
            400,
            "`from` must not be later than `to`",
        ),
        (RECALCULATE, json!({"from": "yesterday"}), 400, "`from`"),
        (RECALCULATE, json!({"app_id": ""}), 400, "`app_id`"),
        (
            RECALCULATE,
            json!({"app_id": "nobodys"}),
            400,
            "no run has this app",
        ),
        (
            RECALCULATE,
            json!({"model": "gpt-none"}),
            400,
            "no price has this model",
        ),
        (
            RECALCULATE,
            json!({"project_id": "nobodys"}),
            404,
            "project `nobodys` not found",
        ),
        (RECALCULATE, json!({"modle": "gpt-4o"}), 400, "modle"),
        (RECALCULATE, json!([]), 400, "request body"),
        (
            "/api/internal/retention",
            json!({"dry_run": "yes"}),
            400,
            "request body",
        ),
        (
            "/api/internal/rebuild",
            json!({"project": "ours"}),
            400,
            "`check_only`",
        ),
        (
            "/api/internal/rebuild",
            json!({"project": "nobodys", "check_only": true}),
            404,
            "project `nobodys` not found",
        ),
        (
            "/api/internal/jobs/job_none/cancel",
            json!({}),
            404,
            "not found",
        ),
    ] {
        let (status, refusal) = post(&tier, &admin, path, body.clone()).await;
        assert_eq!(status, expected, "{path} {body}: {refusal}");
        assert!(
            refusal["message"].as_str().unwrap().contains(says),
            "{refusal}"
        );
    }
    let (status, _) = tier.get(&admin, "/api/internal/jobs?limit=0").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_for_administrators_of_what_they_reach_t1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Report, Scope::Read]).await;
    let operator = tier.token(Role::Operator, None).await;
    let ours = tier.token(Role::Admin, Some(&["ours"])).await;
    let theirs = tier.token(Role::Admin, Some(&["theirs"])).await;
    for secret in [&key, &operator] {
        for path in [
            "/api/internal/cost/recalculate",
            "/api/internal/retention",
            "/api/internal/rebuild",
        ] {
            assert_eq!(post(&tier, secret, path, json!({})).await.0, 403, "{path}");
        }
        assert_eq!(
            tier.get(secret, "/api/internal/jobs").await.0,
            StatusCode::FORBIDDEN
        );
    }
    // Limited to one project, a recalculation is of that one; what is for all is not theirs to ask for.
    let (status, our_job) = post(&tier, &ours, "/api/internal/cost/recalculate", json!({})).await;
    assert_eq!((status, &our_job["project_id"]), (202, &json!("ours")));
    assert_eq!(
        post(&tier, &ours, "/api/internal/retention", json!({}))
            .await
            .0,
        403
    );
    // Whether another project has an app of that name is not to be learnt from the answer.
    let everywhere = tier.token(Role::Admin, None).await;
    for (project, app) in [("ours", "our-secret"), ("theirs", "their-secret")] {
        let body = json!({"project_id": project, "default_app": app});
        let (status, answer) = post(&tier, &everywhere, "/api/internal/projects", body).await;
        assert_eq!(status, 200, "{answer}");
    }
    for app in ["our-secret", "nobodys"] {
        let body = json!({"app_id": app});
        let (status, refusal) = post(&tier, &theirs, "/api/internal/cost/recalculate", body).await;
        assert_eq!((status, &refusal["error"]), (400, &json!("unknown_app")));
    }
    let body = json!({"app_id": "their-secret"});
    let (status, job) = post(&tier, &theirs, "/api/internal/cost/recalculate", body).await;
    assert_eq!(status, 202, "{job}");
    let path = format!(
        "/api/internal/jobs/{}/cancel",
        job["job_id"].as_str().unwrap()
    );
    assert_eq!(post(&tier, &theirs, &path, json!({})).await.0, 200);
    let path = format!("/api/internal/jobs/{}", our_job["job_id"].as_str().unwrap());
    assert_eq!(tier.get(&theirs, &path).await.0, StatusCode::NOT_FOUND);
    let (_, list) = tier.get(&theirs, "/api/internal/jobs").await;
    let listed = list["data"].as_array().unwrap().iter();
    assert!(listed.clone().all(|job| job["project_id"] == "theirs") && listed.count() == 1);
    assert_eq!(
        post(&tier, &theirs, &format!("{path}/cancel"), json!({}))
            .await
            .0,
        404
    );
    assert_eq!(tier.get(&ours, &path).await.0, StatusCode::OK);
}
