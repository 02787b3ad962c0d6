//! Section 6.3 of the interface: which events cost, by what, and what a run adds up to.

use std::collections::BTreeSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// USD per million tokens of prompt and completion, of the row that the test adds to the price table.
const RATES: [u64; 2] = [1, 2];

fn with(mut event: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().expect("fields") {
        event[key] = value.clone();
    }
    event
}

fn call(run: &str, name: &str, at_ms: i64, fields: Value) -> Value {
    let call = with(event("costs", run, name, at_ms), json!({"type": "llm"}));
    with(call, fields)
}

fn used(prompt: u64, completion: u64) -> Value {
    json!({"model": "exact-1", "prompt_tokens": prompt, "completion_tokens": completion})
}

fn agent(run: &str, name: &str, at_ms: i64) -> Value {
    with(event("costs", run, name, at_ms), json!({"type": "agent"}))
}

/// A rule, the events of a run, and what the run shows: cost in millionths of USD, its status, all its tokens, and its
/// model calls.
struct Row {
    rule: &'static str,
    events: Vec<Value>,
    shows: (u64, &'static str, Option<u64>, u64),
}

fn rows() -> Vec<Row> {
    let row = |rule, events, shows| Row {
        rule,
        events,
        shows,
    };
    vec![
        row(
            "cost is computed only for events of type llm",
            vec![with(event("costs", "r0", "tool_call", 0), used(10, 1))],
            (0, "not_llm", Some(11), 0),
        ),
        row(
            "prompt and completion tokens, model, and a row for the model",
            vec![call("r1", "llm_call", 0, used(10, 1))],
            (12, "priced", Some(11), 1),
        ),
        row(
            "or the total",
            vec![call(
                "r2",
                "llm_call",
                0,
                json!({"model": "exact-1", "total_tokens": 7}),
            )],
            (7, "priced", Some(7), 1),
        ),
        row(
            "tokens are missing",
            vec![call(
                "r3",
                "llm_call",
                0,
                json!({"model": "exact-1", "prompt_tokens": 7}),
            )],
            (0, "no_tokens", Some(7), 1),
        ),
        row(
            "the model is missing",
            vec![call("r4", "llm_call", 0, json!({"total_tokens": 7}))],
            (0, "no_model", Some(7), 1),
        ),
        row(
            "a new model costs nothing until a row is added",
            vec![call(
                "r5",
                "llm_call",
                0,
                json!({"model": "new-1", "total_tokens": 7}),
            )],
            (0, "unpriced_model", Some(7), 1),
        ),
        row(
            "each event costs: two one-shot calls under one run",
            vec![
                call("r6", "llm_call", 0, used(10, 1)),
                call("r6", "llm_call", 5, used(20, 2)),
                call("r6", "llm_call", 5, used(20, 2)),
            ],
            (36, "priced", Some(33), 2),
        ),
        row(
            "each event costs: a call under the run of an agent",
            vec![
                agent("r7", "agent_start", 0),
                call("r7", "llm_call", 5, used(10, 1)),
                agent("r7", "agent_end", 9),
            ],
            (12, "priced", Some(11), 1),
        ),
        row(
            "a start and an end are one call, and complete each other",
            vec![
                call("r8", "llm_start", 0, json!({"model": "exact-1"})),
                call(
                    "r8",
                    "llm_end",
                    5,
                    json!({"prompt_tokens": 10, "completion_tokens": 1}),
                ),
            ],
            (12, "priced", Some(11), 1),
        ),
    ]
}

/// Whether the run lists each of its calls, and they add up to what it shows.
fn has_each_call(run: &Value) -> bool {
    let listed = run["calls"].as_array().unwrap();
    let sum = |field: &str| -> f64 {
        let figures = listed.iter().filter_map(|call| call[field].as_f64());
        figures.sum()
    };
    let adds_up = |field: &str| (sum(field) - run[field].as_f64().unwrap_or(0.0)).abs() < 1e-12;
    let is_known = |call: &Value| {
        let events = run["events"].as_array().unwrap();
        let named = |event: &&Value| event["event_id"] == call["event_id"];
        let event = events.iter().find(named);
        call["event_id"].is_null() || event.is_some_and(|event| event["timestamp"] == call["at"])
    };
    listed.len() as u64 == run["llm_calls"].as_u64().unwrap()
        && (run["cost_status"] == "not_llm" || (adds_up("cost") && adds_up("total_tokens")))
        && listed.iter().all(is_known)
}

async fn price_exact_1(server: &Server, setup: &Setup) {
    let rates = json!({"input_per_1m": RATES[0], "output_per_1m": RATES[1]});
    let path = "/api/internal/prices/exact-1";
    let (status, answer) = server
        .ask(reqwest::Method::PUT, &setup.token, path, Some(rates))
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

#[tokio::test]
async fn costs_are_computed_as_the_interface_says() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    price_exact_1(&server, &setup).await;
    let rows = rows();
    // One by one, the last event first: neither order nor company counts.
    for event in rows.iter().flat_map(|row| &row.events).rev() {
        let answer = server.report(std::slice::from_ref(event)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    for (number, row) in rows.iter().enumerate() {
        let (millionths, status, tokens, calls) = row.shows;
        let expected = json!([millionths as f64 / 1e6, status, tokens, calls]);
        let path = format!("/api/run/r{number}");
        server
            .until(row.rule, VISIBLE_WITHIN, async || {
                let (_, run) = server.get(&path).await;
                let shown = json!([
                    run["cost"].as_f64(),
                    run["cost_status"],
                    run["total_tokens"],
                    run["llm_calls"]
                ]);
                (shown == expected && has_each_call(&run)).then_some(())
            })
            .await;
        let (_, run) = server.get(&path).await;
        let (listed, count) = calls_of(&server, &format!("r{number}"), 1).await;
        assert_eq!(
            (json!(listed), count),
            (run["calls"].clone(), calls),
            "{}",
            row.rule
        );
    }
    // The model-call view.
    let (_, page) = server.get("/api/run/?type=llm&app_id=costs").await;
    let mut found: Vec<&str> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
}

/// All pages of the calls of a run, and how many the last one says there are.
async fn calls_of(server: &Server, run_id: &str, limit: usize) -> (Vec<Value>, u64) {
    let mut calls = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/run/{run_id}/calls?app_id=costs&limit={limit}{cursor}");
        let (status, page) = server.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= limit);
        calls.extend_from_slice(data);
        assert_eq!(page["has_more"], json!(page["next_cursor"].is_string()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (calls, page["count"].as_u64().unwrap()),
        }
    }
}

/// More than a run shows events.
const MANY: usize = 10_500;

#[tokio::test]
async fn each_of_many_calls_under_one_run_is_listed_page_by_page() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    price_exact_1(&server, &setup).await;
    let mut events: Vec<Value> = (0..MANY)
        .map(|at| {
            call(
                "many",
                "llm_call",
                at as i64 / 3,
                used(at as u64 % 7 + 1, 1),
            )
        })
        .collect();
    events.push(agent("many", "agent_start", 0));
    for batch in events.chunks(1000).rev() {
        let answer = server.report(batch).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let run = server
        .until("every call is counted", VISIBLE_WITHIN * 4, async || {
            let (_, run) = server.get("/api/run/many?app_id=costs").await;
            (run["llm_calls"] == json!(MANY)).then_some(run)
        })
        .await;
    assert_eq!(run["events_truncated"], json!(true));
    let (calls, count) = calls_of(&server, "many", 1000).await;
    assert_eq!((calls.len(), count), (MANY, MANY as u64));
    let ids: BTreeSet<&str> = calls
        .iter()
        .map(|call| call["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), MANY);
    let tokens: u64 = calls
        .iter()
        .map(|call| call["total_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(json!(tokens), run["total_tokens"]);
    let times: Vec<&str> = calls
        .iter()
        .map(|call| call["at"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted());
    let (status, fault) = server.get("/api/run/absent/calls").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{fault}");
    let (status, fault) = server.get("/api/run/many/calls?cursor=AAAA").await;
    assert_eq!(
        (status, &fault["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_cursor"))
    );
}
