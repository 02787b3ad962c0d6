//! `POST /api/run/compare`.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use store::tables::rows::EventRow;

use crate::api::analytics::usage::tier_with_calls;
use crate::tier::NOON_MS;

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
