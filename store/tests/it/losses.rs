//! Losses: missing data is detected, and data removed on purpose is not.

use store::maintenance::losses::StoredLoss;
use store::maintenance::retention::{DayTable, Limit};
use store::testing::TestDatabase;

use crate::database;
use crate::rows::{NOON_MS, event};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

async fn losses(store: &TestDatabase) -> Vec<StoredLoss> {
    store.look_for_losses().await.unwrap();
    store.losses().borrow().iter().cloned().collect()
}

/// Ten events a day, in an insert for each.
async fn fill(store: &TestDatabase, days: i64) {
    for day in 0..days {
        for n in 0..10 {
            let one = event("app", "r", n, NOON_MS + day * DAY_MS);
            store.insert_events([one].into_iter()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_gone_are_missed_until_it_is_accepted() {
    let store = database().await.unwrap();
    fill(&store, 3).await;
    assert_eq!(losses(&store).await, []);
    store.run("OPTIMIZE TABLE events FINAL").await.unwrap();
    fill(&store, 1).await;
    assert_eq!(losses(&store).await, [], "merged, and reported again");
    let partition = "SELECT min(partition_id) FROM system.parts WHERE active AND database = currentDatabase() \
                     AND table = 'events'";
    let partition: String = store.bounded_query(partition).one().await.unwrap();
    let detach = format!("ALTER TABLE events DETACH PARTITION ID '{partition}'");
    store.run(&detach).await.unwrap();
    let lost = losses(&store).await;
    let [StoredLoss::Missing { table, rows, .. }] = &*lost else {
        panic!("{lost:?}");
    };
    assert!(table == "events" && *rows >= 10, "{lost:?}");
    fill(&store, 1).await;
    assert_eq!(
        losses(&store).await.len(),
        1,
        "others do not make up for it"
    );
    let attach = format!("ALTER TABLE events ATTACH PARTITION ID '{partition}'");
    store.run(&attach).await.unwrap();
    store.accept_losses().await.unwrap();
    assert_eq!(losses(&store).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_and_a_rebuild_remove_is_no_loss() {
    let store = database().await.unwrap();
    fill(&store, 3).await;
    for day in 0..3 {
        let time = NOON_MS + day * DAY_MS;
        let time = format!("fromUnixTimestamp64Milli(toInt64({time}), 'UTC')");
        for (run, saved) in [("kept", u8::from(day == 0)), ("gone", 0)] {
            let insert = format!(
                "INSERT INTO runs (project_id, app_id, run_id, version, started_at, first_event_at, last_event_at, saved) \
                 SELECT 'default', 'app', '{run}-{day}', 1, {time}, {time}, {time}, {saved}"
            );
            store.run(&insert).await.unwrap();
        }
    }
    assert_eq!(losses(&store).await, []);
    let retention = store.retention();
    retention.prepare().await.unwrap();
    let limit = Limit {
        project_id: "default".to_owned(),
        cutoff_ms: (NOON_MS + 2 * DAY_MS).div_euclid(DAY_MS) * DAY_MS,
    };
    retention.set_limits(&[limit]).await.unwrap();
    retention.find_kept().await.unwrap();
    for table in DayTable::ALL {
        for day in retention.days(table).await.unwrap() {
            let stays = retention.copy(&day).await.unwrap();
            retention.put_in_place(&day, stays).await.unwrap();
        }
    }
    retention.forget().await.unwrap();
    let events: u64 = store
        .bounded_query("SELECT count() FROM events")
        .one()
        .await
        .unwrap();
    assert_eq!(events, 10, "days were dropped");
    assert_eq!(losses(&store).await, []);

    let rebuild = store.rebuild(None);
    rebuild.prepare().await.unwrap();
    rebuild.exchange().await.unwrap();
    rebuild.forget().await.unwrap();
    assert_eq!(losses(&store).await, [], "an empty table took its place");
}
