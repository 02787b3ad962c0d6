//! Analytics, facets and comparisons over HTTP.

use axum::http::StatusCode;
use schemas::credential::{Role, Scope};
use schemas::fold::RunStatus;
use schemas::ids::ProjectId;
use serde_json::{Value, json};
use store::tables::rows::RunRow;

use crate::tier::{NOON_MS, Tier, run};

const ONE: i128 = 1_000_000_000_000_000_000;

/// Three calls of two models on two days, one of them failed, and two of another project.
pub(crate) async fn tier_with_calls() -> (Tier, String) {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&ProjectId::new("theirs"), "app", &[])
        .await
        .unwrap();
    let key = tier.key("ours", &[Scope::Read]).await;
    let call = |run_id, model, cost| RunRow {
        r#type: "llm",
        calls: 1,
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
