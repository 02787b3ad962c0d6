//! Runs, messages and feedback, as they arrive at the server.

use serde_json::{Value, json};
use spindle_client::{Client, ErrorInfo, Kind, Rating, Role, Tokens};

use crate::server::Server;

/// How the library names itself in runs without a parent.
const NAME: &str = concat!("spindle-client-rust/", env!("CARGO_PKG_VERSION"));

/// The reported events, without identities and times.
async fn told(work: impl AsyncFnOnce(&Client)) -> Vec<Value> {
    let server = Server::start(&[]).await;
    let client = Client::start(server.settings()).unwrap();
    work(&client).await;
    client.close().await;
    let mut events = server.events();
    for event in &mut events {
        let event = event.as_object_mut().unwrap();
        assert!(event.remove("event_id").unwrap().is_string());
        assert!(event.remove("timestamp").unwrap().is_string());
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_its_steps_is_told_as_it_goes() {
    let events = told(async |client| {
        let run = client
            .agent("clerk")
            .id("r")
            .app("shop")
            .input(json!({"q": 1}))
            .user("ann@example.com")
            .thread("t")
            .tag("v1")
            .metadata("region", "eu")
            .start();
        let call = run.llm("gpt-4o-mini").id("c").input("q").start();
        let tokens = Tokens {
            cache_write: Some(1),
            requests: Some(2),
            ..Tokens::new(3, 4)
        };
        let call = call.tokens(tokens).served_by("gpt-4o-mini-2024");
        let call = call.service_tier("flex").cost(0.5).estimated_cost(0.25);
        call.response_id("resp_1").end("a");
        run.chain("").id("n").acting("helper").start().fail("no");
        run.end(json!([1, 2]));
    })
    .await;
    let expected = [
        json!({"name": "clerk_start", "type": "agent", "run_id": "r", "app_id": "shop", "input": {"q": 1},
            "user_email": "ann@example.com", "thread_id": "t", "tags": ["v1"], "metadata": {"region": "eu", "spindle_client": NAME}}),
        json!({"name": "gpt-4o-mini_start", "type": "llm", "run_id": "c", "parent_run_id": "r", "app_id": "shop",
            "model": "gpt-4o-mini", "input": "q"}),
        json!({"name": "gpt-4o-mini_end", "type": "llm", "run_id": "c", "app_id": "shop", "model": "gpt-4o-mini-2024",
            "prompt_tokens": 3, "completion_tokens": 4, "cache_write_tokens": 1, "requests": 2, "service_tier": "flex",
            "cost": 0.5, "estimated_cost": 0.25, "response_id": "resp_1", "output": "a"}),
        json!({"name": "chain_start", "type": "chain", "run_id": "n", "parent_run_id": "r", "app_id": "shop",
            "agent": "helper"}),
        json!({"name": "chain_error", "type": "chain", "run_id": "n", "app_id": "shop", "error": {"message": "no"}}),
        json!({"name": "clerk_end", "type": "agent", "run_id": "r", "app_id": "shop", "output": [1, 2]}),
    ];
    assert_eq!(events, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_left_or_panics_ends_as_failed() {
    let events = told(async |client| {
        drop(client.tool("left").id("l").start());
        let inside = client.clone();
        let panicked = tokio::spawn(async move {
            let _run = inside.tool("broken").id("b").start();
            panic!("a test");
        });
        assert!(panicked.await.is_err());
        let own = ErrorInfo {
            name: Some("Timeout".to_owned()),
            message: "late".to_owned(),
            stack: None,
        };
        client.agent("").start().fail_with(own);
    })
    .await;
    let errors: Vec<&Value> = events
        .iter()
        .map(|event| &event["error"]["name"])
        .filter(|name| name.is_string())
        .collect();
    assert_eq!(errors, ["Unfinished", "Panic", "Timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_observed_ends_its_run_with_what_came_of_it() {
    let events = told(async |client| {
        let done: Result<u32, String> = client
            .agent("outer")
            .observe(async |run| {
                let inner = run.child(Kind::Tool, "inner");
                inner
                    .observe_blocking(|_| Err::<(), _>("no".to_owned()))
                    .ok();
                Ok(7)
            })
            .await;
        assert_eq!(done, Ok(7));
    })
    .await;
    let names: Vec<&Value> = events.iter().map(|event| &event["name"]).collect();
    assert_eq!(
        names,
        ["outer_start", "inner_start", "inner_error", "outer_end"]
    );
    assert_eq!(events[1]["parent_run_id"], events[0]["run_id"]);
    assert_eq!(
        (&events[2]["error"]["message"], &events[3]["output"]),
        (&json!("no"), &json!(7))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_say_and_find_is_told() {
    let events = told(async |client| {
        let chat = client
            .chat(Role::User, "why?")
            .thread("t")
            .agent("a")
            .user("u");
        let id = chat.tag("x").send();
        client.chat(Role::Assistant, "because").of_run("r").send();
        client.feedback(&id, Rating::Negative, Some("no"));
        client.feedback("r", Rating::Positive, None);
        client.saved("r");
        client.unsaved("r");
    })
    .await;
    let id = events[0]["run_id"].clone();
    let expected = [
        json!({"name": "chat", "run_id": id, "role": "user", "content": "why?", "thread_id": "t", "agent": "a",
            "user_email": "u", "tags": ["x"]}),
        json!({"name": "chat", "run_id": "r", "role": "assistant", "content": "because"}),
        json!({"name": "feedback", "run_id": id, "rating": "negative", "comment": "no"}),
        json!({"name": "feedback", "run_id": "r", "rating": "positive"}),
        json!({"name": "saved", "run_id": "r"}),
        json!({"name": "unsaved", "run_id": "r"}),
    ];
    assert_eq!(events, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_parent_keeps_what_it_says_of_the_library() {
    let events = told(async |client| {
        let mut call = client.llm("m").metadata("spindle_client", "own").start();
        call.first_token();
        call.end("a");
        client.llm("n").start().end("b");
    })
    .await;
    assert_eq!(events[0]["metadata"], json!({"spindle_client": "own"}));
    assert!(events[1]["ttft_ms"].is_u64(), "{events:?}");
    assert_eq!(events[2]["metadata"], json!({"spindle_client": NAME}));
    assert_eq!(events[3].get("ttft_ms"), None);
}
