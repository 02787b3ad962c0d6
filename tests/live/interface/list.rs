//! Sections 4.5 and 5 of the interface: the filters of the list of runs, and who reads it.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// USD per million tokens of prompt and completion.
const RATES: [u64; 2] = [1, 2];

/// What the list shows for a query: the run ids, in any order.
struct Row {
    rule: &'static str,
    query: String,
    runs: &'static [&'static str],
}

/// A call that ended after two seconds for 0.000012 USD, an agent that failed after half a second, an agent that goes
/// on, and a run of another app. They start a second after each other.
fn events() -> Vec<Value> {
    let with = |mut event: Value, fields: Value| {
        for (key, value) in fields.as_object().expect("fields") {
            event[key] = value.clone();
        }
        event
    };
    let ana = json!({"agent": "planner", "user_email": "ana@example.org"});
    let bo = json!({"agent": "coder", "user_email": "bo@example.org"});
    let used =
        json!({"type": "llm", "model": "exact-1", "prompt_tokens": 10, "completion_tokens": 1});
    vec![
        with(
            event("list", "call", "llm_start", 0),
            json!({"type": "llm", "metadata": ana, "tags": ["red"]}),
        ),
        with(event("list", "call", "llm_end", 2_000), used),
        with(
            event("list", "failed", "agent_start", 1_000),
            json!({"metadata": bo, "tags": ["blue"]}),
        ),
        with(
            event("list", "failed", "agent_error", 1_500),
            json!({"error": "no"}),
        ),
        with(
            event("list", "open", "agent_start", 2_000),
            json!({"metadata": {"agent": "planner"}, "tags": ["red", "blue"]}),
        ),
        event("elsewhere", "other", "agent_call", 0),
    ]
}

fn rows() -> Vec<Row> {
    let row = |rule, query: &str, runs| Row {
        rule,
        query: query.to_owned(),
        runs,
    };
    let window = |from: i64, to: i64| {
        let at = |ms| {
            event("list", "", "", ms)["timestamp"]
                .as_str()
                .map(str::to_owned)
        };
        format!("from={}&to={}", at(from).unwrap(), at(to).unwrap())
    };
    vec![
        row("app_id", "app_id=list", &["call", "failed", "open"]),
        row(
            "all filters are optional",
            "",
            &["call", "failed", "open", "other"],
        ),
        row("status success", "app_id=list&status=success", &["call"]),
        row("status error", "app_id=list&status=error", &["failed"]),
        row("status started", "app_id=list&status=started", &["open"]),
        row("model", "app_id=list&model=exact-1", &["call"]),
        row("model is exact: no prefix", "app_id=list&model=exact", &[]),
        row("model is exact: case", "app_id=list&model=Exact-1", &[]),
        row("agent", "app_id=list&agent=planner", &["call", "open"]),
        row("agent is exact", "app_id=list&agent=plan", &[]),
        row("min_latency_s", "app_id=list&min_latency_s=2", &["call"]),
        row(
            "min_latency_s is a float",
            "app_id=list&min_latency_s=0.5001",
            &["call"],
        ),
        row(
            "latency is as given",
            "app_id=list&min_latency_s=2.0001",
            &[],
        ),
        row(
            "max_latency_s",
            "app_id=list&max_latency_s=0.5",
            &["failed"],
        ),
        row(
            "max_latency_s is a float",
            "app_id=list&max_latency_s=0.4999",
            &[],
        ),
        row(
            "latency window",
            "app_id=list&min_latency_s=0.5&max_latency_s=2",
            &["call", "failed"],
        ),
        row("min_cost", "app_id=list&min_cost=0.000012", &["call"]),
        row(
            "min_cost is exact",
            "app_id=list&min_cost=0.0000120000001",
            &[],
        ),
        row(
            "min_cost is any float",
            "app_id=list&min_cost=-1",
            &["call", "failed", "open"],
        ),
        row(
            "max_cost",
            "app_id=list&max_cost=0.0000119",
            &["failed", "open"],
        ),
        row("tags", "app_id=list&tags=red", &["call", "open"]),
        row(
            "tags match any of them",
            "app_id=list&tags=red,blue",
            &["call", "failed", "open"],
        ),
        row(
            "tags may be repeated",
            "app_id=list&tags=red&tags=blue",
            &["call", "failed", "open"],
        ),
        row("tags none has", "app_id=list&tags=green", &[]),
        row(
            "user_email",
            "app_id=list&user_email=ana%40example.org",
            &["call"],
        ),
        row("user_email is exact", "app_id=list&user_email=ana", &[]),
        row(
            "from and to are inclusive",
            &format!("app_id=list&{}", window(0, 1_000)),
            &["call", "failed"],
        ),
        row(
            "from, a millisecond later",
            &format!("app_id=list&{}", window(1, 2_000)),
            &["failed", "open"],
        ),
        row(
            "to, a millisecond earlier",
            &format!("app_id=list&{}", window(0, 999)),
            &["call"],
        ),
        row(
            "all filters at once",
            "app_id=list&status=success&model=exact-1&agent=planner&min_latency_s=1&max_latency_s=3&min_cost=0&max_cost=1&tags=red&user_email=ana%40example.org",
            &["call"],
        ),
        row(
            "one filter that does not match",
            "app_id=list&status=success&agent=coder",
            &[],
        ),
    ]
}

fn ids(page: &Value) -> Vec<&str> {
    let runs = page["data"].as_array().expect("a page of runs");
    let mut ids: Vec<&str> = runs
        .iter()
        .map(|run| run["run_id"].as_str().expect("an id"))
        .collect();
    ids.sort_unstable();
    ids
}

async fn begun(setup: &Setup) -> Server {
    let server = setup.start_ready().await;
    let rates = json!({"input_per_1m": RATES[0], "output_per_1m": RATES[1]});
    let path = "/api/internal/prices/exact-1";
    let (status, answer) = server
        .ask(reqwest::Method::PUT, &setup.token, path, Some(rates))
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let answer = server.report(&events()).await.expect("a report");
    assert_eq!(answer.status(), StatusCode::OK);
    server
        .until("all runs are shown", VISIBLE_WITHIN, async || {
            let (_, page) = server.get("/api/run/").await;
            (ids(&page).len() == 4).then_some(())
        })
        .await;
    server
}

#[tokio::test]
async fn runs_are_filtered_as_the_interface_says() {
    let setup = Setup::new();
    let server = begun(&setup).await;
    for row in rows() {
        let (status, page) = server.get(&format!("/api/run/?{}", row.query)).await;
        assert_eq!(status, StatusCode::OK, "{}: {page}", row.rule);
        assert_eq!(ids(&page), row.runs, "{}: {}", row.rule, row.query);
    }
    for (rule, query) in [
        ("status is one of three", "status=done"),
        ("latency is a number", "min_latency_s=long"),
        ("cost is a number", "max_cost=cheap"),
        ("from is an ISO timestamp", "from=yesterday"),
    ] {
        let (status, answer) = server.get(&format!("/api/run/?{query}")).await;
        let name = query.split_once('=').map(|(name, _)| name).expect("a name");
        assert_eq!(status, StatusCode::BAD_REQUEST, "{rule}: {answer}");
        let message = answer["message"].as_str().expect("a message");
        assert!(message.contains(name), "{rule}: {message}");
    }
    for (rule, secret, expected) in [
        ("the key of the project", setup.key.as_str(), StatusCode::OK),
        ("a token of a person", &setup.token, StatusCode::OK),
        ("no credential", "", StatusCode::UNAUTHORIZED),
        ("an unknown key", "sp_key_unknown", StatusCode::UNAUTHORIZED),
    ] {
        let (status, answer) = server.get_as(secret, "/api/run/?app_id=list").await;
        assert_eq!(status, expected, "{rule}: {answer}");
    }
}
