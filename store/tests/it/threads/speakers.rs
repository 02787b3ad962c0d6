//! Agent and user that messages without a thread take from runs, case by case.

use super::cases::{counts, said};
use super::*;

/// A message with neither agent nor user.
fn bare(at: i64, event_id: u128) -> Message {
    Message {
        agent: "",
        user: "",
        ..said(at, event_id)
    }
}

/// A run of the app `shop` with the agent and user that it has itself or from an ancestor.
fn ran<'a>(project: &'a str, run_id: &'a str, version: u64, speaker: [&'a str; 2]) -> RunRow<'a> {
    let [agent, user_email] = speaker;
    RunRow {
        project_id: project,
        agent,
        user_email,
        ..run("shop", run_id, version, NOON_MS)
    }
}

/// Agent, user and number of messages of each thread in a list.
async fn speakers(store: &Store, pairs: &[(&str, &str)]) -> Vec<String> {
    let mut speakers: Vec<String> = list(store, "p", pairs)
        .await
        .iter()
        .map(|thread| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (agent, user) = (text(&thread.agent), text(&thread.user_email));
            format!("{agent} {user} {}", thread.message_count)
        })
        .collect();
    speakers.sort();
    speakers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_takes_agent_and_user_from_its_run_whenever_that_arrives_or_changes() {
    let store = database().await.unwrap();
    write(&store, "p", &[bare(NOON_MS, 1), said(NOON_MS + 1, 2)]).await;
    let apart = list(&store, "p", &[]).await;
    assert_eq!(counts(&apart), [1, 1]);
    let rows = [ran("p", "r", 1, ["clerk", "ada"])];
    store.insert_runs(rows.into_iter()).await.unwrap();
    let question = [("agent", "clerk"), ("user_email", "ada")];
    for pairs in [&question[..], &[]] {
        assert_eq!(speakers(&store, pairs).await, ["clerk ada 2"], "{pairs:?}");
    }
    // Both ids still lead there.
    for thread in &apart {
        let view = view(&store, "p", "shop", &thread.thread_id).await.unwrap();
        let events: Vec<u128> = view.messages.iter().map(|said| said.event_id).collect();
        assert_eq!(events, [1, 2]);
        assert_eq!(view.thread.into_thread().agent.as_deref(), Some("clerk"));
    }
    let rows = [ran("p", "r", 2, ["porter", "ada"])];
    store.insert_runs(rows.into_iter()).await.unwrap();
    assert_eq!(
        speakers(&store, &[]).await,
        ["clerk ada 1", "porter ada 1"],
        "the newest row of the run counts"
    );
    assert_eq!(speakers(&store, &question).await, ["clerk ada 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_and_user_are_each_the_messages_own_first() {
    let store = database().await.unwrap();
    let own_agent = Message {
        user: "",
        ..said(NOON_MS, 1)
    };
    let own_user = Message {
        agent: "",
        ..said(NOON_MS, 2)
    };
    write(&store, "p", &[own_agent, own_user, said(NOON_MS, 3)]).await;
    let rows = [ran("p", "r", 1, ["porter", "bob"])];
    store.insert_runs(rows.into_iter()).await.unwrap();
    assert_eq!(
        speakers(&store, &[]).await,
        ["clerk ada 1", "clerk bob 1", "porter ada 1"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_named_as_parent_counts_where_no_run_has_the_messages_id() {
    let store = database().await.unwrap();
    let message = |event_id: u128, run| Message {
        run,
        parent: "above",
        ..bare(NOON_MS, event_id)
    };
    write(&store, "p", &[message(1, "own-id"), message(2, "r")]).await;
    // Feedback that waits for its run is no run, whatever its row contains.
    let mark = RunRow {
        is_deleted: 1,
        ..ran("p", "own-id", 1, ["mark", "mark"])
    };
    let rows = [
        ran("p", "above", 1, ["clerk", "ada"]),
        ran("p", "r", 1, ["", ""]),
        mark,
    ];
    store.insert_runs(rows.into_iter()).await.unwrap();
    assert_eq!(speakers(&store, &[]).await, ["  1", "clerk ada 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_project_or_app_gives_nothing_t1() {
    let store = database().await.unwrap();
    write(&store, "p", &[bare(NOON_MS, 1)]).await;
    let others = [
        ran("q", "r", 1, ["clerk", "ada"]),
        RunRow {
            app_id: "desk",
            ..ran("p", "r", 1, ["clerk", "ada"])
        },
    ];
    store.insert_runs(others.into_iter()).await.unwrap();
    assert_eq!(speakers(&store, &[]).await, ["  1"]);
    // Nor where a message of the other project takes from it.
    write(&store, "q", &[bare(NOON_MS + 1, 2)]).await;
    let query = ask(&[]);
    let page = store
        .list_threads(&Projects::All, &query, None)
        .await
        .unwrap();
    let threads: Vec<Thread> = page
        .threads
        .into_iter()
        .map(|thread| thread.into_thread())
        .collect();
    let agents: Vec<Option<&str>> = threads
        .iter()
        .map(|thread| thread.agent.as_deref())
        .collect();
    assert_eq!(agents, [Some("clerk"), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_whose_old_messages_alone_take_from_a_run_is_whole() {
    let store = database().await.unwrap();
    // Four days without a pause: the newest messages have agent and user, and the list reads these days first.
    let messages: Vec<Message> = (0..192)
        .map(|n| {
            let at = NOON_MS - n * WINDOW_GAP_MS;
            match n {
                0..96 => said(at, n as u128),
                _ => Message {
                    run: "old",
                    ..bare(at, n as u128)
                },
            }
        })
        .collect();
    write(&store, "p", &messages).await;
    assert_eq!(counts(&list(&store, "p", &[]).await), [96, 96]);
    let rows = [ran("p", "old", 1, ["clerk", "ada"])];
    store.insert_runs(rows.into_iter()).await.unwrap();
    let of_oldest = FeedbackRow {
        project_id: "p",
        app_id: "shop",
        run_id: "old",
        timestamp: NOON_MS,
        event_id: 1,
        rating: "negative",
        comment: "",
    };
    store
        .insert_feedback([of_oldest].into_iter())
        .await
        .unwrap();
    for pairs in [
        &[][..],
        &[("agent", "clerk")],
        &[("feedback", "negative")],
        &[("user_email", "ada"), ("feedback", "any")],
    ] {
        let threads = list(&store, "p", pairs).await;
        assert_eq!(counts(&threads), [192], "{pairs:?}");
        let view = view(&store, "p", "shop", &threads[0].thread_id)
            .await
            .unwrap();
        assert_eq!(view.messages.len(), 192);
    }
}
