//! Late inserts.

use std::time::{Duration, Instant};

use store::tables::rows::EventRow;
use store::testing::TestDatabase;

use crate::database;
use store::{Store, StoreError};

use crate::rows::{NOON_MS, event, run};

/// Longer than a chunk, so that each row of it is sent separately.
const CHUNK_BYTES: usize = 600 << 10;

async fn stored(store: &Store, table: &str) -> u64 {
    let sql = format!("SELECT count() FROM {table}");
    store.bounded_query(&sql).one().await.unwrap()
}

/// Rows that delay the insert until the time when the one with this number is requested.
fn slow<'a>(
    rows: Vec<EventRow<'a>>,
    before: usize,
    until: Instant,
) -> impl Iterator<Item = EventRow<'a>> {
    let mut rows = rows.into_iter();
    let mut asked = 0;
    std::iter::from_fn(move || {
        if asked == before {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        asked += 1;
        rows.next()
    })
}

/// An insert that begins in time and whose rows are delayed past its deadline, before the row with this number; the
/// server has begun with it.
async fn late(store: &TestDatabase, before: usize) -> Result<u64, StoreError> {
    let payload = vec![b'x'; CHUNK_BYTES];
    let rows = (0..2).map(|id| EventRow {
        payload: &payload,
        ..event("app", "r", id, NOON_MS)
    });
    // Cached facts are read first.
    let soon = Instant::now() + Duration::from_secs(30);
    let first = [event("app", "first", 9, NOON_MS)];
    store
        .with_deadline(Some(soon))
        .insert_events(first.into_iter())
        .await
        .unwrap();
    let until = Instant::now() + Duration::from_millis(1500);
    let rows = slow(rows.collect(), before, until + Duration::from_millis(300));
    store.with_deadline(Some(until)).insert_events(rows).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_arrive_after_the_deadline_are_not_stored() {
    let store = database().await.unwrap();
    // Between the rows; and after the last row, before the end.
    for before in [1, 2] {
        let error = late(&store, before).await.unwrap_err();
        assert!(matches!(error, StoreError::Fenced), "{before}: {error:?}");
        assert!(!error.is_retryable());
        let sql = "SELECT count() FROM events WHERE run_id = 'r'";
        assert_eq!(store.bounded_query(sql).one::<u64>().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_arrive_in_time_are_stored_however_slowly() {
    let store = database().await.unwrap();
    let soon = Instant::now() + Duration::from_secs(60);
    let rows = vec![event("app", "r", 1, NOON_MS), event("app", "r", 2, NOON_MS)];
    let rows = slow(rows, 1, Instant::now() + Duration::from_millis(500));
    let fenced = store.with_deadline(Some(soon));
    assert_eq!(fenced.insert_events(rows).await.unwrap(), 2);
    assert_eq!(stored(&store, "events").await, 2);
}

#[tokio::test]
async fn what_is_late_already_is_not_sent() {
    let store = database().await.unwrap();
    let past = store.with_deadline(Some(Instant::now()));
    let error = past
        .insert_runs([run("app", "r", 1, NOON_MS)].into_iter())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Fenced), "{error:?}");
    assert_eq!(stored(&store, "runs").await, 0);
}

#[tokio::test]
async fn a_fenced_insert_stores_the_same_rows_as_one_block() {
    let store = database().await.unwrap();
    let fenced = store.with_deadline(Some(Instant::now() + Duration::from_secs(60)));
    let ids: Vec<String> = (0..100_000).map(|n| format!("run-{n}")).collect();
    let rows = |app: &'static str| {
        ids.iter()
            .enumerate()
            .map(move |(n, id)| run(app, id, n as u64 + 1, NOON_MS))
    };
    store.insert_runs(rows("plain")).await.unwrap();
    fenced.insert_runs(rows("fenced")).await.unwrap();
    assert_eq!(store.parts("runs").await.unwrap(), 2);
    let sum = "SELECT sum(sipHash64(toString(tuple(* EXCEPT (app_id))))) FROM runs WHERE app_id = {app:String}";
    let mut sums = Vec::new();
    for app in ["plain", "fenced"] {
        let query = store.bounded_query(sum).param("app", app);
        sums.push(query.one::<u64>().await.unwrap());
    }
    assert_eq!(sums[0], sums[1]);
}

#[tokio::test]
async fn a_value_of_the_deployment_is_the_one_set_last() {
    let store = database().await.unwrap();
    assert_eq!(store.deployment_value("partitions").await.unwrap(), None);
    for value in ["4", "8", "it's \\ 12\n"] {
        store
            .set_deployment_value("partitions", value)
            .await
            .unwrap();
        let found = store.deployment_value("partitions").await.unwrap();
        assert_eq!(found.as_deref(), Some(value));
    }
    assert_eq!(store.deployment_value("other").await.unwrap(), None);
    let long = "x".repeat(store::platform::deployment::VALUE_BYTES_MAX + 1);
    let refused = store.set_deployment_value("partitions", &long).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
}
