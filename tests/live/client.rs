//! The Rust client against the real binary: what a program reports is what people read.

use std::time::Duration;

use serde_json::{Value, json};
use spindle_client::{Client, Rating, Role, Settings, Tokens};

use crate::harness::{Setup, VISIBLE_WITHIN};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_reports_through_the_rust_client_is_what_people_read() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let client = Client::start(Settings {
        url: server.url.clone(),
        api_key: Some(server.key.clone()),
        app_id: Some("rust".to_owned()),
        flush_interval: Duration::from_millis(20),
        ..Settings::default()
    })
    .unwrap();
    let run = client
        .agent("clerk")
        .input(json!({"question": "where?"}))
        .user("ann@example.com")
        .tag("v1")
        .start();
    let call = run.llm("gpt-4o-mini").input("where?").start();
    let (run_id, call_id) = (run.id().to_owned(), call.id().to_owned());
    call.tokens(Tokens::new(812, 203)).end("here");
    let failed: Result<(), String> = run
        .tool("look_up")
        .observe(async |_| Err("no such order".to_owned()))
        .await;
    assert!(failed.is_err());
    run.end("here");
    let asked = client.chat(Role::User, "where?").thread("talk").send();
    client.chat(Role::Assistant, "here").thread("talk").send();
    client.feedback(&run_id, Rating::Positive, Some("quick"));
    client.feedback(&asked, Rating::Negative, None);
    client.saved(&run_id);
    let stats = client.close().await;
    let told = (stats.queued, stats.sent, stats.accepted, stats.rejected);
    assert_eq!(told, (11, 11, 11, 0), "{stats:?}");

    let path = format!("/api/run/{run_id}?app_id=rust");
    let whole = server
        .until("the run is whole", VISIBLE_WITHIN, async || {
            let (_, run) = server.get(&path).await;
            let is_whole = run["saved"] == true
                && run["feedback"]["rating"] == "positive"
                && run["total_prompt_tokens"] == 812
                && run["error_count"] == 1;
            is_whole.then_some(run)
        })
        .await;
    let seen = ["name", "type", "status", "user_email", "tags", "output"].map(|name| &whole[name]);
    let expected = [
        json!("clerk"),
        json!("agent"),
        json!("success"),
        json!("ann@example.com"),
        json!(["v1"]),
        json!("here"),
    ];
    assert_eq!(seen.map(Value::clone), expected);
    let (_, call) = server.get(&format!("/api/run/{call_id}?app_id=rust")).await;
    let seen = (&call["model"], &call["parent_run_id"], &call["cost_status"]);
    let expected = (&json!("gpt-4o-mini"), &json!(run_id), &json!("priced"));
    assert_eq!(seen, expected);
    let thread = server
        .until("the thread is whole", VISIBLE_WITHIN, async || {
            let (_, thread) = server.get("/api/thread/talk?app_id=rust").await;
            let messages = thread["messages"].as_array()?.clone();
            let is_judged = messages.first()?["feedback"]["rating"] == "negative";
            (messages.len() == 2 && is_judged).then_some(messages)
        })
        .await;
    assert_eq!(thread[1]["content"], "here");
}
