//! Exports of runs on a real engine, over unmerged rows and moving runs.

use std::collections::BTreeSet;

use crate::database;
use schemas::filter::RunQuery;
use store::Store;
use store::reads::filter_sql::Projects;
use store::reads::runs::{ExportPosition, ExportStart, RunExport, RunRecord};
use store::tables::rows::RunRow;

use crate::rows::{NOON_MS, run};

const NOW_MS: i64 = NOON_MS + 3_600_000;

fn begin(
    store: &Store,
    pairs: &[(&str, &str)],
    after: Option<ExportPosition>,
    chunk: usize,
) -> RunExport {
    let projects = Projects::Only(vec!["default".to_owned()]);
    let query = RunQuery::from_pairs(pairs.iter().copied()).unwrap();
    let start = ExportStart {
        began_ms: after.as_ref().map(|_| NOW_MS),
        after,
        chunk,
    };
    store.export_runs(&projects, &query.filter, start, NOW_MS + 60_000)
}

async fn rest(mut export: RunExport) -> Vec<RunRecord> {
    let mut all = Vec::new();
    loop {
        let rows = export.next().await.unwrap();
        if rows.is_empty() {
            return all;
        }
        all.extend(rows);
    }
}

fn place(row: &RunRecord) -> ExportPosition {
    ExportPosition {
        started_at_ms: row.started_at,
        project_id: row.project_id.clone(),
        app_id: row.app_id.clone(),
        run_id: row.run_id.clone(),
    }
}

fn ids(rows: &[RunRecord]) -> Vec<&str> {
    rows.iter().map(|row| row.run_id.as_str()).collect()
}

/// `count` runs, twenty per millisecond, over some days.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("run-{at:05}")).collect()
}

fn at(number: usize) -> i64 {
    NOON_MS - 5 * 86_400_000 + (number as i64 / 20) * 900_000
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_holds_every_run_once_and_as_it_is_now_in_one_order_p3() {
    let store = database().await.unwrap();
    let names = names(6_500);
    let rows = |version, tag: &'static str, every: usize| {
        names
            .iter()
            .enumerate()
            .step_by(every)
            .map(move |(n, name)| RunRow {
                tags: vec![tag],
                name: if n.is_multiple_of(6) { "rare" } else { "usual" },
                ..run("a", name, version, at(n))
            })
    };
    store.insert_runs(rows(1, "old", 1)).await.unwrap();
    store.insert_runs(rows(2, "new", 2)).await.unwrap();
    let gone = rows(3, "new", 70).map(|row| RunRow {
        is_deleted: 1,
        ..row
    });
    store.insert_runs(gone).await.unwrap();

    let expected: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(n, _)| !n.is_multiple_of(70))
        .map(|(_, name)| name.as_str())
        .collect();
    // Chunks that are read by their keys, and chunks that are read as a range.
    for chunk in [300, 3000, 100_000] {
        let all = rest(begin(&store, &[], None, chunk)).await;
        assert_eq!(ids(&all), expected, "chunks of {chunk}");
        let old = rest(begin(&store, &[("tags", "old")], None, chunk)).await;
        assert_eq!(
            old.len(),
            names.len() / 2,
            "an older version matched, or one is missing"
        );
        // Few enough among the others to be read by their times.
        let rare = rest(begin(&store, &[("name", "rare")], None, chunk)).await;
        let of_rare = |name: &&&str| name[4..].parse::<usize>().unwrap().is_multiple_of(6);
        assert_eq!(rare.len(), expected.iter().filter(of_rare).count());
        let from = (NOON_MS - 2 * 86_400_000).to_string();
        let late = rest(begin(
            &store,
            &[("from", &from), ("tags", "new")],
            None,
            chunk,
        ))
        .await;
        let until = late.first().unwrap().started_at;
        assert!(until >= NOON_MS - 2 * 86_400_000);
        assert_eq!(
            late.len(),
            expected
                .iter()
                .filter(|name| {
                    let n: usize = name[4..].parse().unwrap();
                    n.is_multiple_of(2) && at(n) >= NOON_MS - 2 * 86_400_000
                })
                .count()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_on_after_any_row_it_gave() {
    let store = database().await.unwrap();
    let names = names(300);
    let rows = names.iter().enumerate().map(|(n, name)| {
        let app = if n % 3 == 0 { "a" } else { "b" };
        run(app, name, 1, at(n))
    });
    store.insert_runs(rows).await.unwrap();
    let all = rest(begin(&store, &[], None, 1000)).await;
    assert_eq!(all.len(), 300);
    for cut in [0, 1, 19, 20, 21, 150, 298, 299] {
        let tail = rest(begin(&store, &[], Some(place(&all[cut])), 50)).await;
        assert_eq!(ids(&tail), ids(&all[cut + 1..]), "after row {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_moves_while_an_export_goes_on_comes_once_p3() {
    let store = database().await.unwrap();
    let names = names(400);
    let rows = names
        .iter()
        .enumerate()
        .map(|(n, name)| run("a", name, 1, at(n)));
    store.insert_runs(rows).await.unwrap();
    let moved = |n: usize, from: i64, to: i64, version: u64| {
        let updated_at = NOW_MS + 61_000;
        let gone = RunRow {
            is_deleted: 1,
            updated_at,
            ..run("a", &names[n], version, from)
        };
        let there = RunRow {
            updated_at,
            ..run("a", &names[n], version, to)
        };
        [gone, there]
    };
    let mut export = begin(&store, &[], None, 100);
    let mut seen = export.next().await.unwrap();
    assert_eq!(seen.len(), 100);
    for rows in [
        // Returned runs move ahead; others move behind, further ahead, to the next chunk, and there and back.
        moved(5, at(5), at(350) + 1, 2),
        moved(320, at(320), at(2) + 1, 2),
        moved(150, at(150), at(390) + 1, 2),
        moved(130, at(130), at(131) + 7, 2),
        moved(250, at(250), at(3) + 1, 2),
    ] {
        store.insert_runs(rows.into_iter()).await.unwrap();
    }
    seen.extend(export.next().await.unwrap());
    // Again, once its former position has been passed.
    store
        .insert_runs(moved(150, at(390) + 1, at(380) + 3, 3).into_iter())
        .await
        .unwrap();
    store
        .insert_runs(moved(250, at(3) + 1, at(399) + 9, 3).into_iter())
        .await
        .unwrap();
    seen.extend(rest(export).await);
    let mut found = ids(&seen);
    found.sort_unstable();
    assert_eq!(found, names.iter().map(String::as_str).collect::<Vec<_>>());

    // Whatever row is a client's last one: continuing from it misses nothing.
    for cut in (0..seen.len()).step_by(23) {
        let tail = rest(begin(&store, &[], Some(place(&seen[cut])), 1000)).await;
        let both: BTreeSet<&str> = ids(&seen[..=cut]).into_iter().chain(ids(&tail)).collect();
        assert_eq!(both.len(), names.len(), "cut after row {cut}");
    }
}
