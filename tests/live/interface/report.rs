//! Sections 2.4, 4.4 and 5 of the interface: the fields of a reported event, its request, and who may send it.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// A rule, an event, and what its run shows at a JSON pointer.
struct Row {
    rule: &'static str,
    event: Value,
    shows: (&'static str, Value),
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |rule, fields: Value, pointer, value| {
        let run = format!("r{}", rows.len());
        let mut event = event("report", &run, "agent_call", 0);
        for (key, value) in fields.as_object().expect("fields") {
            match value.as_str() {
                Some("absent") => drop(event.as_object_mut().expect("an event").remove(key)),
                _ => event[key] = value.clone(),
            }
        }
        rows.push(Row {
            rule,
            event,
            shows: (pointer, value),
        });
    };
    let at = event("", "", "", 123)["timestamp"].clone();
    row(
        "name",
        json!({"name": "agent_start"}),
        "/status",
        json!("started"),
    );
    row("app_id", json!({}), "/app_id", json!("report"));
    row(
        "app_id from the metadata",
        json!({"app_id": "absent", "metadata": {"app_id": "described"}}),
        "/app_id",
        json!("described"),
    );
    row(
        "app_id from the project of the key",
        json!({"app_id": "absent"}),
        "/app_id",
        json!("default"),
    );
    row("run_id", json!({}), "/run_id", json!("r4"));
    row(
        "parent_run_id",
        json!({"parent_run_id": "r0"}),
        "/parent_run_id",
        json!("r0"),
    );
    row(
        "parent_run_id is null when none",
        json!({"parent_run_id": null}),
        "/parent_run_id",
        Value::Null,
    );
    row(
        "timestamp has milliseconds",
        json!({"timestamp": at}),
        "/started_at",
        at.clone(),
    );
    row(
        "type agent",
        json!({"type": "agent"}),
        "/type",
        json!("agent"),
    );
    row("type llm", json!({"type": "llm"}), "/type", json!("llm"));
    row(
        "any type",
        json!({"type": "workflow step"}),
        "/type",
        json!("workflow step"),
    );
    row(
        "metadata has free-form keys",
        json!({"metadata": {"a key": {"b": [1]}}}),
        "/metadata/a key",
        json!({"b": [1]}),
    );
    row(
        "metadata: user_email",
        json!({"metadata": {"user_email": "a@example.org"}}),
        "/user_email",
        json!("a@example.org"),
    );
    row(
        "metadata: agent",
        json!({"metadata": {"agent": "planner"}}),
        "/agent",
        json!("planner"),
    );
    row(
        "input",
        json!({"input": {"question": 1}}),
        "/input",
        json!({"question": 1}),
    );
    row(
        "output",
        json!({"output": {"answer": 2}}),
        "/output",
        json!({"answer": 2}),
    );
    row(
        "output is null while unknown",
        json!({"name": "agent_start", "output": null}),
        "/output",
        Value::Null,
    );
    row(
        "model",
        json!({"type": "llm", "model": "any-1"}),
        "/model",
        json!("any-1"),
    );
    row(
        "prompt_tokens",
        json!({"type": "llm", "prompt_tokens": 3}),
        "/prompt_tokens",
        json!(3),
    );
    row(
        "completion_tokens",
        json!({"type": "llm", "completion_tokens": 4}),
        "/completion_tokens",
        json!(4),
    );
    row(
        "total_tokens",
        json!({"type": "llm", "total_tokens": 9}),
        "/total_tokens",
        json!(9),
    );
    rows
}

#[tokio::test]
async fn every_field_of_an_event_is_on_its_run() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let rows = rows();
    let events: Vec<Value> = rows.iter().map(|row| row.event.clone()).collect();
    let answer = server.report(&events).await.expect("a report");
    assert_eq!(answer.status(), StatusCode::OK);
    for (number, row) in rows.iter().enumerate() {
        let (pointer, value) = &row.shows;
        let path = format!("/api/run/r{number}");
        server
            .until(row.rule, VISIBLE_WITHIN, async || {
                let (_, run) = server.get(&path).await;
                (run.pointer(pointer) == Some(value)).then_some(())
            })
            .await;
    }
}

/// A rule, and the status of a request that is made so.
type Request = (
    &'static str,
    fn(&Server, RequestBuilder) -> RequestBuilder,
    u16,
);

const REQUESTS: [Request; 8] = [
    (
        "Bearer <API_KEY>",
        |server, request| request.bearer_auth(&server.key),
        200,
    ),
    ("every request is authenticated", |_, request| request, 401),
    (
        "an unknown key",
        |_, request| request.bearer_auth("sp_key_unknown"),
        401,
    ),
    (
        "Content-Type: application/json",
        |server, request| {
            request
                .bearer_auth(&server.key)
                .header("content-type", "application/json")
        },
        200,
    ),
    (
        "another content type",
        |server, request| {
            request
                .bearer_auth(&server.key)
                .header("content-type", "application/xml")
        },
        415,
    ),
    (
        "events are a list",
        |server, request| request.bearer_auth(&server.key).body(r#"{"events": 1}"#),
        400,
    ),
    (
        "the body is an object",
        |server, request| request.bearer_auth(&server.key).body("[]"),
        400,
    ),
    (
        "no events",
        |server, request| request.bearer_auth(&server.key).body(r#"{"events": []}"#),
        200,
    ),
];

#[tokio::test]
async fn a_report_is_taken_as_the_interface_says() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let body = json!({"events": [event("report", "r", "agent_start", 0)]}).to_string();
    for (rule, make, expected) in REQUESTS {
        let request = server.client.post(format!("{}/api/report", server.url));
        let answer = make(&server, request.body(body.clone()))
            .send()
            .await
            .expect(rule);
        assert_eq!(answer.status(), expected, "{rule}");
    }
}
