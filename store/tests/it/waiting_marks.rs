//! Marks that wait, and the roots of traces that they may name.

use crate::database;
use store::reads::waiting_marks::RootOfTrace;

/// 2025-11-21T00:00:00Z.
const DAY_MS: i64 = 1_763_683_200_000;
const MINUTE_MS: i64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_root_of_a_trace_is_its_run_without_a_parent_else_the_earliest_whose_parent_is_not_stored()
 {
    let store = database().await.unwrap();
    for (project, app, run, parent, root, trace, after_ms) in [
        ("p", "a", "child", "top", "top", "t1", 0),
        // Parts of a trace that arrived before its root.
        ("p", "a", "early", "top", "early", "t1", 0),
        ("p", "b", "top", "", "top", "t1", 5),
        ("p", "a", "late", "x", "late", "t2", 9),
        ("p", "a", "soon", "x", "soon", "t2", 7),
        ("other", "a", "theirs", "", "theirs", "t1", 0),
        ("p", "a", "old", "", "old", "t3", -40 * 24 * 60 * MINUTE_MS),
    ] {
        let time = format!(
            "fromUnixTimestamp64Milli(toInt64({}), 'UTC')",
            DAY_MS + after_ms
        );
        let insert = format!(
            "INSERT INTO runs (project_id, app_id, run_id, parent_run_id, root_run_id, version, started_at, \
               first_event_at, last_event_at, metadata) \
             SELECT '{project}', '{app}', '{run}', '{parent}', '{root}', 1, {time}, {time}, {time}, \
               map('trace_id', '{trace}')"
        );
        store.run(&insert).await.unwrap();
    }
    let times = [DAY_MS, DAY_MS + MINUTE_MS];
    let traces = ["t1", "t2", "t3", "t4"];
    let mut roots = store.roots_of_traces("p", &traces, times).await.unwrap();
    roots.sort_by(|left, right| left.trace_id.cmp(&right.trace_id));
    let root = |trace_id: &str, app_id: &str, run_id: &str, has_parent| RootOfTrace {
        trace_id: trace_id.to_owned(),
        app_id: app_id.to_owned(),
        run_id: run_id.to_owned(),
        has_parent,
    };
    let expected = [root("t1", "b", "top", 0), root("t2", "a", "soon", 1)];
    assert_eq!(roots, expected);
}
