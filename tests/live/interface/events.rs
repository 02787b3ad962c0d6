//! Section 6.2 of the interface: what the custom events need and do, and which run or thread they belong to.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

fn with(mut event: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().expect("fields") {
        event[key] = value.clone();
    }
    event
}

/// An event with exactly these fields beside its name and its time.
fn bare(name: &str, at_ms: i64, fields: Value) -> Value {
    let timestamp = event("", "", name, at_ms)["timestamp"].take();
    with(json!({"name": name, "timestamp": timestamp}), fields)
}

/// A message with the fields of the interface and these.
fn chat(role: &str, content: &str, at_ms: i64, fields: Value) -> Value {
    let message = bare("chat", at_ms, json!({"role": role, "content": content}));
    with(message, fields)
}

/// A sentence, the events of one report, and what a page shows afterwards, by JSON pointers.
struct Row {
    sentence: &'static str,
    events: Vec<Value>,
    path: &'static str,
    shows: Vec<(&'static str, Value)>,
}

fn row(
    sentence: &'static str,
    events: Vec<Value>,
    path: &'static str,
    shows: Vec<(&'static str, Value)>,
) -> Row {
    Row {
        sentence,
        events,
        path,
        shows,
    }
}

fn marks() -> Vec<Row> {
    let start = |run: &str| event("shop", run, "agent_start", 1000);
    let on = |run: &str| json!({"run_id": run});
    vec![
        row(
            "saved needs run_id only, and applies to the run in its app",
            vec![start("s1"), bare("saved", 2000, on("s1"))],
            "/api/run/s1",
            vec![("/saved", json!(true)), ("/app_id", json!("shop"))],
        ),
        row(
            "a mark may come before its run",
            vec![bare("saved", 2000, on("s2")), start("s2")],
            "/api/run/s2",
            vec![("/saved", json!(true)), ("/app_id", json!("shop"))],
        ),
        row(
            "unsaved takes it back",
            vec![
                start("s3"),
                bare("saved", 2000, on("s3")),
                bare("unsaved", 3000, on("s3")),
                bare(
                    "feedback",
                    3000,
                    json!({"run_id": "s3", "rating": "positive"}),
                ),
            ],
            "/api/run/s3",
            vec![
                ("/saved", json!(false)),
                ("/feedback/rating", json!("positive")),
            ],
        ),
        row(
            "feedback has run_id, rating and comment, and shows beside the run",
            vec![
                start("f1"),
                bare(
                    "feedback",
                    2000,
                    json!({"run_id": "f1", "rating": "negative", "comment": "no"}),
                ),
            ],
            "/api/run/f1",
            vec![
                ("/feedback/rating", json!("negative")),
                ("/feedback/comment", json!("no")),
                ("/app_id", json!("shop")),
            ],
        ),
        row(
            "a closing event without app_id closes the run in the app of its start",
            vec![start("e1"), bare("agent_end", 2500, on("e1"))],
            "/api/run/e1",
            vec![
                ("/status", json!("success")),
                ("/latency_s", json!(1.5)),
                ("/app_id", json!("shop")),
                ("/also_in_apps", Value::Null),
            ],
        ),
        row(
            "a saved, feedback or chat event never moves the start or the end of a run",
            vec![
                bare("saved", 0, on("m1")),
                bare("agent_start", 1000, on("m1")),
                bare("agent_end", 2500, on("m1")),
                bare("unsaved", 9000, on("m1")),
                bare(
                    "feedback",
                    9000,
                    json!({"run_id": "m1", "rating": "positive"}),
                ),
                chat("user", "late", 9000, on("m1")),
            ],
            "/api/run/m1",
            vec![
                ("/latency_s", json!(1.5)),
                ("/started_at", bare("", 1000, json!({}))["timestamp"].take()),
                ("/ended_at", bare("", 2500, json!({}))["timestamp"].take()),
                ("/feedback/rating", json!("positive")),
            ],
        ),
    ]
}

fn messages() -> Vec<Row> {
    let minutes = |count: i64| count * 60_000;
    let ada = |agent: &str| json!({"agent": agent, "user_email": "ada@example.com"});
    let in_shop = |fields: Value| with(fields, json!({"app_id": "shop"}));
    vec![
        row(
            "chat needs role, content and thread_id: it is its own message",
            vec![
                chat("user", "hello", 0, json!({"thread_id": "t1"})),
                chat("assistant", "hi", 1, json!({"thread_id": "t1"})),
            ],
            "/api/thread/t1",
            vec![
                ("/message_count", json!(2)),
                ("/messages/0/role", json!("user")),
                ("/messages/1/content", json!("hi")),
                ("/messages/1/run", Value::Null),
            ],
        ),
        row(
            "without thread_id, messages are grouped by agent plus user within 30 minutes",
            vec![
                chat("user", "1", 0, ada("window")),
                chat("assistant", "2", minutes(30), ada("window")),
                chat("user", "other user", 1, json!({"agent": "window"})),
                chat("user", "3", minutes(61), ada("window")),
            ],
            "/api/thread/?agent=window",
            vec![
                ("/data/0/message_count", json!(1)),
                ("/data/1/message_count", json!(2)),
                ("/data/1/grouped_by", json!("window")),
                ("/data/2/user_email", Value::Null),
                ("/data/3", Value::Null),
            ],
        ),
        row(
            "a message without agent and user is grouped by agent and user of its run or the nearest ancestor",
            vec![
                chat("user", "1", 0, in_shop(json!({"run_id": "step"}))),
                chat("assistant", "2", minutes(20), in_shop(ada("resolved"))),
                chat(
                    "user",
                    "3",
                    minutes(40),
                    in_shop(json!({"parent_run_id": "step"})),
                ),
                with(
                    event("shop", "step", "tool_start", 2000),
                    json!({"parent_run_id": "boss"}),
                ),
                with(event("shop", "boss", "agent_start", 1000), ada("resolved")),
            ],
            "/api/thread/?agent=resolved&user_email=ada@example.com",
            vec![
                ("/data/0/message_count", json!(3)),
                ("/data/0/grouped_by", json!("window")),
                ("/data/0/agent", json!("resolved")),
                ("/data/0/user_email", json!("ada@example.com")),
                ("/data/1", Value::Null),
            ],
        ),
        row(
            "a message inherits a thread from nothing but its own fields",
            vec![
                chat(
                    "user",
                    "named",
                    0,
                    with(
                        ada("inherits"),
                        json!({"run_id": "shared", "thread_id": "t3"}),
                    ),
                ),
                chat(
                    "assistant",
                    "alone",
                    1,
                    with(ada("inherits"), json!({"run_id": "shared"})),
                ),
            ],
            "/api/thread/?agent=inherits",
            vec![
                ("/data/0/grouped_by", json!("window")),
                ("/data/0/message_count", json!(1)),
                ("/data/1/thread_id", json!("t3")),
                ("/data/1/message_count", json!(1)),
            ],
        ),
    ]
}

async fn shows(server: &Server, row: &Row) {
    server
        .until(row.sentence, VISIBLE_WITHIN, async || {
            let (_, page) = server.get(row.path).await;
            let mut shown = row.shows.iter();
            let is_shown = shown.all(|(pointer, expected)| {
                page.pointer(pointer).unwrap_or(&Value::Null) == expected
            });
            // An error has none of the fields that must be absent.
            (is_shown && page.get("error").is_none_or(|error| error.is_null())).then_some(())
        })
        .await;
}

/// The warnings of the answer.
async fn report(server: &Server, events: &[Value]) -> Value {
    let answer = server.report(events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["accepted"], json!(events.len()), "{answer}");
    answer["warnings"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_events_need_the_documented_fields_and_find_their_runs_and_threads() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    for row in marks().iter().chain(&messages()) {
        assert_eq!(
            report(&server, &row.events).await,
            Value::Null,
            "{}",
            row.sentence
        );
    }
    for row in marks().iter().chain(&messages()) {
        shows(&server, row).await;
    }
    // Feedback on a message: a message without a run has an id of its own.
    let (_, thread) = server.get("/api/thread/t1").await;
    let id = &thread["messages"][1]["run_id"];
    let rated = bare("feedback", 9, json!({"run_id": id, "rating": "positive"}));
    report(&server, &[rated]).await;
    let on_the_message = row(
        "feedback shows on the message in the threads view",
        Vec::new(),
        "/api/thread/t1",
        vec![
            ("/messages/0/feedback", Value::Null),
            ("/messages/1/feedback/rating", json!("positive")),
        ],
    );
    shows(&server, &on_the_message).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_apps_with_one_run_id_a_mark_applies_to_the_newest_run_and_the_answer_says_so() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let runs = [("shop", 1000), ("desk", 2000)]
        .map(|(app, at_ms)| event(app, "twice", "agent_start", at_ms));
    report(&server, &runs).await;
    let both = row(
        "both runs are stored",
        Vec::new(),
        "/api/run/twice",
        vec![
            ("/app_id", json!("desk")),
            ("/also_in_apps/0", json!("shop")),
        ],
    );
    shows(&server, &both).await;
    let saved = bare("saved", 3000, json!({"run_id": "twice"}));
    // A look-up that takes too long on a busy machine is given up: then the event is sent again.
    let warnings = server
        .until("the answer names both apps", VISIBLE_WITHIN, async || {
            let warnings = report(&server, std::slice::from_ref(&saved)).await;
            (!warnings.is_null()).then_some(warnings)
        })
        .await;
    assert_eq!(warnings[0]["field"], json!("run_id"), "{warnings}");
    let reason = warnings[0]["reason"].as_str().unwrap();
    assert!(reason.contains("in `desk`"), "{reason}");
    for (path, saved) in [
        ("/api/run/twice?app_id=desk", true),
        ("/api/run/twice?app_id=shop", false),
    ] {
        let sentence = "the newest run is saved";
        let row = row(sentence, Vec::new(), path, vec![("/saved", json!(saved))]);
        shows(&server, &row).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_and_an_end_find_their_run_in_its_app_after_a_restart() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let runs = ["marked", "ended"].map(|run| event("shop", run, "agent_start", 1000));
    report(&server, &runs).await;
    for path in ["/api/run/marked", "/api/run/ended"] {
        let stored = row("stored", Vec::new(), path, vec![("/app_id", json!("shop"))]);
        shows(&server, &stored).await;
    }
    server.kill();
    let server = setup.start_ready().await;
    let events = [
        bare("saved", 2000, json!({"run_id": "marked"})),
        bare("agent_end", 2000, json!({"run_id": "ended"})),
    ];
    // The process has received no event of the app since it started, and looks the runs up. Sent again, as above.
    server
        .until(
            "both runs are found in the tables",
            VISIBLE_WITHIN,
            async || {
                report(&server, &events).await;
                let (_, marked) = server.get("/api/run/marked?app_id=shop").await;
                let (_, ended) = server.get("/api/run/ended?app_id=shop").await;
                (marked["saved"] == true && ended["status"] == "success").then_some(())
            },
        )
        .await;
}

/// A score of Langfuse's SDKs names a trace, and its spans may come later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_of_a_trace_is_feedback_on_its_root_once_that_is_there() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let trace = "5b8efff798038103d269b633813fc60c";
    let score = json!({"traceId": trace, "name": "helpful", "value": 1, "comment": "thanks"});
    let scored = async |score: &Value| {
        server
            .ask(
                Method::POST,
                &server.key,
                "/api/public/scores",
                Some(score.clone()),
            )
            .await
    };
    let (status, answer) = scored(&score).await;
    assert_eq!(status, 200, "{answer}");
    server
        .until("the score waits", VISIBLE_WITHIN, async || {
            (waiting(&server).await["runs"] == 1).then_some(())
        })
        .await;
    let now_ns = chrono::Utc::now().timestamp_nanos_opt().unwrap();
    let span = |id: &str, parent: &str, app: &str| {
        json!({"traceId": trace, "spanId": id, "parentSpanId": parent, "name": "step",
            "startTimeUnixNano": now_ns.to_string(), "endTimeUnixNano": (now_ns + 1_000_000).to_string(),
            "attributes": [{"key": "spindle.app_id", "value": {"stringValue": app}}]})
    };
    let spans = [
        span("00000000000000a2", "00000000000000a1", "shop"),
        span("00000000000000a1", "", "shop"),
    ];
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    let (status, answer) = server
        .ask(Method::POST, &server.key, "/v1/traces", Some(body))
        .await;
    assert_eq!(status, 200, "{answer}");
    let shown = row(
        "the root has the rating",
        Vec::new(),
        "/api/run/00000000000000a1",
        vec![
            ("/app_id", json!("shop")),
            ("/feedback/rating", json!("positive")),
            ("/feedback/comment", json!("helpful = 1: thanks")),
        ],
    );
    shows(&server, &shown).await;
    // A later one finds the root at the next look, and a score on no scale of thumbs leaves the rating.
    let (status, answer) =
        scored(&json!({"traceId": trace, "name": "novelty", "value": 0.9})).await;
    assert_eq!(status, 200, "{answer}");
    server
        .until("both are in the history", VISIBLE_WITHIN, async || {
            let (_, run) = server.get("/api/run/00000000000000a1").await;
            let comments = run["feedback_history"].to_string();
            let is_there =
                comments.contains("novelty = 0.9") && run["feedback"]["rating"] == "positive";
            is_there.then_some(())
        })
        .await;
    let (_, child) = server.get("/api/run/00000000000000a2").await;
    assert_eq!(child["feedback"], Value::Null);
}

/// What `/api/internal/pipeline` says of marks that wait.
async fn waiting(server: &Server) -> Value {
    let (_, mut pipeline) = server.get_as(&server.token, "/api/internal/pipeline").await;
    pipeline["waiting_marks"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_comes_before_its_run_of_another_app_is_visible_and_placed_when_the_run_is_there()
 {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let early = [
        bare("saved", 2000, json!({"run_id": "early"})),
        bare(
            "feedback",
            3000,
            json!({"run_id": "early", "rating": "negative"}),
        ),
        // The message is reported later too.
        bare(
            "feedback",
            3000,
            json!({"run_id": "said", "rating": "positive"}),
        ),
        // This one names its app, and waits there.
        bare("saved", 1000, json!({"run_id": "named", "app_id": "desk"})),
    ];
    report(&server, &early).await;
    let oldest_at = bare("", 1000, json!({}))["timestamp"].take();
    let expected = json!({"runs": 3, "oldest_at": oldest_at});
    server
        .until(
            "three ids have marks that wait",
            VISIBLE_WITHIN,
            async || (waiting(&server).await == expected).then_some(()),
        )
        .await;
    let later = [
        event("shop", "early", "agent_start", 1000),
        event("shop", "named", "agent_start", 1000),
        chat(
            "assistant",
            "so",
            1500,
            json!({"app_id": "shop", "run_id": "said", "thread_id": "t9"}),
        ),
    ];
    report(&server, &later).await;
    let shown = row(
        "marks are placed in the app of their run",
        Vec::new(),
        "/api/run/early",
        vec![
            ("/app_id", json!("shop")),
            ("/saved", json!(true)),
            ("/feedback/rating", json!("negative")),
        ],
    );
    shows(&server, &shown).await;
    let shown = row(
        "and on messages",
        Vec::new(),
        "/api/thread/t9",
        vec![("/messages/0/feedback/rating", json!("positive"))],
    );
    shows(&server, &shown).await;
    let expected = json!({"runs": 1, "oldest_at": oldest_at});
    server
        .until(
            "the one that names its app waits",
            VISIBLE_WITHIN,
            async || (waiting(&server).await == expected).then_some(()),
        )
        .await;
    let (_, named) = server.get("/api/run/named").await;
    assert_eq!(named["saved"], json!(false), "{named}");
    assert!(server.metric("spindle_processor_late_marks_total").await >= 3.0);
    assert_eq!(server.metric("spindle_processor_waiting_marks").await, 1.0);
}
