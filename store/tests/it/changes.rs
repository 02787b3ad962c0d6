//! A follower of changes that falls too far behind receives a notice, and continues from now.

use schemas::filter::RunFilter;
use store::reads::changes::{ChangePage, Changes, Gap};
use store::reads::filter_sql::Projects;
use store::tables::rows::RunRow;
use store::testing::TestDatabase;
use store::{ReadBounds, StoreError};

use crate::database;

use crate::rows::{NOON_MS, run};

const MINUTE_MS: i64 = 60_000;

/// Follows from noon on.
fn follow(store: &TestDatabase) -> Changes {
    let projects = Projects::Only(vec!["default".to_owned()]);
    Changes::from((**store).clone(), projects, RunFilter::default(), NOON_MS)
}

/// Writes this many runs at a time, with this prefix of their ids.
async fn write(store: &TestDatabase, word: &str, count: usize, at_ms: i64) {
    let ids: Vec<String> = (0..count).map(|n| format!("{word}-{n:03}")).collect();
    let rows: Vec<RunRow<'_>> = ids
        .iter()
        .map(|id| RunRow {
            updated_at: at_ms,
            ..run("app", id, 1, NOON_MS)
        })
        .collect();
    store.insert_runs(rows.iter()).await.unwrap();
}

fn ids(page: &ChangePage) -> Vec<&str> {
    let ids = page.changes.iter().map(|change| &*change.run.run_id);
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_costs_too_much_ends_in_a_gap_and_not_in_silence_x1() {
    let store = database().await.unwrap();
    let mut changes = follow(&store).within(ReadBounds {
        result_rows: 100,
        ..ReadBounds::default()
    });
    write(&store, "many", 200, NOON_MS + 1).await;
    // Close behind, the failure may be transient: another look is worth it.
    let early = changes.next(NOON_MS + MINUTE_MS).await;
    assert!(
        matches!(early, Err(StoreError::TooExpensive { .. })),
        "{early:?}"
    );
    let now_ms = NOON_MS + 3 * MINUTE_MS;
    let page = changes.next(now_ms).await.unwrap();
    let gap = Gap {
        from_ms: NOON_MS,
        to_ms: now_ms,
    };
    assert_eq!((page.gap, ids(&page)), (Some(gap), vec![]));
    // Rows written from here on are returned again.
    write(&store, "later", 1, now_ms + 1).await;
    let page = changes.next(now_ms + 2).await.unwrap();
    assert_eq!((page.gap, ids(&page)), (None, vec!["later-000"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_pauses_for_long_goes_on_from_now_with_a_gap() {
    let store = database().await.unwrap();
    let mut changes = follow(&store);
    // More than a page, so that the pause is between two pages of it.
    write(&store, "many", 700, NOON_MS + 1).await;
    let page = changes.next(NOON_MS + 2).await.unwrap();
    assert!(page.has_more && page.changes.len() == 500);
    let now_ms = NOON_MS + 120 * MINUTE_MS;
    let page = changes.next(now_ms).await.unwrap();
    let gap = Gap {
        from_ms: NOON_MS + 1,
        to_ms: now_ms,
    };
    assert_eq!((page.gap, ids(&page)), (Some(gap), vec![]));
    assert!(!page.has_more);
    let page = changes.next(now_ms + 1).await.unwrap();
    assert_eq!((page.gap, ids(&page)), (None, vec![]));
    write(&store, "later", 1, now_ms + 2).await;
    let page = changes.next(now_ms + 3).await.unwrap();
    assert_eq!((page.gap, ids(&page)), (None, vec!["later-000"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_follower_is_never_behind() {
    let store = database().await.unwrap();
    let mut changes = follow(&store);
    for minute in 0..180 {
        let page = changes.next(NOON_MS + minute * MINUTE_MS).await.unwrap();
        assert_eq!((page.gap, ids(&page)), (None, vec![]));
    }
}
