//! Lists, counts, look-ups and trees on a real engine, over unmerged rows.

use std::collections::BTreeSet;

use crate::database;
use schemas::cursor::Cursor;
use schemas::filter::{FILTERS, RunQuery};
use schemas::fold::RunStatus;
use store::Store;
use store::reads::filter_sql::Projects;
use store::tables::rows::RunRow;

use crate::rows::{NOON_MS, run};

const NOW_MS: i64 = NOON_MS + 3_600_000;

fn ours() -> Projects {
    Projects::Only(vec!["default".to_owned()])
}

fn ask(pairs: &[(&str, &str)]) -> RunQuery {
    RunQuery::from_pairs(pairs.iter().copied()).unwrap()
}

async fn write(store: &Store, rows: &[RunRow<'_>]) {
    store.insert_runs(rows.iter().cloned()).await.unwrap();
}

async fn ids(store: &Store, pairs: &[(&str, &str)]) -> Vec<String> {
    let page = store
        .list_runs(&ours(), &ask(pairs), None, NOW_MS)
        .await
        .unwrap();
    page.runs.into_iter().map(|run| run.run_id).collect()
}

/// The next page; the cursor is encoded and decoded as with a client.
async fn page(store: &Store, query: &RunQuery, cursor: &mut Option<Cursor>) -> Vec<String> {
    let page = store
        .list_runs(&ours(), query, cursor.as_ref(), NOW_MS)
        .await
        .unwrap();
    *cursor = page
        .next
        .map(|next| Cursor::decode(&next.encode(query), query).unwrap());
    page.runs.into_iter().map(|run| run.run_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_there_once_and_as_it_is_now_whatever_lies_unmerged_p3() {
    let store = database().await.unwrap();
    write(
        &store,
        &[RunRow {
            status: RunStatus::Started,
            latency_ms: None,
            ..run("a", "r", 1, NOON_MS)
        }],
    )
    .await;
    write(&store, &[run("a", "r", 2, NOON_MS)]).await;
    write(
        &store,
        &[RunRow {
            tags: vec!["late"],
            ..run("a", "r", 3, NOON_MS)
        }],
    )
    .await;
    for sort in [
        "-started_at",
        "started_at",
        "-latency_s",
        "-total_cost",
        "-total_tokens",
        "-ttft_ms",
    ] {
        assert_eq!(ids(&store, &[("sort", sort)]).await, ["r"], "{sort}");
    }
    assert_eq!(
        ids(&store, &[("status", "error"), ("tags", "late")]).await,
        ["r"]
    );
    assert!(
        ids(&store, &[("status", "started")]).await.is_empty(),
        "an older version matched"
    );
    assert!(
        ids(&store, &[("tags", "a")]).await.is_empty(),
        "an older version matched"
    );
    let count = store
        .count_runs(&ours(), &ask(&[("tags", "a")]), NOW_MS)
        .await
        .unwrap();
    assert_eq!((count.count, count.is_capped), (0, false));
    assert_eq!(
        store
            .count_runs(&ours(), &ask(&[]), NOW_MS)
            .await
            .unwrap()
            .count,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_were_written_many_times_are_counted_once_p3() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..9000).map(|n| format!("run-{n:04}")).collect();
    for version in 1..=3 {
        // All of them matched the filter once, a few do now.
        let rows = names.iter().enumerate().map(|(n, name)| RunRow {
            status: match version == 3 && n % 8 != 0 {
                true => RunStatus::Success,
                false => RunStatus::Started,
            },
            ..run("a", name, version, NOON_MS)
        });
        store.insert_runs(rows).await.unwrap();
    }
    let count = async |pairs: &[(&str, &str)]| {
        let found = store.count_runs(&ours(), &ask(pairs), NOW_MS).await;
        let found = found.unwrap();
        (found.count, found.is_capped)
    };
    assert_eq!(count(&[]).await, (9000, false));
    assert_eq!(count(&[("status", "started")]).await, (1125, false));
    let many: Vec<String> = (0..1001).map(|n| format!("more-{n:04}")).collect();
    let rows = many.iter().map(|name| run("a", name, 1, NOON_MS));
    store.insert_runs(rows).await.unwrap();
    assert_eq!(count(&[]).await, (10_000, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_finds_what_it_names_and_nothing_else() {
    let store = database().await.unwrap();
    let other = RunRow {
        status: RunStatus::Success,
        agent: "other",
        user_email: "bob@example.com",
        model: "m",
        r#type: "llm",
        calls: 1,
        name: "call",
        thread_id: "th",
        parent_run_id: "yes",
        tags: vec!["c"],
        latency_ms: Some(10_000),
        total_cost: 3_000_000_000_000_000_000,
        total_tokens_with_children: 99,
        ttft_ms: Some(700),
        saved: 0,
        feedback_rating: "",
        metadata: vec![("k", "w")],
        error_name: "",
        error_message: "",
        input_preview: "needle",
        ..run("b", "no", 1, NOON_MS - 86_400_000)
    };
    let open = RunRow {
        status: RunStatus::Started,
        latency_ms: None,
        ended_at: None,
        ..run("a", "open", 1, NOON_MS + 1)
    };
    write(&store, &[run("a", "yes", 1, NOON_MS), other, open]).await;
    let cases = [
        (&[("app_id", "b")][..], &["no"][..]),
        (&[("status", "error")], &["yes"]),
        (&[("status", "started")], &["open"]),
        (&[("model", "m")], &["no"]),
        (&[("agent", "other")], &["no"]),
        (&[("user_email", "bob@example.com")], &["no"]),
        (&[("type", "llm")], &["no"]),
        (&[("name", "call")], &["no"]),
        (&[("thread_id", "th")], &["no"]),
        (&[("parent_run_id", "yes")], &["no"]),
        (&[("root", "false")], &["no"]),
        (&[("root", "true")], &["open", "yes"]),
        (&[("has_parent", "true")], &["no"]),
        (&[("has_parent", "false")], &["open", "yes"]),
        (&[("has_parent", "true"), ("root", "true")], &[]),
        (&[("error", "ValueError"), ("status", "error")], &["yes"]),
        (&[("error", "ValueErro")], &[]),
        (&[("min_tokens", "13")], &["no"]),
        (
            &[("min_tokens", "12"), ("max_tokens", "98")],
            &["open", "yes"],
        ),
        (&[("max_tokens", "11")], &[]),
        (&[("min_ttft_ms", "700")], &["no"]),
        (&[("min_ttft_ms", "701")], &[]),
        (&[("max_ttft_ms", "700")], &["no"]),
        (&[("max_ttft_ms", "699")], &[]),
        (&[("saved", "false")], &["no"]),
        (&[("feedback", "none")], &["no"]),
        (&[("metadata.k", "w")], &["no"]),
        (&[("q", "NEEDLE")], &["no"]),
        (&[("tags", "x,c")], &["no"]),
        (&[("tags_all", "a,b"), ("status", "error")], &["yes"]),
        (&[("tags_all", "a,c")], &[]),
        (&[("min_latency_s", "1.5")], &["yes", "no"]),
        (&[("max_latency_s", "1.5")], &["yes"]),
        (
            &[("min_latency_s", "1.501"), ("max_latency_s", "9.999")],
            &[],
        ),
        (&[("min_cost", "3")], &["no"]),
        (&[("max_cost", "2"), ("status", "error")], &["yes"]),
        (
            &[
                ("min_cost", "2.000000000000000001"),
                ("max_cost", "2.999999999999999999"),
            ],
            &[],
        ),
        (&[("to", "2026-11-19T10:00:00.000Z")], &["no"]),
        (&[("from", "2026-11-20T10:00:00.001Z")], &["open"]),
        (&[("stale", "true")], &["open"]),
        (&[("stale", "false")], &["yes", "no"]),
    ];
    for (pairs, expected) in cases {
        assert_eq!(ids(&store, pairs).await, expected, "{pairs:?}");
    }
    let tried: Vec<&str> = cases
        .iter()
        .flat_map(|(pairs, _)| pairs.iter())
        .map(|(name, _)| name.split('.').next().unwrap())
        .collect();
    for declared in FILTERS {
        assert!(
            tried.contains(&declared.name),
            "no case of {}",
            declared.name
        );
    }
    // An unfinished run is last in an order by length, and every order contains every run.
    assert_eq!(
        ids(&store, &[("sort", "-latency_s")]).await,
        ["no", "yes", "open"]
    );
    assert_eq!(
        ids(&store, &[("sort", "started_at")]).await,
        ["no", "yes", "open"]
    );
    assert_eq!(
        ids(&store, &[("sort", "-ttft_ms")]).await,
        ["no", "open", "yes"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_looks_like_sql_or_breaks_lines_is_only_text() {
    let store = database().await.unwrap();
    let hostile = "x' OR 1=1 --\\\t\n\"{a:String}`,]\u{0}ä";
    write(
        &store,
        &[
            run("a", "plain", 1, NOON_MS),
            RunRow {
                agent: hostile,
                tags: vec![hostile],
                ..run("a", hostile, 1, NOON_MS)
            },
        ],
    )
    .await;
    for name in ["agent", "tags[]"] {
        assert_eq!(ids(&store, &[(name, hostile)]).await, [hostile], "{name}");
    }
    for name in ["app_id", "model", "user_email", "q", "metadata.k", "name"] {
        assert!(ids(&store, &[(name, hostile)]).await.is_empty(), "{name}");
    }
    assert_eq!(
        store
            .runs_by_id(&ours(), None, hostile)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_every_run_once_in_order_even_where_keys_tie() {
    let store = database().await.unwrap();
    // Many equal starts and values, months apart, in several apps.
    let names: Vec<String> = (0..230).map(|n| format!("run-{n:03}")).collect();
    let rows: Vec<RunRow<'_>> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let n = n as i64;
            RunRow {
                latency_ms: (n % 5 != 0).then_some(n % 7),
                total_tokens: (n % 3 != 0).then_some(n as u64 % 4),
                ttft_ms: (n % 2 != 0).then_some(n as u64 % 3),
                total_cost: i128::from(n % 6),
                ..run(
                    ["a", "b", "c"][n as usize % 3],
                    name,
                    1,
                    NOON_MS - (n % 11) * 9 * 86_400_000,
                )
            }
        })
        .collect();
    write(&store, &rows).await;
    for sort in [
        "-started_at",
        "started_at",
        "-latency_s",
        "-total_cost",
        "-total_tokens",
        "-ttft_ms",
    ] {
        let whole = ids(&store, &[("sort", sort), ("limit", "1000")]).await;
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 230, "{sort}");
        let query = ask(&[("sort", sort), ("limit", "17")]);
        let (mut cursor, mut paged) = (None, Vec::new());
        loop {
            paged.extend(page(&store, &query, &mut cursor).await);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, whole, "{sort}");
    }
}

/// A run of the model that pages are compared with.
#[derive(Clone, Copy)]
struct Known {
    started_at: i64,
    version: u64,
    is_odd: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_whole_whatever_earlier_pages_tell_about_it_p3() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..3000).map(|n| format!("run-{n:04}")).collect();
    let mut runs: Vec<Known> = Vec::new();
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut now_ms = NOW_MS;
    // Bursts and quiet times; runs that change, start earlier after all, or arrive days late.
    for round in 0..24 {
        now_ms += [500, 60_000, 4_000_000, 20][round % 4];
        let mut rows = Vec::new();
        let of = |name, known: Known| RunRow {
            tags: if known.is_odd { vec!["odd"] } else { vec![] },
            ..run("a", name, known.version, known.started_at)
        };
        for _ in 0..[3, 40, 400, 0][next(4)] {
            let age_ms = [0, 30, 3000, 86_400_000 * 3][next(4)];
            let new = Known {
                started_at: now_ms - next(200) as i64 - age_ms,
                version: 1,
                is_odd: next(9) == 0,
            };
            if let Some(name) = names.get(runs.len()) {
                rows.push(of(name, new));
                runs.push(new);
            }
        }
        for _ in 0..next(20).min(runs.len()) {
            let at = next(runs.len());
            let before = runs[at];
            let now = Known {
                version: before.version + 2,
                is_odd: !before.is_odd,
                started_at: before.started_at - [0, 70, 100_000][next(3)],
            };
            if now.started_at != before.started_at {
                rows.push(RunRow {
                    is_deleted: 1,
                    ..of(
                        &names[at],
                        Known {
                            version: before.version + 1,
                            ..before
                        },
                    )
                });
            }
            rows.push(of(&names[at], now));
            runs[at] = now;
        }
        write(&store, &rows).await;
        let from = (now_ms - 5000).to_string();
        let queries: [&[(&str, &str)]; 6] = [
            &[("limit", "40")],
            &[("limit", "1")],
            &[("limit", "40"), ("tags", "odd")],
            &[("limit", "40"), ("tags", "unknown")],
            &[("limit", "30"), ("from", &from)],
            &[("limit", "30"), ("from", &from), ("tags", "odd")],
        ];
        // Twice: the second time, the page before it is the same one.
        for pairs in queries.iter().chain(&queries) {
            let query = ask(pairs);
            let mut wanted: Vec<(i64, &str)> = runs
                .iter()
                .zip(&names)
                .filter(|(known, _)| match &query.filter.tags[..] {
                    [tag] => tag == "odd" && known.is_odd,
                    _ => true,
                })
                .filter(|(known, _)| {
                    query
                        .filter
                        .from_ms
                        .is_none_or(|from| known.started_at >= from)
                })
                .map(|(known, name)| (-known.started_at, name.as_str()))
                .collect();
            wanted.sort_by(|left, right| (left.0, right.1).cmp(&(right.0, left.1)));
            let page = store
                .list_runs(&ours(), &query, None, now_ms)
                .await
                .unwrap();
            let limit = query.limit as usize;
            assert_eq!(
                page.next.is_some(),
                wanted.len() > limit,
                "{round} {pairs:?}"
            );
            let found: Vec<&str> = page.runs.iter().map(|run| run.run_id.as_str()).collect();
            let wanted: Vec<&str> = wanted
                .into_iter()
                .map(|(_, name)| name)
                .take(limit)
                .collect();
            assert_eq!(found, wanted, "{round} {pairs:?}");
        }
    }
    assert!(runs.len() > 1000, "{}", runs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_start_moves_between_pages_is_neither_met_twice_nor_missed() {
    for sort in ["-started_at", "started_at"] {
        let store = database().await.unwrap();
        let names: Vec<String> = (0..20).map(|n| format!("run-{n:02}")).collect();
        let at = |n: i64| NOON_MS + n * 1000;
        let rows: Vec<RunRow<'_>> = (0..20)
            .map(|n| run("a", &names[n as usize], 1, at(n)))
            .collect();
        write(&store, &rows).await;
        let query = ask(&[("sort", sort), ("limit", "10")]);
        let mut cursor = None;
        let mut seen = page(&store, &query, &mut cursor).await;
        // One run of each half goes to the far end of the other, and one arrives.
        let moved = |n: i64, to: i64| {
            let name = names[n as usize].as_str();
            let updated_at = NOW_MS + 1000;
            let gone = RunRow {
                is_deleted: 1,
                updated_at,
                ..run("a", name, 2, at(n))
            };
            [
                gone,
                RunRow {
                    updated_at,
                    ..run("a", name, 2, at(to))
                },
            ]
        };
        write(&store, &moved(18, -5)).await;
        write(&store, &moved(1, 25)).await;
        write(&store, &[run("a", "new", 1, at(30))]).await;
        while cursor.is_some() {
            seen.extend(page(&store, &query, &mut cursor).await);
        }
        let mut old: Vec<&String> = seen.iter().filter(|id| *id != "new").collect();
        old.sort();
        assert_eq!(old, names.iter().collect::<Vec<_>>(), "{sort}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_never_leaves_its_projects_t1() {
    let store = database().await.unwrap();
    let theirs = RunRow {
        project_id: "theirs",
        ..run("a", "r", 1, NOON_MS)
    };
    let child = RunRow {
        parent_run_id: "r",
        project_id: "theirs",
        ..run("a", "child", 1, NOON_MS)
    };
    write(&store, &[run("a", "r", 1, NOON_MS), theirs, child]).await;
    for sort in ["-started_at", "-total_cost"] {
        assert_eq!(ids(&store, &[("sort", sort)]).await, ["r"]);
    }
    let mut own = store.runs_by_id(&ours(), None, "r").await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(store.tree(own.remove(0)).await.unwrap().runs.len(), 1);
    assert_eq!(
        store
            .runs_by_id(&Projects::All, None, "r")
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_holds_what_hangs_below_with_parents_first_and_ends_on_cycles() {
    let store = database().await.unwrap();
    let below = |name: &'static str, parent: &'static str, root: &'static str, at: i64| RunRow {
        parent_run_id: parent,
        root_run_id: root,
        ..run("a", name, 1, NOON_MS + at)
    };
    write(
        &store,
        &[
            run("a", "root", 1, NOON_MS),
            below("left", "root", "root", 2),
            below("right", "root", "root", 1),
            below("leaf", "left", "root", 3),
            // Its parent arrived late: the link to the root is not corrected yet.
            below("stray", "leaf", "stray", 4),
            below("one", "two", "one", 5),
            below("two", "one", "two", 6),
        ],
    )
    .await;
    let tree = async |id: &str| {
        let run = store
            .runs_by_id(&ours(), Some("a"), id)
            .await
            .unwrap()
            .remove(0);
        let tree = store.tree(run).await.unwrap();
        assert!(!tree.truncated);
        tree.runs
            .into_iter()
            .map(|run| run.run_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        tree("root").await,
        ["root", "right", "left", "leaf", "stray"]
    );
    assert_eq!(tree("left").await, ["left", "leaf", "stray"]);
    assert_eq!(tree("one").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_of_a_run_inside_of_a_large_one_is_its_own() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..10_100).map(|at| format!("c{at}")).collect();
    let below = |name, parent, at: i64| RunRow {
        parent_run_id: parent,
        root_run_id: "root",
        ..run("a", name, 1, NOON_MS + at)
    };
    let mut rows = vec![run("a", "root", 1, NOON_MS)];
    rows.extend(names.iter().map(|name| below(name, "root", 1)));
    rows.extend([below("late", "root", 2), below("late-child", "late", 3)]);
    write(&store, &rows).await;
    let tree = async |id: &str| {
        let mut runs = store.runs_by_id(&ours(), Some("a"), id).await.unwrap();
        store.tree(runs.remove(0)).await.unwrap()
    };
    let late = tree("late").await;
    let ids: Vec<&str> = late.runs.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!((ids, late.truncated), (vec!["late", "late-child"], false));
    let whole = tree("root").await;
    assert_eq!((whole.runs.len(), whole.truncated), (10_000, true), "(Q1)");
}
