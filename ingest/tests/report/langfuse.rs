//! What Langfuse's SDKs send besides spans, in the shapes of python 2 and 5 and of npm 5.

use axum::body::Body;
use axum::http::{Method, Request, header};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::fixture::{Answer, Tier, tier};

const AT: &str = "2026-11-22T09:21:26.916795Z";

fn basic(secret: &str) -> String {
    let pair = format!("pk-lf-1:{secret}");
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Basic {pair}")
}

async fn ask(tier: &Tier, method: Method, path: &str, secret: &str, body: &Value) -> Answer {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, basic(secret));
    tier.send(request.body(body).unwrap()).await
}

async fn post(tier: &Tier, path: &str, body: &Value) -> Answer {
    ask(tier, Method::POST, path, "report", body).await
}

/// All events in the log.
fn events(tier: &Tier) -> Vec<Value> {
    let bodies = tier.payloads();
    let bodies = bodies
        .iter()
        .map(|body| serde_json::from_slice::<Value>(body).unwrap());
    bodies
        .flat_map(|body| body["events"].as_array().unwrap().clone())
        .collect()
}

fn item(id: &str, kind: &str, body: Value) -> Value {
    json!({"id": id, "type": kind, "timestamp": AT, "body": body})
}

#[tokio::test]
async fn a_key_is_checked_as_langfuses_sdks_do() {
    let tier = tier();
    let projects = |secret: &'static str| {
        ask(
            &tier,
            Method::GET,
            "/api/public/projects",
            secret,
            &Value::Null,
        )
    };
    let answer = projects("report").await;
    let expected = json!({"data": [{"id": "acme", "name": "acme", "organization": {"id": "spindle", "name": "Spindle"},
        "metadata": {}}]});
    assert_eq!((answer.status, &answer.json), (200, &expected));
    assert_eq!(projects("nobodys").await.error(), (401, "unauthorized"));
    assert_eq!(projects("read").await.error(), (403, "forbidden"));
    assert_eq!(projects("broken").await.error(), (503, "unavailable"));
    let health = ask(
        &tier,
        Method::GET,
        "/api/public/health",
        "nobodys",
        &Value::Null,
    )
    .await;
    assert_eq!((health.status, &health.json["status"]), (200, &json!("OK")));
    assert!(health.json["version"].is_string());
}

#[tokio::test]
async fn what_is_not_kept_of_langfuse_says_so() {
    let tier = tier();
    for (method, path, word) in [
        (Method::GET, "/api/public/v2/prompts/welcome", "fallback"),
        (Method::POST, "/api/public/v2/prompts", "fallback"),
        (
            Method::GET,
            "/api/public/v2/datasets/golden",
            "/api/dataset/",
        ),
        (Method::POST, "/api/public/dataset-items", "/api/dataset/"),
        (Method::GET, "/api/public/traces/t-1", "/api/run/"),
        (
            Method::GET,
            "/api/public/annotation-queues",
            "docs/guide/otlp.md",
        ),
    ] {
        let answer = ask(&tier, method.clone(), path, "report", &Value::Null).await;
        assert_eq!(answer.error(), (404, "not_found"), "{method} {path}");
        let message = answer.json["message"].as_str().unwrap();
        assert!(
            message.contains(path) && message.contains(word),
            "{message}"
        );
    }
    // Scores are written there, and read with the run.
    let read = ask(
        &tier,
        Method::GET,
        "/api/public/scores",
        "report",
        &Value::Null,
    )
    .await;
    assert_eq!(read.error(), (405, "method_not_allowed"));
    assert!(read.json["message"].as_str().unwrap().contains("/api/run/"));
}

#[tokio::test]
async fn a_score_is_feedback_and_a_rating_where_it_is_on_the_scale_of_thumbs() {
    for (score, thumb, comment) in [
        (
            json!({"name": "helpful", "value": 1.0}),
            json!("up"),
            "helpful = 1.0",
        ),
        (
            json!({"name": "helpful", "value": 0, "dataType": "BOOLEAN", "comment": "no"}),
            json!("down"),
            "helpful = 0: no",
        ),
        (
            json!({"name": "user", "value": true}),
            json!("up"),
            "user = true",
        ),
        (
            json!({"name": "user", "value": "thumbs_down", "dataType": "CATEGORICAL"}),
            json!("thumbs_down"),
            "user = thumbs_down",
        ),
        (
            json!({"name": "novelty", "value": 0.9}),
            Value::Null,
            "novelty = 0.9",
        ),
        (
            json!({"name": "stars", "value": "1"}),
            Value::Null,
            "stars = 1",
        ),
        (
            json!({"name": "toxic", "value": 1, "source": "EVAL"}),
            Value::Null,
            "toxic = 1",
        ),
        (
            json!({"name": "output", "value": "good", "dataType": "CORRECTION"}),
            Value::Null,
            "output = good",
        ),
    ] {
        let tier = tier();
        let mut score = score;
        score["id"] = json!("s-1");
        score["traceId"] = json!("2d711642b726b04401627ca9fbac32f5");
        score["timestamp"] = json!(AT);
        let answer = post(&tier, "/api/public/scores", &score).await;
        assert_eq!(
            (answer.status, &answer.json),
            (200, &json!({"id": "s-1"})),
            "{score}"
        );
        let [event] = events(&tier).try_into().unwrap();
        assert_eq!(event["event"], "feedback");
        let run = event["runId"].as_str().unwrap();
        let name = run.strip_prefix("2d711642b726b04401627ca9fbac32f5/");
        assert_eq!(name.map(str::len), Some(16), "each waits by itself: {run}");
        assert_eq!(event["timestamp"], "2026-11-22T09:21:26.916Z");
        assert_eq!(
            (&event["feedback"]["thumb"], &event["feedback"]["comment"]),
            (&thumb, &json!(comment))
        );
        assert_eq!(event["feedback"]["value"], score["value"]);
    }
}

#[tokio::test]
async fn a_list_of_scores_is_answered_as_version_5_expects() {
    let tier = tier();
    let good = json!({"id": "5078435f44ab5da1", "traceId": "t-1", "observationId": "o-1", "name": "helpful", "value": 1.0,
        "timestamp": AT});
    let answer = post(&tier, "/api/public/scores", &json!([good])).await;
    assert_eq!(
        (answer.status, &answer.json),
        (202, &json!({"message": "Accepted"}))
    );
    let of_session = json!({"sessionId": "s", "name": "helpful", "value": 1});
    let early =
        json!({"traceId": "t", "name": "helpful", "value": 1, "timestamp": "1999-01-01T00:00:00Z"});
    let answer = post(
        &tier,
        "/api/public/scores",
        &json!([of_session, good, 7, early]),
    )
    .await;
    assert_eq!(answer.status, 207);
    assert_eq!(
        (&answer.json["accepted"], &answer.json["rejected"]),
        (&json!(1), &json!(3))
    );
    let messages: Vec<&str> = answer.json["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["message"].as_str().unwrap())
        .collect();
    assert!(
        messages[0].starts_with("scores[0] names neither traceId nor observationId"),
        "{messages:?}"
    );
    assert!(
        messages[1].starts_with("scores[2] must be an object"),
        "{messages:?}"
    );
    assert!(
        messages[2].starts_with("scores[3] timestamp is before"),
        "{messages:?}"
    );
    let runs: Vec<Value> = events(&tier)
        .iter()
        .map(|event| event["runId"].clone())
        .collect();
    assert_eq!(runs, ["o-1", "o-1"], "the observation, not its trace");
    assert_eq!(tier.metric("spindle_ingest_rejected_events_total"), 3.0);

    let answer = post(&tier, "/api/public/scores", &of_session).await;
    assert_eq!(answer.error(), (400, "invalid_value"));
    for body in [json!(7), json!("x")] {
        assert_eq!(
            post(&tier, "/api/public/scores", &body).await.error(),
            (400, "invalid_body"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_batch_becomes_runs_with_the_ids_of_its_observations() {
    let tier = tier();
    let batch = json!({"batch": [
        item("e-1", "trace-create", json!({"id": "t-1", "name": "support", "userId": "ann", "sessionId": "s-1",
            "timestamp": "2026-11-22T09:21:20.000Z", "tags": ["v1"], "input": {"q": 1}, "output": "18",
            "metadata": {"tier": "gold"}, "release": "r1"})),
        item("e-2", "span-create", json!({"id": "o-1", "traceId": "t-1", "name": "retrieve",
            "startTime": "2026-11-22T09:21:21.000Z", "input": "rain?"})),
        item("e-3", "span-update", json!({"id": "o-1", "endTime": "2026-11-22T09:21:22.000Z", "output": ["doc"]})),
        item("e-4", "generation-create", json!({"id": "o-2", "traceId": "t-1", "parentObservationId": "o-1",
            "name": "answer", "startTime": "2026-11-22T09:21:22.000Z", "endTime": "2026-11-22T09:21:24.000Z",
            "completionStartTime": "2026-11-22T09:21:22.500Z", "model": "claude-sonnet-4-5",
            "modelParameters": {"temperature": 1}, "input": [{"role": "user", "content": "rain?"}],
            "output": {"role": "assistant", "content": "18"},
            "usageDetails": {"input": 20, "output": 11, "cache_read_input_tokens": 8000, "cache_creation_input_tokens": 900},
            "costDetails": {"input": 0.005, "output": 0.001}})),
        item("e-5", "generation-update", json!({"id": "o-3", "traceId": "t-1", "endTime": "2026-11-22T09:21:25.000Z",
            "usage": {"promptTokens": 3, "completionTokens": 2, "totalTokens": 5}, "level": "ERROR",
            "statusMessage": "rate limited"})),
        item("e-6", "event-create", json!({"id": "o-4", "traceId": "t-1", "name": "clicked",
            "startTime": "2026-11-22T09:21:25.000Z"})),
        item("e-7", "score-create", json!({"id": "s-1", "traceId": "t-1", "name": "helpful", "value": 1})),
        item("e-8", "sdk-log", json!({"log": "x"})),
    ], "metadata": {"sdk_name": "python", "sdk_version": "2.60.10"}});
    let answer = post(&tier, "/api/public/ingestion", &batch).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    let ids: Vec<&str> = answer.json["successes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        ["e-1", "e-2", "e-3", "e-4", "e-5", "e-6", "e-7", "e-8"]
    );
    assert_eq!(answer.json["successes"][0]["status"], 201);
    assert_eq!(answer.json["errors"], json!([]));

    let all = events(&tier);
    let of =
        |run: &str| -> Vec<&Value> { all.iter().filter(|event| event["run_id"] == run).collect() };
    let [start, end, ends @ ..] = of("t-1").try_into().map(|list: [&Value; 5]| list).unwrap();
    assert_eq!(
        *start,
        json!({"name": "support_start", "event_id": "e-1-start", "run_id": "t-1", "type": "chain",
        "timestamp": "2026-11-22T09:21:20.000Z", "input": {"q": 1}, "user_email": "ann", "thread_id": "s-1", "tags": ["v1"],
        "metadata": {"trace_id": "t-1", "tier": "gold", "release": "r1"}})
    );
    assert_eq!(
        *end,
        json!({"name": "support_end", "event_id": "e-1-end", "run_id": "t-1", "type": "chain",
        "timestamp": "2026-11-22T09:21:26.916Z", "output": "18"})
    );
    // Observations without a parent end the trace: the span, the failed call; and what happened at a moment.
    assert_eq!(ends.len(), 3);
    for end in ends {
        assert_eq!(
            (&end["name"], &end["type"]),
            (&json!("support_end"), &json!("chain"))
        );
    }

    let [start, update, end] = of("o-1").try_into().unwrap();
    assert_eq!(
        (&start["name"], &start["parent_run_id"], &start["input"]),
        (&json!("retrieve_start"), &json!("t-1"), &json!("rain?"))
    );
    assert_eq!(
        (&update["name"], &update["parent_run_id"]),
        (&json!("retrieve_start"), &json!("t-1"))
    );
    assert_eq!(
        (&end["name"], &end["output"], &end["type"]),
        (&json!("retrieve_end"), &json!(["doc"]), &json!("span"))
    );

    let [start, end] = of("o-2").try_into().unwrap();
    assert_eq!(
        (&start["parent_run_id"], &start["type"]),
        (&json!("o-1"), &json!("llm"))
    );
    assert_eq!(
        start["metadata"]["modelParameters"],
        json!({"temperature": 1})
    );
    assert_eq!(
        *end,
        json!({"name": "answer_end", "event_id": "e-4-end", "run_id": "o-2", "parent_run_id": "o-1",
        "type": "llm", "timestamp": "2026-11-22T09:21:24.000Z", "output": {"role": "assistant", "content": "18"},
        "model": "claude-sonnet-4-5", "prompt_tokens": 8920, "completion_tokens": 11, "cached_tokens": 8000,
        "cache_write_tokens": 900, "estimated_cost": 0.006, "ttft_ms": 500})
    );

    let failed = of("o-3").pop().unwrap();
    assert_eq!(failed["name"], "llm_error");
    assert_eq!(failed["error"], json!({"message": "rate limited"}));
    assert_eq!(
        (&failed["prompt_tokens"], &failed["total_tokens"]),
        (&json!(3), &json!(5))
    );
    let [start, end] = of("o-4").try_into().unwrap();
    assert_eq!(start["timestamp"], end["timestamp"]);
    let feedback = all
        .iter()
        .find(|event| event["event"] == "feedback")
        .unwrap();
    assert_eq!(
        (&feedback["runId"], &feedback["feedback"]["thumb"]),
        (&json!("t-1"), &json!("up"))
    );
}

#[tokio::test]
async fn each_item_of_a_batch_stands_alone() {
    let tier = tier();
    let batch = json!({"batch": [
        item("good", "span-create", json!({"id": "o-1"})),
        item("unknown", "dataset-run-item-create", json!({"id": "o-2"})),
        item("nameless", "span-create", json!({"name": "x"})),
        item("late", "span-create", json!({"id": "o-3", "startTime": "soon"})),
        7,
        item("long", "span-create", json!({"id": "i".repeat(300)})),
    ]});
    let answer = post(&tier, "/api/public/ingestion", &batch).await;
    assert_eq!(answer.status, 207);
    assert_eq!(
        answer.json["successes"],
        json!([{"id": "good", "status": 201}])
    );
    let errors = answer.json["errors"].as_array().unwrap();
    let found: Vec<(&str, &str)> = errors
        .iter()
        .map(|error| {
            (
                error["id"].as_str().unwrap(),
                error["message"].as_str().unwrap(),
            )
        })
        .collect();
    for ((id, message), (expected, word)) in found.iter().zip([
        ("unknown", "dataset-run-item-create"),
        ("nameless", "body.id"),
        ("late", "startTime"),
        ("", "must be an object"),
        ("long", "run_id"),
    ]) {
        assert!(*id == expected && message.contains(word), "{id} {message}");
    }
    assert_eq!(found.len(), 5);
    assert_eq!(events(&tier).len(), 1);

    for (body, code) in [
        (json!({"events": []}), "invalid_body"),
        (json!({"batch": 7}), "invalid_body"),
        (json!([]), "invalid_body"),
    ] {
        assert_eq!(
            post(&tier, "/api/public/ingestion", &body).await.error(),
            (400, code),
            "{body}"
        );
    }
    let answer = post(&tier, "/api/public/ingestion", &json!({"batch": []})).await;
    assert_eq!(
        (answer.status, &answer.json),
        (207, &json!({"successes": [], "errors": []}))
    );
    let wrong = ask(&tier, Method::POST, "/api/public/ingestion", "read", &batch).await;
    assert_eq!(wrong.error(), (403, "forbidden"));
}

/// A batch that is sent again after a time-out changes nothing.
#[tokio::test]
async fn a_batch_that_is_sent_again_has_the_same_events() {
    let tier = tier();
    let batch = json!({"batch": [
        item("e-1", "generation-create", json!({"id": "o-1", "traceId": "t-1", "endTime": AT})),
        item("e-2", "score-create", json!({"id": "s-1", "traceId": "t-1", "name": "helpful", "value": 1})),
    ]});
    for _ in 0..2 {
        post(&tier, "/api/public/ingestion", &batch).await;
    }
    let [first, second] = tier.payloads().try_into().unwrap();
    assert_eq!(first, second);
}

/// Without a time of its own a score is given when it arrives: sent again, it is the same mark with a later time.
#[tokio::test]
async fn a_score_that_is_sent_again_waits_under_the_same_name() {
    let tier = tier();
    let score =
        json!({"traceId": "2d711642b726b04401627ca9fbac32f5", "name": "helpful", "value": 1});
    let item = json!({"id": "e-1", "type": "score-create", "body": score});
    for _ in 0..2 {
        post(&tier, "/api/public/ingestion", &json!({"batch": [item]})).await;
        post(&tier, "/api/public/scores", &score).await;
    }
    let sent = events(&tier);
    assert_eq!(sent.len(), 4);
    for event in &sent {
        assert_eq!(event["runId"], sent[0]["runId"]);
    }

    let mut other = score;
    other["value"] = json!(0);
    post(&tier, "/api/public/scores", &other).await;
    assert_ne!(events(&tier)[4]["runId"], sent[0]["runId"]);
    // A score with an id is the same score whatever it says.
    for value in [0, 1] {
        other["id"] = json!("s-1");
        other["value"] = json!(value);
        post(&tier, "/api/public/scores", &other).await;
    }
    let sent = events(&tier);
    assert_eq!(sent[5]["runId"], sent[6]["runId"]);
}

/// Every item that was not kept is among the errors, however many there are and wherever they were rejected.
#[tokio::test]
async fn all_rejected_items_of_a_large_batch_are_listed() {
    let tier = tier();
    let items: Vec<Value> = (0..450)
        .map(|n| {
            let body = match n % 3 {
                // No run may have an id of this length; events are checked after the translation.
                0 => json!({"id": "o".repeat(5000), "name": "late"}),
                1 => json!({"name": "early"}),
                _ => json!({"id": format!("o-{n}"), "name": "kept"}),
            };
            item(&format!("e-{n}"), "span-create", body)
        })
        .collect();
    let answer = post(&tier, "/api/public/ingestion", &json!({"batch": items})).await;
    let ids = |list: &str| -> Vec<String> {
        let list = answer.json[list].as_array().unwrap();
        list.iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let expected = |kept: bool| -> Vec<String> {
        let items = (0..450).filter(|n| (n % 3 == 2) == kept);
        items.map(|n| format!("e-{n}")).collect()
    };
    assert_eq!(ids("successes"), expected(true));
    assert_eq!(ids("errors"), expected(false));
    assert_eq!(events(&tier).len(), 150);

    let scores: Vec<Value> = (0..150)
        .map(|_| json!({"observationId": "o".repeat(5000), "name": "helpful", "value": 1}))
        .collect();
    let answer = post(&tier, "/api/public/scores", &json!(scores)).await;
    assert_eq!(
        (&answer.json["accepted"], &answer.json["rejected"]),
        (&json!(0), &json!(150))
    );
}
