//! Threads on a real engine, against the plainly written rules, and case by case.

mod cases;
mod model;
mod speakers;
mod turns;

use std::collections::BTreeSet;

use crate::database;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use schemas::money::Dollars;
use schemas::thread::{GroupedBy, Thread, ThreadQuery, WINDOW_GAP_MS};
use store::Store;
use store::reads::filter_sql::Projects;
use store::reads::threads::{MessagesOfThread, ThreadName};
use store::tables::rows::{FeedbackRow, MessageRow, RunRow};

use crate::rows::{NOON_MS, run};
use model::{Expected, GivenRating, Message, Ran};

fn only(project: &str) -> Projects {
    Projects::Only(vec![project.to_owned()])
}

fn ask(pairs: &[(&str, &str)]) -> ThreadQuery {
    ThreadQuery::from_pairs(pairs.iter().copied()).unwrap()
}

fn message_row<'a>(project: &'a str, message: &'a Message, content: &'a str) -> MessageRow<'a> {
    MessageRow {
        project_id: project,
        app_id: message.app,
        timestamp: message.at,
        event_id: message.event_id,
        run_id: message.run,
        parent_run_id: message.parent,
        thread_id: message.thread,
        inherits_thread: u8::from(message.inherits),
        agent: message.agent,
        user_email: message.user,
        role: if message.event_id.is_multiple_of(2) {
            "user"
        } else {
            "assistant"
        },
        content,
    }
}

async fn write(store: &Store, project: &str, messages: &[Message]) {
    let contents: Vec<String> = messages
        .iter()
        .map(|message| format!("said {}", message.event_id))
        .collect();
    let rows = messages
        .iter()
        .zip(&contents)
        .map(|(message, content)| message_row(project, message, content));
    store.insert_messages(rows).await.unwrap();
}

/// All pages of a list; each cursor is encoded and decoded as with a client.
async fn list(store: &Store, project: &str, pairs: &[(&str, &str)]) -> Vec<Thread> {
    let mut threads = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut pairs = pairs.to_vec();
        if let Some(cursor) = &cursor {
            pairs.push(("cursor", cursor));
        }
        let query = ask(&pairs);
        let page = store
            .list_threads(&only(project), &query, query.place().unwrap())
            .await
            .unwrap();
        assert!(page.threads.len() <= query.limit as usize);
        assert!(page.next.is_none() || page.threads.len() == query.limit as usize);
        cursor = page.next.map(|place| query.cursor_after(place));
        threads.extend(page.threads.into_iter().map(|thread| thread.into_thread()));
        if cursor.is_none() {
            return threads;
        }
    }
}

async fn view(store: &Store, project: &str, app: &str, id: &str) -> Option<MessagesOfThread> {
    let name = ThreadName {
        app_id: Some(app),
        thread_id: id,
        grouped_by: None,
    };
    store.thread(&only(project), name).await.unwrap()
}

/// The compared fields of a thread, as text that can be ordered.
fn shown(thread: &Thread) -> String {
    let name = match thread.grouped_by {
        GroupedBy::ThreadId => thread.thread_id.as_str(),
        GroupedBy::Window => "",
    };
    format!(
        "{} {name:?} {:?} {:?} {}..{} {} {} {} {:?}",
        thread.app_id,
        thread.agent.as_deref().unwrap_or(""),
        thread.user_email.as_deref().unwrap_or(""),
        thread.started_at.0,
        thread.ended_at.0,
        thread.message_count,
        thread.total_cost,
        thread.total_tokens,
        thread.preview.as_deref().unwrap_or(""),
    )
}

fn expected(thread: &Expected, runs: &[Ran]) -> String {
    let (cost, tokens) = thread.totals(runs);
    format!(
        "{} {:?} {:?} {:?} {}..{} {} {} {tokens} {:?}",
        thread.app,
        thread.name,
        thread.agent(),
        thread.user(),
        thread.messages[0].at,
        thread.ended_at(),
        thread.messages.len(),
        Dollars(cost),
        format!("said {}", thread.messages.last().unwrap().event_id),
    )
}

const RUNS: [&str; 8] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"];

/// One case: messages in order of arrival with duplicates, feedback, runs, and a query.
#[derive(Clone, Debug)]
struct Case {
    arrivals: Vec<Vec<Message>>,
    feedback: Vec<GivenRating>,
    runs: Vec<Ran>,
    question: Vec<(&'static str, String)>,
}

fn any_message() -> impl Strategy<Value = Message> {
    let pause = prop_oneof![
        Just(0),
        Just(WINDOW_GAP_MS),
        Just(WINDOW_GAP_MS + 1),
        Just(WINDOW_GAP_MS - 1),
        0i64..4 * WINDOW_GAP_MS,
    ];
    (
        0i64..12,
        pause,
        prop::sample::select(vec!["shop", "desk"]),
        prop::sample::select(RUNS.to_vec()),
        prop::sample::select(vec!["", "", "", "t/1", "w_t2"]),
        prop::sample::select(vec!["", "clerk"]),
        prop::sample::select(vec!["", "ada", "bob"]),
        any::<bool>(),
        prop::sample::select(vec!["", "", "r0", "r1", "r2"]),
    )
        .prop_map(
            |(slot, pause, app, run, thread, agent, user, inherits, parent)| Message {
                // Multiples of the pause, so that exact edges are frequent.
                at: NOON_MS + slot * WINDOW_GAP_MS + pause % (2 * WINDOW_GAP_MS),
                event_id: 0,
                app,
                run,
                parent,
                thread,
                inherits,
                agent,
                user,
            },
        )
}

fn any_case() -> impl Strategy<Value = Case> {
    let messages = prop::collection::vec(any_message(), 1..40);
    let feedback = prop::collection::vec(
        (
            0i64..4,
            prop::sample::select(vec!["shop", "desk"]),
            prop::sample::select(RUNS.to_vec()),
            prop::sample::select(vec!["positive", "negative", ""]),
        ),
        0..8,
    );
    let runs = prop::collection::vec(
        (
            0usize..9,
            0usize..5,
            1i128..1000,
            prop::sample::select(vec!["", "clerk", "porter"]),
            prop::sample::select(vec!["", "", "ada"]),
            (0i64..12, 0i64..3 * WINDOW_GAP_MS),
            prop::sample::select(vec!["", "in"]),
            prop::sample::select(vec!["", "out"]),
        ),
        8,
    );
    let text = |values: &'static [&'static str]| prop::option::of(prop::sample::select(values));
    let question = (
        text(&["shop"]),
        text(&["clerk"]),
        text(&["ada"]),
        text(&["positive", "negative", "any", "none"]),
        prop::option::of(0i64..8),
        prop::option::of(4i64..14),
    );
    (messages, feedback, runs, question, 2usize..7, any::<u64>()).prop_map(
        |(mut messages, feedback, runs, question, limit, seed)| {
            for (at, message) in messages.iter_mut().enumerate() {
                message.event_id = at as u128;
                // Time decides which of two threads a run passes on; equal times would leave the order undefined.
                if !message.thread.is_empty() {
                    message.at += 2 + at as i64;
                }
            }
            let mut arrivals: Vec<Message> = messages.clone();
            arrivals.extend(messages.iter().step_by(3).cloned());
            arrivals.sort_by_key(|message| {
                (seed ^ message.event_id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            });
            let feedback = feedback
                .into_iter()
                .enumerate()
                .map(|(id, (at, app, run, rating))| GivenRating {
                    at: NOON_MS + at,
                    event_id: id as u128,
                    app,
                    run,
                    rating,
                })
                .collect();
            let runs = runs
                .into_iter()
                .enumerate()
                .map(
                    |(at, (parent, kind, cost, agent, user, (slot, length), input, output))| Ran {
                        app: "shop",
                        run: RUNS[at],
                        // A parent before it, none, or a message that is no run.
                        parent: if parent < at { RUNS[parent] } else { "" },
                        thread: ["t/1", "s1", "s2", "", ""][kind],
                        started_at: NOON_MS + slot * WINDOW_GAP_MS,
                        length,
                        input,
                        output,
                        agent,
                        user,
                        cost: cost * 1_000_000_000_000_000,
                        tokens: cost as u64,
                    },
                )
                .filter(|ran| ran.tokens % 5 != 0)
                .collect();
            let (app, agent, user, judged, from, to) = question;
            let mut question = vec![("limit", limit.to_string())];
            let texts = [
                ("app_id", app),
                ("agent", agent),
                ("user_email", user),
                ("feedback", judged),
            ];
            question.extend(
                texts
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?.to_owned()))),
            );
            for (name, slot) in [("from", from), ("to", to)] {
                if let Some(slot) = slot {
                    question.push((name, (NOON_MS + slot * WINDOW_GAP_MS).to_string()));
                }
            }
            if let (Some(from), Some(to)) = (from, to)
                && from > to
            {
                question.truncate(1);
            }
            Case {
                arrivals: arrivals.chunks(7).map(<[Message]>::to_vec).collect(),
                feedback,
                runs,
                question,
            }
        },
    )
}

async fn write_messages(store: &Store, project: &str, case: &Case) {
    for batch in &case.arrivals {
        write(store, project, batch).await;
    }
    let feedback = case.feedback.iter().map(|judged| FeedbackRow {
        project_id: project,
        app_id: judged.app,
        run_id: judged.run,
        timestamp: judged.at,
        event_id: judged.event_id,
        rating: judged.rating,
        comment: "",
    });
    store.insert_feedback(feedback).await.unwrap();
}

/// The runs of a case, in two versions: earlier ones had another agent and user, and some another start. Ids that no
/// run has are on marks, which wait for their run in a deleted row.
async fn write_runs(store: &Store, project: &str, case: &Case) {
    let root_of = |ran: &Ran| {
        let mut root = ran.run;
        let mut above = ran.parent;
        // The topmost known ancestor: one that is no run is unknown.
        while let Some(next) = case.runs.iter().find(|other| other.run == above) {
            root = next.run;
            above = next.parent;
        }
        root
    };
    let current = |ran: &Ran| RunRow {
        project_id: project,
        parent_run_id: ran.parent,
        root_run_id: root_of(ran),
        thread_id: ran.resolved(&case.runs, |ran| ran.thread),
        turn_at: ran.turn(&case.runs).unwrap_or_default(),
        input_preview: ran.input,
        output_preview: ran.output,
        agent: ran.resolved(&case.runs, |ran| ran.agent),
        user_email: ran.resolved(&case.runs, |ran| ran.user),
        total_cost: ran.cost,
        total_tokens_with_children: ran.tokens,
        ..run(ran.app, ran.run, 2, ran.started_at)
    };
    let first_start = |ran: &Ran| match ran.tokens % 3 {
        0 => ran.started_at - 86_400_000,
        _ => ran.started_at,
    };
    let first = case.runs.iter().map(|ran| RunRow {
        version: 1,
        started_at: first_start(ran),
        // Rows that are replaced name other threads, and other times.
        thread_id: ["s1", "s2", ""][ran.tokens as usize % 3],
        turn_at: first_start(ran) + ran.tokens as i64 % 5 * WINDOW_GAP_MS,
        agent: "bob",
        user_email: "clerk",
        ..current(ran)
    });
    let marks = RUNS
        .iter()
        .filter(|id| case.runs.iter().all(|ran| ran.run != **id))
        .map(|id| RunRow {
            project_id: project,
            is_deleted: 1,
            ..run("shop", id, 1, NOON_MS)
        });
    store.insert_runs(first.chain(marks)).await.unwrap();
    let tombstones = case
        .runs
        .iter()
        .filter(|ran| first_start(ran) != ran.started_at)
        .map(|ran| RunRow {
            is_deleted: 1,
            started_at: first_start(ran),
            ..current(ran)
        });
    let runs = tombstones.chain(case.runs.iter().map(current));
    store.insert_runs(runs).await.unwrap();
}

async fn check_case(store: &Store, project: &str, case: &Case) {
    write_messages(store, project, case).await;
    check_threads(store, project, case, &[]).await;
    write_runs(store, project, case).await;
    check_threads(store, project, case, &case.runs).await;
}

/// Compares what is read with the rules, of a case of which these runs arrived.
async fn check_threads(store: &Store, project: &str, case: &Case, runs: &[Ran]) {
    let messages: BTreeSet<Message> = case.arrivals.iter().flatten().cloned().collect();
    let all = model::threads(&messages, runs);
    let of_runs = model::threads_of_runs(&messages, runs);
    let pairs: Vec<(&str, &str)> = case
        .question
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let query = ask(&pairs);
    for pairs in [&pairs[..], &pairs[..1]] {
        let query = ask(pairs);
        let listed = list(store, project, pairs).await;
        assert!(
            listed.is_sorted_by(|left, right| left.ended_at >= right.ended_at),
            "the newest first"
        );
        let mut found: Vec<String> = listed.iter().map(shown).collect();
        let mut wanted: Vec<String> = all
            .iter()
            .filter(|thread| model::is_asked_for(&thread.facts(), &query, &case.feedback))
            .map(|thread| expected(thread, runs))
            .collect();
        let of_runs = of_runs.iter();
        let of_runs = of_runs
            .filter(|thread| model::is_asked_for(&thread.facts(runs), &query, &case.feedback));
        wanted.extend(of_runs.map(|thread| thread.shown(runs)));
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{pairs:?}");
    }
    for listed in list(store, project, &pairs).await.iter().take(4) {
        let view = view(store, project, &listed.app_id, &listed.thread_id)
            .await
            .unwrap();
        assert_eq!(shown(&view.thread.clone().into_thread()), shown(listed));
        let mut of_runs = of_runs.iter();
        if let Some(thread) = of_runs.find(|thread| thread.shown(runs) == shown(listed)) {
            let said: Vec<(i64, &str, &str)> = view
                .messages
                .iter()
                .map(|said| (said.timestamp, said.run_id.as_str(), said.role.as_str()))
                .collect();
            assert_eq!(said, thread.messages());
            assert!(said.iter().all(|(_, run, _)| view.runs.contains(*run)));
            continue;
        }
        let thread = all
            .iter()
            .filter(|thread| model::is_asked_for(&thread.facts(), &query, &case.feedback))
            .find(|thread| expected(thread, runs) == shown(listed))
            .unwrap();
        let said: Vec<u128> = view.messages.iter().map(|said| said.event_id).collect();
        let wanted: Vec<u128> = thread.messages.iter().map(|said| said.event_id).collect();
        assert_eq!(said, wanted);
        let known: BTreeSet<&str> = runs
            .iter()
            .filter(|ran| ran.app == listed.app_id)
            .map(|ran| ran.run)
            .collect();
        for said in &view.messages {
            assert_eq!(
                view.runs.contains(&said.run_id),
                known.contains(said.run_id.as_str())
            );
            assert_eq!(said.content, format!("said {}", said.event_id));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_agree_with_the_rules_written_plainly() {
    let store = database().await.unwrap();
    let mut runner = TestRunner::new(Config::with_cases(1));
    let cases = crate::CASES as usize / 2;
    for number in 0..cases {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let project = format!("case-{number}");
        let outcome = tokio::spawn({
            let (store, project, case) = ((*store).clone(), project, case.clone());
            async move { check_case(&store, &project, &case).await }
        })
        .await;
        assert!(outcome.is_ok(), "{case:#?}");
    }
}
