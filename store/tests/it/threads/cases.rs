//! Threads case by case.

use super::*;

pub(super) fn said(at: i64, event_id: u128) -> Message {
    Message {
        at,
        event_id,
        app: "shop",
        run: "r",
        parent: "",
        thread: "",
        inherits: true,
        agent: "clerk",
        user: "ada",
    }
}

pub(super) fn counts(threads: &[Thread]) -> Vec<u64> {
    threads.iter().map(|thread| thread.message_count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_exactly_thirty_minutes_is_inside_and_a_millisecond_more_is_not() {
    let store = database().await.unwrap();
    let at = [0, WINDOW_GAP_MS, 2 * WINDOW_GAP_MS + 1, 3 * WINDOW_GAP_MS];
    let messages: Vec<Message> = (0..4)
        .map(|n| said(NOON_MS + 7 + at[n], n as u128))
        .collect();
    write(&store, "p", &messages).await;
    assert_eq!(counts(&list(&store, "p", &[]).await), [2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_message_that_bridges_two_windows_makes_them_one_and_both_ids_lead_to_it() {
    let store = database().await.unwrap();
    let (early, late) = (said(NOON_MS, 1), said(NOON_MS + 50 * 60_000, 2));
    write(&store, "p", &[late.clone(), early.clone()]).await;
    let before = list(&store, "p", &[]).await;
    assert_eq!(counts(&before), [1, 1]);
    write(&store, "p", &[said(NOON_MS + 25 * 60_000, 3)]).await;
    let after = list(&store, "p", &[]).await;
    assert_eq!(counts(&after), [3]);
    assert_eq!(
        after[0].thread_id, before[1].thread_id,
        "named by its first message"
    );
    for id in [&before[0].thread_id, &before[1].thread_id] {
        let view = view(&store, "p", "shop", id).await.unwrap();
        let events: Vec<u128> = view.messages.iter().map(|said| said.event_id).collect();
        assert_eq!(events, [1, 3, 2]);
    }
    // And one that extends it backwards: a new id, and the old one still leads there.
    write(&store, "p", &[said(NOON_MS - 60_000, 4)]).await;
    let extended = list(&store, "p", &[]).await;
    assert_eq!(counts(&extended), [4]);
    assert_ne!(extended[0].thread_id, after[0].thread_id);
    let view = view(&store, "p", "shop", &after[0].thread_id)
        .await
        .unwrap();
    assert_eq!(view.thread.into_thread(), extended[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_belongs_to_the_thread_of_its_question_even_when_it_came_first() {
    let store = database().await.unwrap();
    write(&store, "p", &[said(NOON_MS + 5, 2)]).await;
    let alone = list(&store, "p", &[]).await;
    assert_eq!(alone[0].grouped_by, GroupedBy::Window);
    let question = Message {
        thread: "talk",
        agent: "",
        ..said(NOON_MS, 1)
    };
    write(&store, "p", &[question]).await;
    let threads = list(&store, "p", &[]).await;
    assert_eq!(counts(&threads), [2]);
    assert_eq!(
        (threads[0].thread_id.as_str(), threads[0].agent.as_deref()),
        ("talk", Some("clerk"))
    );
    let old = view(&store, "p", "shop", &alone[0].thread_id)
        .await
        .unwrap();
    assert_eq!(old.thread.into_thread(), threads[0]);
    // Of a run with two threads to inherit, the earliest message decides.
    let other = Message {
        thread: "later",
        ..said(NOON_MS + 1, 3)
    };
    write(&store, "p", &[other]).await;
    let mut threads = list(&store, "p", &[]).await;
    threads.sort_by(|left, right| left.thread_id.cmp(&right.thread_id));
    assert_eq!(counts(&threads), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_documented_dialect_takes_a_thread_from_its_own_fields_only() {
    let store = database().await.unwrap();
    let own = |at, event_id, thread| Message {
        inherits: false,
        thread,
        ..said(at, event_id)
    };
    let messages = [own(NOON_MS, 1, "talk"), own(NOON_MS + 1, 2, "")];
    write(&store, "p", &messages).await;
    let threads = list(&store, "p", &[]).await;
    assert_eq!(counts(&threads), [1, 1]);
    assert_eq!(threads[0].grouped_by, GroupedBy::Window);
    let window = view(&store, "p", "shop", &threads[0].thread_id).await;
    assert_eq!(window.unwrap().messages[0].event_id, 2);
    // The answer of an old client beside them still belongs to the thread of its question.
    write(&store, "p", &[said(NOON_MS + 2, 3)]).await;
    let mut threads = list(&store, "p", &[]).await;
    threads.sort_by_key(|thread| thread.message_count);
    assert_eq!(counts(&threads), [1, 2]);
    assert_eq!(threads[1].thread_id, "talk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_call_a_thread_what_a_window_is_called() {
    let store = database().await.unwrap();
    write(&store, "p", &[said(NOON_MS, 1)]).await;
    let window = list(&store, "p", &[]).await.remove(0);
    let id: &'static str = window.thread_id.clone().leak();
    let named = Message {
        thread: id,
        run: "other",
        ..said(NOON_MS + 1, 2)
    };
    write(&store, "p", &[named]).await;
    assert_eq!(list(&store, "p", &[]).await.len(), 2);
    for (grouped_by, event_id) in [
        (None, 2),
        (Some(GroupedBy::ThreadId), 2),
        (Some(GroupedBy::Window), 1),
    ] {
        let name = ThreadName {
            app_id: None,
            thread_id: id,
            grouped_by,
        };
        let found = store.thread(&only("p"), name).await.unwrap().unwrap();
        assert_eq!(found.messages[0].event_id, event_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_far_longer_than_the_first_look_is_whole() {
    let store = database().await.unwrap();
    // Fifty days without a pause, and before that one more message after a pause.
    let mut messages: Vec<Message> = (0..2400)
        .map(|n| said(NOON_MS - n * WINDOW_GAP_MS, n as u128))
        .collect();
    messages.push(said(NOON_MS - 2401 * WINDOW_GAP_MS, 9999));
    write(&store, "p", &messages).await;
    let threads = list(&store, "p", &[("limit", "1")]).await;
    assert_eq!(counts(&threads), [2400, 1]);
    let middle = schemas::thread::WindowId {
        timestamp_ms: NOON_MS - 2000 * WINDOW_GAP_MS,
        event_id: 2000,
    };
    let view = view(&store, "p", "shop", &middle.encode()).await.unwrap();
    assert_eq!((view.messages.len(), view.cut), (2400, false));
    assert_eq!(view.thread.into_thread(), threads[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_other_projects_and_apps_stay_apart_t1() {
    let store = database().await.unwrap();
    let named = |app, at, event_id| Message {
        app,
        thread: "t",
        run: "named",
        ..said(at, event_id)
    };
    write(
        &store,
        "p",
        &[
            said(NOON_MS, 1),
            named("shop", NOON_MS, 2),
            named("desk", NOON_MS + 9, 3),
        ],
    )
    .await;
    write(
        &store,
        "q",
        &[said(NOON_MS + 1, 4), named("shop", NOON_MS + 99, 5)],
    )
    .await;
    assert_eq!(counts(&list(&store, "p", &[]).await), [1, 1, 1]);
    assert_eq!(counts(&list(&store, "q", &[]).await), [1, 1]);
    assert_eq!(counts(&list(&store, "unknown", &[]).await), [0; 0]);
    let window = list(&store, "q", &[]).await.pop().unwrap();
    assert!(view(&store, "p", "shop", &window.thread_id).await.is_none());
    let any_app = ThreadName {
        app_id: None,
        thread_id: "t",
        grouped_by: None,
    };
    let found = store.thread(&only("p"), any_app).await.unwrap().unwrap();
    assert_eq!(found.thread.app_id, "desk", "that with the newest message");
    assert_eq!(found.also_in_apps, ["shop"]);
    let all = store
        .thread(&Projects::All, any_app)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(all.thread.project_id, "q");
    let query = ask(&[]);
    let page = store
        .list_threads(&Projects::All, &query, None)
        .await
        .unwrap();
    assert_eq!(page.threads.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_a_circle_count_once() {
    let store = database().await.unwrap();
    write(
        &store,
        "p",
        &[
            said(NOON_MS, 1),
            Message {
                run: "s",
                ..said(NOON_MS, 2)
            },
        ],
    )
    .await;
    let circle = [("r", "s"), ("s", "r")].map(|(id, parent)| RunRow {
        project_id: "p",
        parent_run_id: parent,
        root_run_id: "r",
        total_tokens_with_children: 5,
        ..run("shop", id, 1, NOON_MS)
    });
    store.insert_runs(circle.into_iter()).await.unwrap();
    assert_eq!(list(&store, "p", &[]).await[0].total_tokens, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_between_two_linked_ones_does_not_make_the_lower_count_again() {
    let store = database().await.unwrap();
    write(
        &store,
        "p",
        &[
            said(NOON_MS, 1),
            Message {
                run: "low",
                ..said(NOON_MS, 2)
            },
        ],
    )
    .await;
    let tree = [
        ("top", ""),
        ("r", "top"),
        ("between", "r"),
        ("low", "between"),
    ];
    let runs = tree.map(|(id, parent)| RunRow {
        project_id: "p",
        parent_run_id: parent,
        root_run_id: "top",
        total_tokens_with_children: 7,
        ..run("shop", id, 1, NOON_MS)
    });
    store.insert_runs(runs.into_iter()).await.unwrap();
    assert_eq!(list(&store, "p", &[]).await[0].total_tokens, 7);
}
