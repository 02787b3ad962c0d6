//! Retention: what one tenant keeps does not affect another.

use crate::database;
use store::maintenance::retention::{DayTable, Limit};

/// 2025-11-21T00:00:00Z.
const DAY_MS: i64 = 1_763_683_200_000;

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_one_hash_in_two_projects_are_told_apart_t1() {
    let store = database().await.unwrap();
    // Both have the same hashed bytes: project, app and run with a zero byte between them.
    for (project, app, saved) in [("p", "a\\0b", 1), ("p\\0a", "b", 0)] {
        let time = format!("fromUnixTimestamp64Milli(toInt64({}), 'UTC')", DAY_MS + 5);
        let insert = format!(
            "INSERT INTO runs (project_id, app_id, run_id, version, started_at, first_event_at, last_event_at, saved) \
             SELECT '{project}', '{app}', 'r', 1, {time}, {time}, {time}, {saved}"
        );
        store.run(&insert).await.unwrap();
    }
    let retention = store.retention();
    retention.prepare().await.unwrap();
    let limits = ["p", "p\0a"].map(|project| Limit {
        project_id: project.to_owned(),
        cutoff_ms: DAY_MS + 10 * 24 * 60 * 60 * 1000,
    });
    retention.set_limits(&limits).await.unwrap();
    retention.find_kept().await.unwrap();
    let days = retention.days(DayTable::Runs).await.unwrap();
    assert_eq!(days.len(), 1);
    let (going, rows) = retention.going(&days[0]).await.unwrap();
    assert_eq!((going.len(), rows), (1, 1), "{going:?}");
    assert_eq!(going[0].project_id, "p\0a");
    assert!(retention.copy(&days[0]).await.unwrap(), "one stays");
    assert!(!retention.is_exchanging(&days[0]).await.unwrap());
    // Twice, as after a lost response.
    for _ in 0..2 {
        retention.put_in_place(&days[0], true).await.unwrap();
    }
    let (going, rows) = retention.going(&days[0]).await.unwrap();
    assert_eq!((going.len(), rows), (0, 0), "{going:?}");
    retention.find_kept().await.unwrap();
    assert!(
        retention.wanted_back().await.unwrap().is_none(),
        "what is kept of one project brings nothing back of the other"
    );
    retention.forget().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_waits_for_its_run_ends_with_the_retention_and_a_saved_run_stays_s1() {
    let store = database().await.unwrap();
    let time = format!("fromUnixTimestamp64Milli(toInt64({}), 'UTC')", DAY_MS + 5);
    for (run, is_deleted, first) in [
        ("waits", 1, "toDateTime64(0, 3, 'UTC')"),
        ("stays", 0, &time),
    ] {
        let insert = format!(
            "INSERT INTO runs (project_id, app_id, run_id, version, started_at, first_event_at, last_event_at, saved, is_deleted) \
             SELECT 'p', 'a', '{run}', 1, {time}, {first}, {first}, 1, {is_deleted}"
        );
        store.run(&insert).await.unwrap();
    }
    let waiting = store.waiting_runs().await.unwrap();
    let waiting: Vec<(&str, i64)> = waiting
        .iter()
        .map(|run| (run.run_id.as_str(), run.first_mark_ms))
        .collect();
    assert_eq!(waiting, [("waits", DAY_MS + 5)]);
    let retention = store.retention();
    retention.prepare().await.unwrap();
    let limits = [Limit {
        project_id: "p".to_owned(),
        cutoff_ms: DAY_MS + 10 * 24 * 60 * 60 * 1000,
    }];
    retention.set_limits(&limits).await.unwrap();
    retention.find_kept().await.unwrap();
    assert!(!retention.has_new_saves(0).await.unwrap());
    let days = retention.days(DayTable::Runs).await.unwrap();
    assert!(retention.copy(&days[0]).await.unwrap(), "one stays");
    // A save of the run that is dropped may have been accepted a moment ago: it is looked at again.
    assert!(retention.has_new_saves(0).await.unwrap());
    retention.put_in_place(&days[0], true).await.unwrap();
    assert_eq!(store.waiting_runs().await.unwrap(), []);
    let (going, rows) = retention.going(&days[0]).await.unwrap();
    assert_eq!((going.len(), rows), (0, 0), "{going:?}");
    retention.forget().await.unwrap();
}
