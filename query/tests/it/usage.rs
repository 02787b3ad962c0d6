//! Analytics, facets and comparisons over HTTP.

use axum::http::{Method, StatusCode};
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use serde_json::{Value, json};
use store::rows::{EventRow, RunRow, RunStatus};

use crate::routes::{NOON_MS, Tier, run};

const ONE: i128 = 1_000_000_000_000_000_000;

/// Three calls of two models on two days, one of them failed, and somebody else's.
async fn tier_with_calls() -> (Tier, String) {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&ProjectId::new("theirs"), "app", &[])
        .await
        .unwrap();
    let key = tier.key("ours", &[Scope::Read]).await;
    let call = |run_id, model, cost| RunRow {
        r#type: "llm",
        model,
        cost,
        user_email: "ada@x",
        ..run("ours", "app", run_id, "")
    };
    let failed = RunRow {
        status: RunStatus::Error,
        error_name: "RateLimit",
        error_message: "429",
        started_at: NOON_MS - 86_400_000,
        latency_ms: None,
        ..call("c", "m2", ONE)
    };
    let theirs = RunRow {
        project_id: "theirs",
        ..call("d", "m1", ONE)
    };
    let rows = [call("a", "m1", 2 * ONE), call("b", "m1", 3), failed, theirs];
    tier.store.insert_runs(rows.into_iter()).await.unwrap();
    // A row that is replaced counts no more.
    let newer = RunRow {
        version: 2,
        ..call("b", "m1", 7)
    };
    tier.store.insert_runs([newer].into_iter()).await.unwrap();
    (tier, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_are_the_exact_sums_of_the_runs_by_model_and_day_p3() {
    let (tier, key) = tier_with_calls().await;
    let path = "/api/analytics/usage/costs?interval=day&from=2026-11-01&to=2026-11-20T12:00:00Z";
    let (status, report) = tier.get(&key, path).await;
    assert_eq!(status, StatusCode::OK, "{report}");
    let figures = |runs: u64, cost: f64| json!({"runs": runs, "calls": runs, "prompt_tokens": 7 * runs, "completion_tokens": 0, "total_tokens": 0, "cost": cost});
    let with = |key: &str, mut figures: Value| {
        figures["key"] = json!(key);
        figures
    };
    let expected = json!({
        "from": "2026-11-01T00:00:00.000Z", "to": "2026-11-20T12:00:00.000Z", "interval": "day", "group_by": "model",
        "totals": figures(3, 3.000_000_000_000_000_007),
        "groups": [with("m1", figures(2, 2.000_000_000_000_000_007)), with("m2", figures(1, 1.0))],
        "other": null,
        "series": [
            {"start": "2026-11-19T00:00:00.000Z", "totals": figures(1, 1.0), "groups": [with("m2", figures(1, 1.0))], "other": null},
            {"start": "2026-11-20T00:00:00.000Z", "totals": figures(2, 2.000_000_000_000_000_007),
             "groups": [with("m1", figures(2, 2.000_000_000_000_000_007))], "other": null},
        ],
    });
    assert_eq!(rounded(report), rounded(expected));
}

/// Numbers as floats, since a test reads them so.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, rounded(value)))
            .collect(),
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_an_answer_has_every_digit() {
    let (tier, key) = tier_with_calls().await;
    let request = axum::http::Request::builder()
        .uri("/api/analytics/usage/costs?from=2026-11-01")
        .header("authorization", format!("Bearer {key}"))
        .body(axum::body::Body::empty())
        .unwrap();
    let response = tower::ServiceExt::oneshot(tier.router.clone(), request)
        .await
        .unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(r#""cost":3.000000000000000007"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_agents_users_and_errors_have_their_figures() {
    let (tier, key) = tier_with_calls().await;
    let ask = async |what: &str| {
        let path = format!("/api/analytics/usage/{what}?from=2026-11-01");
        let (status, report) = tier.get(&key, &path).await;
        assert_eq!(status, StatusCode::OK, "{what}: {report}");
        report
    };
    let models = ask("models").await;
    assert_eq!(models["groups"][0]["key"], "m1");
    assert_eq!(models["groups"][0]["latency_p95_s"], 1.234);
    assert_eq!(models["groups"][1]["error_rate"], 1.0);
    assert_eq!(models["groups"][1]["latency_p50_s"], Value::Null);
    for (what, by, name) in [
        ("agents", "agent", "scout"),
        ("users", "user_email", "ada@x"),
        ("apps", "app_id", "app"),
    ] {
        let report = ask(what).await;
        assert_eq!(report["group_by"], by);
        assert_eq!(report["groups"][0]["key"], name);
        assert_eq!(
            (&report["totals"]["runs"], &report["totals"]["errors"]),
            (&json!(3), &json!(1))
        );
    }
    let errors = ask("errors").await;
    let expected = json!([{
        "key": "RateLimit", "count": 1, "last_seen": "2026-11-19T10:00:00.000Z", "example": {"app_id": "app", "run_id": "c"}
    }]);
    assert_eq!(errors["groups"], expected);
    assert!(errors.get("series").is_none() && errors["interval"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn facets_count_what_the_rest_of_the_filter_leaves() {
    let (tier, key) = tier_with_calls().await;
    let path = "/api/run/facets?from=2026-11-01&model=m1&status=success";
    let (status, found) = tier.get(&key, path).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    let values = |name: &str| found["facets"][name]["values"].clone();
    // The model's own filter is left out for the models, the status' for the statuses.
    assert_eq!(values("model"), json!([{"value": "m1", "count": 2}]));
    assert_eq!(values("status"), json!([{"value": "success", "count": 2}]));
    assert_eq!(values("tags"), json!([{"value": "a", "count": 2}]));
    assert_eq!(values("agent"), json!([{"value": "scout", "count": 2}]));
    assert_eq!(
        values("user_email"),
        json!([{"value": "ada@x", "count": 2}])
    );
    let (_, found) = tier
        .get(&key, "/api/run/facets?from=2026-11-01&model=m1")
        .await;
    let models = json!({"values": [{"value": "m1", "count": 2}, {"value": "m2", "count": 1}], "truncated": false});
    assert_eq!(found["facets"]["model"], models);
    assert_eq!(found["facets"].as_object().unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_are_compared_and_a_missing_one_is_named() {
    let (tier, key) = tier_with_calls().await;
    let event = |run_id: &'static str, event_id, payload: &'static [u8]| EventRow {
        project_id: "ours",
        app_id: "app",
        timestamp: NOON_MS,
        run_id,
        event_id,
        name: "llm_call",
        payload,
        received_at: NOON_MS,
        stored_at: NOON_MS,
    };
    let a = br#"{"name":"llm_call","run_id":"a","timestamp":"2026-11-20T10:00:00Z","input":{"q":1,"r":2},"output":"x","metadata":{"k":1}}"#;
    let c = br#"{"name":"llm_call","run_id":"c","timestamp":"2026-11-20T10:00:00Z","input":{"r":2,"q":1},"output":"y","metadata":{"k":2}}"#;
    tier.store
        .insert_events([event("a", 1, a), event("c", 2, c)].into_iter())
        .await
        .unwrap();
    let compare = async |body: Value| {
        tier.ask(Method::POST, &key, "/api/run/compare", Some(body))
            .await
    };
    let (status, found) =
        compare(json!({"run_id_a": "a", "run_id_b": "c", "app_id_b": "app"})).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(
        (&found["a"]["output"], &found["b"]["output"]),
        (&json!("x"), &json!("y"))
    );
    let differences = &found["differences"];
    assert_eq!(
        (&differences["input_equal"], &differences["output_equal"]),
        (&json!(true), &json!(false))
    );
    let cost = &differences["cost"];
    assert_eq!(
        (&cost["a"], &cost["delta"], &cost["ratio"]),
        (&json!(2), &json!(-1), &json!(0.5))
    );
    assert_eq!(
        differences["latency_s"],
        json!({"a": 1.234, "b": null, "delta": null, "ratio": null})
    );
    let fields: Vec<&str> = differences["fields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|field| field["field"].as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "status",
            "model",
            "error.name",
            "error.message",
            "metadata.k"
        ]
    );
    for (body, expected, named) in [
        (
            json!({"run_id_a": "a", "run_id_b": "gone"}),
            404,
            "run_id_b",
        ),
        (json!({"run_id_a": "d", "run_id_b": "a"}), 404, "run_id_a"),
        (json!({"run_id_a": "", "run_id_b": "a"}), 400, "run_id_a"),
        (json!({"run_id_a": "a"}), 400, "run_id_b"),
        (json!({"run_id_a": "a", "run_id_b": "b", "c": 1}), 400, "c"),
    ] {
        let (status, answer) = compare(body).await;
        assert_eq!(status.as_u16(), expected, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_stay_within_what_the_credential_reaches_t1() {
    let (tier, key) = tier_with_calls().await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    let viewer = tier.token(Role::Viewer, None).await;
    for what in ["costs", "models", "agents", "users", "apps", "errors"] {
        let path = format!("/api/analytics/usage/{what}");
        for (secret, query, expected) in [
            ("", "", 401),
            (reporter.as_str(), "", 403),
            (&key, "?project_id=theirs", 403),
            (&key, "?limit=3", 400),
            (&key, "?interval=week", 400),
            (&key, "?min_cost=2&max_cost=1", 400),
        ] {
            let (status, body) = tier.get(secret, &format!("{path}{query}")).await;
            assert_eq!(status.as_u16(), expected, "{what}{query}: {body}");
        }
    }
    let runs = async |secret: &str, query: &str| {
        let path = format!("/api/analytics/usage/costs?from=2026-11-01{query}");
        tier.get(secret, &path).await.1["totals"]["runs"].clone()
    };
    assert_eq!(runs(&key, "").await, 3);
    assert_eq!(runs(&viewer, "").await, 4);
    assert_eq!(runs(&viewer, "&project_id=theirs").await, 1);
    let (_, facets) = tier.get(&key, "/api/run/facets?from=2026-11-01").await;
    assert_eq!(facets["facets"]["model"]["values"][0]["count"], 2);
    let (_, errors) = tier
        .get(&viewer, "/api/analytics/usage/errors?from=2026-11-01")
        .await;
    assert_eq!(errors["groups"][0]["example"]["project_id"], "ours");
}
