//! Migrations, inserts and look-ups.

use std::collections::HashSet;

use crate::database;
use schemas::fold::CostStatus;
use store::Store;
use store::reads::events::EventsOfRun;
use store::reads::states::{ChildPage, RunPlace, StoredRun, run_hash};
use store::tables::rows::RunRow;

use crate::rows::{NOON_MS, event, run};

/// Executes a statement that the store itself does not offer.
pub(crate) async fn statement(store: &Store, sql: &str) {
    let config = store.config();
    let client = clickhouse::Client::default()
        .with_url(&config.url)
        .with_user(&config.user)
        .with_password(config.password.reveal())
        .with_database(&config.database);
    client.query_raw(sql).execute().await.unwrap();
}

#[tokio::test]
async fn migrating_twice_and_at_once_changes_nothing() {
    let store = database().await.unwrap();
    let (a, b) = tokio::join!(store.migrate(), store.migrate());
    a.unwrap();
    b.unwrap();
    let applied: Vec<u32> = store
        .bounded_query("SELECT number FROM migrations FINAL ORDER BY number")
        .rows()
        .await
        .unwrap();
    assert_eq!(applied, (1..=15).collect::<Vec<u32>>());
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let store = database().await.unwrap();
    let sql = "INSERT INTO migrations (number, name, checksum) VALUES (9999, 'later', '')";
    statement(&store, sql).await;
    let error = store.migrate().await.unwrap_err();
    assert!(
        matches!(error, store::StoreError::TooNew { found: 9999, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn every_column_of_a_run_arrives_where_it_belongs() {
    let store = database().await.unwrap();
    store
        .insert_runs([run("app", "r1", 7, NOON_MS)].into_iter())
        .await
        .unwrap();
    let sql = "SELECT toString((project_id, app_id, started_at, run_id, version, is_deleted, parent_run_id, \
        root_run_id, name, type, status, agent, user_email, model, tags, thread_id, ended_at, latency_ms, \
        prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens, cost, cost_status, \
        cost_estimated, total_cost, total_prompt_tokens, total_completion_tokens, total_tokens_with_children, \
        llm_calls, error_count, error_name, error_message, saved, feedback_rating, feedback_comment, feedback_at, \
        input_preview, output_preview, metadata, first_event_at, last_event_at, updated_at, hex(state))) FROM runs";
    let row: String = store.bounded_query(sql).one().await.unwrap();
    assert_eq!(
        row,
        "('default','app','2026-11-20 10:00:00.000','r1',7,0,'','r1','agent','agent','error','scout',\
         'ada@example.com','',['a','b'],'','2026-11-20 10:00:01.500',1500,12,NULL,NULL,NULL,NULL,0.0015,'priced',\
         0,2,12,0,12,1,1,'ValueError','no',1,'positive','',NULL,'in','out',{'k':'v','k2':''},\
         '2026-11-20 10:00:00.000','2026-11-20 10:00:01.500','2026-11-20 10:00:02.000','00FF7374617465')"
    );
}

#[tokio::test]
async fn an_event_stored_twice_is_read_once_and_in_order() {
    let store = database().await.unwrap();
    let rows = || {
        [
            event("app", "r", 2, NOON_MS + 5),
            event("app", "r", 1, NOON_MS),
            event("app", "other", 3, NOON_MS),
        ]
    };
    assert_eq!(store.insert_events(rows().into_iter()).await.unwrap(), 3);
    store.insert_events(rows().into_iter()).await.unwrap();
    let asked = EventsOfRun {
        project: "default",
        app: "app",
        run_id: "r",
        first_ms: NOON_MS,
        last_ms: NOON_MS + 5,
    };
    let found = store.events_of_run(asked).await.unwrap();
    assert_eq!(
        found
            .events
            .iter()
            .map(|event| event.event_id)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(found.events[0].payload, br#"{"name":"agent_start"}"#);
    assert!(!found.cut);
}

#[tokio::test]
async fn one_insert_is_one_part_per_day_however_many_days() {
    let store = database().await.unwrap();
    let days = 150;
    let ids: Vec<String> = (0..30_000).map(|n| format!("run-{n}")).collect();
    let rows = ids.iter().enumerate().map(|(n, id)| {
        event(
            "app",
            id,
            n as u128,
            NOON_MS - (n as i64 % days) * 86_400_000,
        )
    });
    store.insert_events(rows).await.unwrap();
    let parts = store.parts("events").await.unwrap();
    assert_eq!(parts, days as u64);
}

#[tokio::test]
async fn nothing_to_insert_is_no_insert() {
    let store = database().await.unwrap();
    assert_eq!(
        store
            .insert_events(std::iter::empty::<store::tables::rows::EventRow<'_>>())
            .await
            .unwrap(),
        0
    );
}

#[tokio::test]
async fn a_state_look_up_sees_the_newest_row_of_each_key_and_its_tombstones() {
    let store = database().await.unwrap();
    store
        .insert_runs(
            [
                run("app", "moved", 1, NOON_MS),
                run("app", "still", 1, NOON_MS),
            ]
            .into_iter(),
        )
        .await
        .unwrap();
    let tombstone = RunRow {
        is_deleted: 1,
        ..run("app", "moved", 2, NOON_MS)
    };
    let earlier = NOON_MS - 86_400_000;
    store
        .insert_runs([tombstone, run("app", "moved", 2, earlier)].into_iter())
        .await
        .unwrap();
    let mut found = store
        .load_states("default", "app", &["moved", "still", "unknown"])
        .await
        .unwrap();
    found.sort_by(|a, b| (&a.run_id, a.started_at).cmp(&(&b.run_id, b.started_at)));
    let seen: Vec<_> = found
        .iter()
        .map(|run| {
            (
                run.run_id.as_str(),
                run.started_at,
                run.version,
                run.is_deleted,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("moved", earlier, 2, 0),
            ("moved", NOON_MS, 2, 1),
            ("still", NOON_MS, 1, 0)
        ]
    );
    assert_eq!(found[0].state, b"\x00\xffstate");
}

#[tokio::test]
async fn the_same_ids_in_another_app_or_project_are_other_runs_t1() {
    let store = database().await.unwrap();
    let other_project = RunRow {
        project_id: "other",
        ..run("app", "r", 3, NOON_MS)
    };
    store
        .insert_runs(
            [
                run("app", "r", 1, NOON_MS),
                run("app2", "r", 2, NOON_MS),
                other_project,
            ]
            .into_iter(),
        )
        .await
        .unwrap();
    let found = store.load_states("default", "app", &["r"]).await.unwrap();
    assert_eq!(found.iter().map(|run| run.version).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn a_run_whose_replaced_states_exceed_the_bounds_is_found_by_its_newest_x1() {
    let store = database().await.unwrap();
    let both = [
        run("app", "small", 1, NOON_MS),
        run("app", "large", 1, NOON_MS),
    ];
    store.insert_runs(both.into_iter()).await.unwrap();
    // 1.4 GB of versions that wait to be merged, and a look-up may take 1 GiB.
    for block in 0..14 {
        let insert = format!(
            "INSERT INTO runs (project_id, app_id, run_id, started_at, version, state) \
             SELECT 'default', 'app', 'large', fromUnixTimestamp64Milli({NOON_MS}, 'UTC'), {block} * 25 + number + 2, \
               repeat(repeat('x', 1000000), 4) \
             FROM numbers(25) SETTINGS max_block_size = 25, optimize_on_insert = 0, distributed_foreground_insert = 1"
        );
        statement(&store, &insert).await;
    }
    let ids = ["small", "large", "unknown"];
    let mut found = store.load_states("default", "app", &ids).await.unwrap();
    let placed = ids.map(|id| (id, NOON_MS));
    found.extend(
        store
            .load_states_at("default", "app", &placed)
            .await
            .unwrap(),
    );
    let mut found: Vec<(&str, u64, usize)> = found
        .iter()
        .map(|run| (run.run_id.as_str(), run.version, run.state.len()))
        .collect();
    found.sort_unstable();
    let (large, small) = (("large", 351, 4_000_000), ("small", 1, found[2].2));
    assert_eq!(found, [large, large, small, small]);
}

#[tokio::test]
async fn children_are_those_whose_current_row_names_the_parent() {
    let store = database().await.unwrap();
    let child = |id, version, parent| RunRow {
        parent_run_id: parent,
        ..run("app", id, version, NOON_MS)
    };
    store
        .insert_runs([child("a", 1, "p"), child("b", 1, "p"), child("c", 1, "p")].into_iter())
        .await
        .unwrap();
    let gone = RunRow {
        is_deleted: 1,
        ..child("c", 2, "p")
    };
    store
        .insert_runs([child("b", 2, "q"), gone].into_iter())
        .await
        .unwrap();
    let found = store
        .children_of(
            "default",
            "app",
            &["p"],
            ChildPage {
                after: "",
                limit: 100,
            },
        )
        .await
        .unwrap();
    assert_eq!(
        found
            .iter()
            .map(|child| child.run_id.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
}

#[tokio::test]
async fn runs_are_named_by_the_same_hash_here_and_there() {
    let store = database().await.unwrap();
    let long = "x".repeat(300);
    let waiting = RunRow {
        parent_run_id: "unknown",
        ..run("app", "orphan", 1, NOON_MS)
    };
    let rooted = RunRow {
        parent_run_id: "p",
        root_run_id: "p",
        ..run("app", "child", 1, NOON_MS)
    };
    store
        .insert_runs([run("app", &long, 1, NOON_MS), waiting, rooted].into_iter())
        .await
        .unwrap();
    let mut known = HashSet::new();
    assert_eq!(
        store
            .known_runs(None, |hash| {
                known.insert(hash);
            })
            .await
            .unwrap(),
        3
    );
    let expected = [long.as_str(), "orphan", "child"].map(|id| run_hash("default", "app", id));
    assert_eq!(known, HashSet::from(expected));
    let mut parents = Vec::new();
    store
        .waiting_parents(None, |hash| parents.push(hash))
        .await
        .unwrap();
    assert_eq!(parents, [run_hash("default", "app", "unknown")]);
}

/// Rows that wait to be merged are no holders of a link, so that what has too many of them is the same at any time.
#[tokio::test]
async fn only_current_rows_hold_a_link() {
    const LINK: u64 = 41;
    const OTHER: u64 = 42;
    let store = database().await.unwrap();
    let ids: Vec<String> = (0..100).map(|number| format!("run-{number:03}")).collect();
    let rows = |version, links: fn(usize) -> &'static [u64]| {
        let rows = ids.iter().enumerate().map(move |(number, id)| RunRow {
            call_links: links(number),
            ..run("app", id, version, NOON_MS + number as i64)
        });
        store.insert_runs(rows)
    };
    rows(1, |_| &[LINK]).await.unwrap();
    rows(2, |number| {
        if number % 40 == 0 {
            &[LINK, OTHER]
        } else {
            &[]
        }
    })
    .await
    .unwrap();
    // One of the holders moves to another day.
    let moved = RunRow {
        is_deleted: 1,
        call_links: &[],
        ..run("app", "run-040", 3, NOON_MS + 40)
    };
    let there = RunRow {
        call_links: &[OTHER],
        ..run("app", "run-040", 3, NOON_MS - 86_400_000)
    };
    let elsewhere = RunRow {
        call_links: &[LINK],
        ..run("other", "run-007", 3, NOON_MS)
    };
    store
        .insert_runs([moved, there, elsewhere].into_iter())
        .await
        .unwrap();
    let found = async |links: &[u64], most| -> Vec<(u64, String)> {
        let found = store
            .runs_by_call_links("default", "app", links, most)
            .await
            .unwrap();
        found
            .into_iter()
            .map(|run| (run.link, run.run_id))
            .collect()
    };
    let pairs = |pairs: &[(u64, &str)]| -> Vec<(u64, String)> {
        pairs
            .iter()
            .map(|(link, id)| (*link, (*id).to_owned()))
            .collect()
    };
    assert_eq!(
        found(&[LINK], 65).await,
        pairs(&[(LINK, "run-000"), (LINK, "run-080")])
    );
    assert_eq!(
        found(&[OTHER, LINK, 43], 2).await,
        pairs(&[
            (LINK, "run-000"),
            (LINK, "run-080"),
            (OTHER, "run-000"),
            (OTHER, "run-040"),
        ])
    );
}

#[tokio::test]
async fn many_rows_are_found_near_their_starts_as_by_their_ids() {
    let store = database().await.unwrap();
    let ids: Vec<String> = (0..1500).map(|number| format!("run-{number}")).collect();
    let apps = ["a", "b", "c"];
    let place = |number: usize| (apps[number % 3], NOON_MS + number as i64 * 10);
    // Every run once, every tenth again, every hundredth moved away, and one far from all others.
    for round in [1, 2] {
        let rows = ids.iter().enumerate().flat_map(|(number, id)| {
            let (app, start) = place(number);
            let start = if number == 1499 {
                start + 86_400_000
            } else {
                start
            };
            let mut rows = Vec::new();
            match round {
                1 => rows.push(run(app, id, 1, start)),
                _ if number % 100 == 50 => {
                    let (moved, is_deleted) = (run(app, id, 3, start - 3_600_000), 1);
                    rows.extend([
                        moved,
                        RunRow {
                            is_deleted,
                            ..run(app, id, 3, start)
                        },
                    ]);
                }
                _ if number % 10 == 0 => rows.push(run(app, id, 2, start)),
                _ => {}
            }
            rows
        });
        store
            .insert_runs(rows.collect::<Vec<_>>().into_iter())
            .await
            .unwrap();
    }
    let near = |is_exact| {
        let places = ids.iter().enumerate().map(move |(number, run_id)| {
            let (app, started_at) = place(number);
            // Not in order, and a child starts some time after its parent.
            let started_at = started_at + if is_exact { 0 } else { 7 };
            RunPlace {
                app,
                run_id,
                started_at,
                is_exact,
            }
        });
        places.rev().collect::<Vec<_>>()
    };
    let seen = |mut rows: Vec<StoredRun>| {
        rows.sort_by(|a, b| (&a.run_id, a.started_at).cmp(&(&b.run_id, b.started_at)));
        let seen = |row: StoredRun| {
            (
                row.app_id,
                row.run_id,
                row.started_at,
                row.version,
                row.is_deleted,
            )
        };
        rows.into_iter().map(seen).collect::<Vec<_>>()
    };
    let mut expected = Vec::new();
    for app in apps {
        let of_app = |number: &usize| place(*number).0 == app;
        let numbers: Vec<usize> = (0..1500).filter(of_app).collect();
        let names: Vec<&str> = numbers.iter().map(|number| ids[*number].as_str()).collect();
        let starts: HashSet<i64> = numbers.iter().map(|number| place(*number).1).collect();
        let found = store.load_states("default", app, &names).await.unwrap();
        expected.extend(
            found
                .into_iter()
                .filter(|row| starts.contains(&row.started_at)),
        );
    }
    let expected = seen(expected);
    assert_eq!(expected.len(), 1499);
    let exact = store
        .load_states_near("default", &near(true))
        .await
        .unwrap();
    assert_eq!(seen(exact), expected);
    // The first of them started before the earliest time that is known.
    let about = store
        .load_states_near("default", &near(false))
        .await
        .unwrap();
    assert_eq!(
        seen(about),
        expected
            .into_iter()
            .filter(|row| row.1 != "run-0")
            .collect::<Vec<_>>()
    );
    // Too few to read a range for.
    let few = store
        .load_states_near("default", &near(false)[..500])
        .await
        .unwrap();
    assert_eq!(seen(few), []);
    let few = store
        .load_states_near("default", &near(true)[..500])
        .await
        .unwrap();
    assert_eq!(few.len(), 499);
}

#[tokio::test]
async fn rows_are_found_by_their_starts_tombstones_and_replaced_ones_as_by_their_ids() {
    let store = database().await.unwrap();
    let rows = [
        run("app", "a", 1, NOON_MS),
        run("app", "a", 3, NOON_MS),
        run("app", "b", 1, NOON_MS + 90_000_000),
        run("app", "moved", 1, NOON_MS + 7),
        RunRow {
            is_deleted: 1,
            ..run("app", "moved", 2, NOON_MS + 7)
        },
        run("app", "moved", 2, NOON_MS + 5),
        run("other", "a", 9, NOON_MS),
    ];
    store.insert_runs(rows.into_iter()).await.unwrap();
    let at = [
        ("moved", NOON_MS + 7),
        ("a", NOON_MS),
        ("b", NOON_MS + 90_000_000),
        ("none", NOON_MS),
    ];
    let mut found = store.load_states_at("default", "app", &at).await.unwrap();
    found.sort_by_key(|row| (row.run_id.clone(), row.started_at));
    let seen: Vec<_> = found
        .iter()
        .map(|row| {
            (
                row.run_id.as_str(),
                row.started_at - NOON_MS,
                row.version,
                row.is_deleted,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("a", 0, 3, 0),
            ("b", 90_000_000, 1, 0),
            ("moved", 5, 2, 0),
            ("moved", 7, 2, 1)
        ]
    );
    assert_eq!(found[0].totals.cost, 2_000_000_000_000_000_000);
    assert_eq!(
        (found[0].cost, found[0].cost_status),
        (1_500_000_000_000_000, CostStatus::Priced)
    );
    let mut by_id = store
        .load_states("default", "app", &["a", "b", "moved"])
        .await
        .unwrap();
    by_id.sort_by_key(|row| (row.run_id.clone(), row.started_at));
    assert_eq!(by_id, found);
}

#[tokio::test]
async fn totals_of_children_are_those_of_current_rows_of_current_parents() {
    let store = database().await.unwrap();
    let child = |run_id, version, parent, total_cost| RunRow {
        parent_run_id: parent,
        total_cost,
        ..run("app", run_id, version, NOON_MS)
    };
    let ids: Vec<String> = (0..3000).map(|n| format!("c{n}")).collect();
    let many = ids.iter().map(|id| child(id, 1, "p", 1));
    store.insert_runs(many).await.unwrap();
    let changes = [
        child("c0", 2, "p", 10),
        child("c1", 2, "q", 1000),
        RunRow {
            is_deleted: 1,
            ..child("c2", 2, "p", 1)
        },
        RunRow {
            app_id: "other",
            ..child("c3", 2, "p", 77)
        },
    ];
    store.insert_runs(changes.into_iter()).await.unwrap();
    let sums = async |only: Option<&[&str]>| {
        let parents = ["p", "unknown"];
        store
            .child_sums("default", "app", &parents, only)
            .await
            .unwrap()
            .into_iter()
            .map(|sum| (sum.parent_run_id, sum.totals.cost, sum.totals.llm_calls))
            .collect::<Vec<_>>()
    };
    // c1 left, c2 is gone.
    assert_eq!(sums(None).await, [("p".to_owned(), 2997 + 10, 2998)]);
    let only = ["c0", "c1", "c2", "c3", "c4", "unknown"];
    assert_eq!(sums(Some(&only)).await, [("p".to_owned(), 12, 3)]);
}
