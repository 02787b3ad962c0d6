//! Threads of runs case by case.

use serde_json::{Value, json};
use store::tables::rows::EventRow;

use super::cases::{counts, said};
use super::*;

/// A run of the thread `talk` that ended a second after its start.
fn turn(run_id: &'static str, at: i64) -> RunRow<'static> {
    RunRow {
        project_id: "p",
        thread_id: "talk",
        turn_at: at + 1000,
        latency_ms: Some(1000),
        input_preview: "why?",
        output_preview: "because",
        total_tokens_with_children: 10,
        ..run("shop", run_id, 2, at)
    }
}

async fn write_turns(store: &Store, turns: Vec<RunRow<'static>>) {
    store.insert_runs(turns.into_iter()).await.unwrap();
}

/// The events of a run: input at its start, output at its end.
async fn write_events(store: &Store, run: &RunRow<'static>, input: &Value, output: &Value) {
    let event = |name: &str, key: &str, value: &Value, at: i64| {
        let event =
            json!({"name": name, "run_id": run.run_id, "timestamp": at, key: value}).to_string();
        (at, event)
    };
    let events = [
        event("agent_start", "input", input, run.first_event_at),
        event("agent_end", "output", output, run.last_event_at),
    ];
    let rows = events.iter().enumerate().map(|(id, (at, event))| EventRow {
        project_id: run.project_id,
        app_id: run.app_id,
        timestamp: *at,
        run_id: run.run_id,
        event_id: id as u128,
        name: "agent",
        payload: event.as_bytes(),
        received_at: *at,
        stored_at: *at,
    });
    store.insert_events(rows).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_with_messages_shows_these_alone_and_its_runs_give_the_totals() {
    let store = database().await.unwrap();
    write_turns(
        &store,
        vec![turn("r1", NOON_MS), turn("r2", NOON_MS + 5000)],
    )
    .await;
    let listed = list(&store, "p", &[]).await;
    assert_eq!(counts(&listed), [4]);
    assert_eq!(listed[0].preview.as_deref(), Some("because"));
    assert_eq!(listed[0].ended_at.0, NOON_MS + 6000);
    let message = Message {
        thread: "talk",
        ..said(NOON_MS + 10, 7)
    };
    write(&store, "p", &[message]).await;
    for pairs in [&[][..], &[("limit", "1")], &[("agent", "clerk")]] {
        let listed = list(&store, "p", pairs).await;
        assert_eq!(counts(&listed), [1], "{pairs:?}");
        assert_eq!(listed[0].ended_at.0, NOON_MS + 10);
        assert_eq!(listed[0].total_tokens, 20);
    }
    let by_run = list(&store, "p", &[("agent", "scout")]).await;
    assert!(by_run.is_empty(), "its messages name another agent");
    let view = view(&store, "p", "shop", "talk").await.unwrap();
    assert_eq!(view.messages.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_runs_of_other_projects_and_apps_stay_apart_t1() {
    let store = database().await.unwrap();
    let other_app = RunRow {
        app_id: "desk",
        ..turn("r", NOON_MS + 60_000)
    };
    let other_project = RunRow {
        project_id: "q",
        ..turn("r", NOON_MS + 120_000)
    };
    let turns = vec![turn("r", NOON_MS), other_app, other_project];
    write_turns(&store, turns).await;
    let listed = list(&store, "p", &[]).await;
    let apps: Vec<&str> = listed.iter().map(|thread| thread.app_id.as_str()).collect();
    assert_eq!(apps, ["desk", "shop"]);
    assert_eq!(counts(&listed), [2, 2]);
    assert!(listed.iter().all(|thread| thread.total_tokens == 10));
    let name = ThreadName {
        app_id: None,
        thread_id: "talk",
        grouped_by: None,
    };
    let newest = store.thread(&only("p"), name).await.unwrap().unwrap();
    assert_eq!(newest.also_in_apps, ["shop"]);
    assert_eq!(newest.messages[0].timestamp, NOON_MS + 60_000);
    assert!(store.thread(&only("x"), name).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_in_a_turn_comes_from_its_events_whatever_their_shape() {
    let store = database().await.unwrap();
    let long = "because ".repeat(50);
    let output = json!({"answer": long, "sources": ["s"]});
    let cut: &'static str = Box::leak(output.to_string()[..160].to_owned().into_boxed_str());
    let first = RunRow {
        output_preview: cut,
        ..turn("r1", NOON_MS)
    };
    let running = RunRow {
        latency_ms: None,
        turn_at: NOON_MS + 60_000,
        output_preview: "",
        input_preview: r#"{"question":"and now?"}"#,
        ..turn("r2", NOON_MS + 60_000)
    };
    let history = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "why?"}]}]);
    write_events(&store, &first, &history, &output).await;
    write_turns(&store, vec![first]).await;
    let listed = list(&store, "p", &[]).await;
    let preview = listed[0].preview.as_deref().unwrap();
    assert_eq!(
        preview,
        &long[..160],
        "the beginning of its JSON says little"
    );
    write_events(
        &store,
        &running,
        &json!({"question": "and now?"}),
        &Value::Null,
    )
    .await;
    write_turns(&store, vec![running]).await;
    let listed = list(&store, "p", &[]).await;
    assert_eq!(listed[0].preview.as_deref(), Some("and now?"));
    assert_eq!(counts(&listed), [3]);
    let view = view(&store, "p", "shop", "talk").await.unwrap();
    let said: Vec<(&str, &str, i64)> = view
        .messages
        .iter()
        .map(|said| {
            (
                said.role.as_str(),
                said.content.as_str(),
                said.timestamp - NOON_MS,
            )
        })
        .collect();
    let expected = [
        ("user", "why?", 0),
        ("assistant", long.as_str(), 1000),
        ("user", "and now?", 60_000),
    ];
    assert_eq!(said, expected);
    let ids: BTreeSet<u128> = view.messages.iter().map(|said| said.event_id).collect();
    assert_eq!(ids.len(), 3, "each has an identity of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_an_earlier_version_is_no_turn_and_still_counts() {
    let store = database().await.unwrap();
    let earlier = RunRow {
        turn_at: store::tables::rows::TURN_UNKNOWN,
        ..turn("r", NOON_MS)
    };
    write_turns(&store, vec![earlier]).await;
    assert!(list(&store, "p", &[]).await.is_empty());
    let message = Message {
        thread: "talk",
        run: "other",
        ..said(NOON_MS + 10, 7)
    };
    write(&store, "p", &[message]).await;
    assert_eq!(list(&store, "p", &[]).await[0].total_tokens, 10);
}
