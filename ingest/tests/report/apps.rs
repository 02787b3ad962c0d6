//! The app of events that name none.

use serde_json::{Value, json};

use crate::fixture::{Tier, batch, tier};

/// An event of a run with these further fields.
fn event(name: &str, run: &str, fields: Value) -> String {
    let mut event = json!({"name": name, "run_id": run, "timestamp": "2024-05-01T10:00:00.000Z"});
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event.to_string()
}

/// The key of the log's record that contains this event.
fn key_of(tier: &Tier, event: &str) -> String {
    let records = tier.records();
    let found = records.iter().filter(|record| {
        let payload = std::str::from_utf8(&record.payload).unwrap();
        payload.contains(event)
    });
    let keys: Vec<String> = found
        .map(|record| String::from_utf8(record.key.to_vec()).unwrap())
        .collect();
    keys.join(" ")
}

async fn report(tier: &Tier, events: &[&String]) -> Value {
    let events: Vec<String> = events.iter().map(|event| (*event).clone()).collect();
    let answer = tier.report(batch(&events)).await;
    assert_eq!(
        (answer.status, &answer.json["accepted"]),
        (200, &json!(events.len())),
        "{answer:?}"
    );
    answer.json["warnings"].clone()
}

#[tokio::test]
async fn marks_and_closing_events_without_an_app_belong_to_the_app_of_their_run() {
    let rating = json!({"rating": "positive"});
    for (event, key) in [
        (event("saved", "stored", json!({})), "acme/shop"),
        (event("unsaved", "stored", json!({})), "acme/shop"),
        (event("feedback", "stored", rating), "acme/shop"),
        (event("tool_end", "stored", json!({})), "acme/shop"),
        (event("tool_error", "stored", json!({})), "acme/shop"),
        (
            event("step", "stored", json!({"status": "success"})),
            "acme/shop",
        ),
        // Every other event belongs to the app that it names, or to the default app.
        (event("tool_start", "stored", json!({})), "acme/main"),
        (event("llm_call", "stored", json!({})), "acme/main"),
        (event("step", "stored", json!({})), "acme/main"),
        (
            event("chat", "stored", json!({"role": "user", "content": "x"})),
            "acme/main",
        ),
        (
            event("saved", "stored", json!({"app_id": "main"})),
            "acme/main",
        ),
        (
            event(
                "tool_end",
                "stored",
                json!({"metadata": {"app_id": "main"}}),
            ),
            "acme/main",
        ),
        (event("saved", "unknown", json!({})), "acme/main"),
        (event("tool_end", "unreadable", json!({})), "acme/main"),
    ] {
        let tier = tier();
        assert_eq!(report(&tier, &[&event]).await, Value::Null, "{event}");
        assert_eq!(key_of(&tier, &event), key, "{event}");
    }
}

#[tokio::test]
async fn the_run_may_have_been_received_before_or_with_the_event_in_any_order() {
    let start = event("tool_start", "r", json!({"app_id": "shop"}));
    let end = event("tool_end", "r", json!({"output": 1}));
    let saved = event("saved", "r", json!({}));
    let cases = [
        vec![vec![&start], vec![&end], vec![&saved]],
        vec![vec![&start, &end, &saved]],
        vec![vec![&saved, &end, &start]],
    ];
    for reports in cases {
        let tier = tier();
        for events in &reports {
            assert_eq!(report(&tier, events).await, Value::Null);
        }
        for event in [&start, &end, &saved] {
            assert_eq!(key_of(&tier, event), "acme/shop", "{reports:?}");
        }
    }
}

#[tokio::test]
async fn of_two_apps_with_the_run_the_newest_one_counts_and_the_answer_says_so() {
    let tier = tier();
    let (other, saved) = (
        event("tool_start", "other", json!({"app_id": "shop"})),
        event("saved", "twice", json!({})),
    );
    let warnings = report(&tier, &[&other, &saved]).await;
    assert_eq!(key_of(&tier, &saved), "acme/desk");
    assert_eq!(
        warnings,
        json!([{"index": 1, "field": "run_id", "reason": "2 apps have a run with this id, among them `desk` and `shop`: the event applies to the newest one, in `desk`; app_id selects another"}])
    );
    let named = event("saved", "twice", json!({"app_id": "shop"}));
    assert_eq!(report(&tier, &[&named]).await, Value::Null);
    assert_eq!(key_of(&tier, &named), "acme/shop");
}
