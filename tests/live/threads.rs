//! Conversations from the report to the thread, in both dialects.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Setup, VISIBLE_WITHIN, event};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_and_feedback_of_both_dialects_become_threads() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let chat = |run: &str, role: &str, at: i64| {
        let mut chat = event("talk", run, "chat", at);
        chat["role"] = json!(role);
        chat["content"] = json!(format!("{role} says this"));
        chat["user_email"] = json!("ada@example.com");
        chat
    };
    let mut judged = event("talk", "r", "feedback", 60_000);
    judged["rating"] = json!("negative");
    let ours = [
        chat("r", "user", 0),
        chat("r", "assistant", 1_800_000),
        judged,
    ];
    // The answer before its question, as after a batch that was sent again.
    let at = ours[0]["timestamp"].clone();
    let old = [
        json!({"type": "chat", "event": "end", "runId": "m", "app": "talk", "timestamp": at, "output": "Yes."}),
        json!({"type": "chat", "event": "start", "runId": "m", "parentRunId": "thread-7", "app": "talk", "timestamp": at, "input": "Is it?"}),
        json!({"type": null, "event": "feedback", "runId": "m", "app": "talk", "timestamp": at, "extra": {"thumb": "up"}}),
    ];
    for events in [&ours[..], &old[..], &old[..]] {
        let answer = server.report(events).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["accepted"], json!(3), "{answer}");
    }
    let threads = server
        .until("both threads are whole", VISIBLE_WITHIN, async || {
            let (_, page) = server.get("/api/thread?app_id=talk&feedback=any").await;
            let threads = page["data"].as_array()?.clone();
            let is_whole = |thread: &Value| thread["message_count"] == json!(2);
            (threads.len() == 2 && threads.iter().all(is_whole)).then_some(threads)
        })
        .await;
    assert_eq!(
        (&threads[0]["grouped_by"], &threads[1]["thread_id"]),
        (&json!("window"), &json!("thread-7"))
    );
    let (status, thread) = server.get("/api/thread/thread-7").await;
    assert_eq!(status, StatusCode::OK, "{thread}");
    let said: Vec<(&Value, &Value, &Value)> = thread["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| (&said["role"], &said["content"], &said["feedback"]["rating"]))
        .collect();
    assert_eq!(said.len(), 2);
    assert!(said.contains(&(&json!("assistant"), &json!("Yes."), &json!("positive"))));
    assert!(said.contains(&(&json!("user"), &json!("Is it?"), &Value::Null)));
}
