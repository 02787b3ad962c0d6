//! A process that is suspended while it loses its partitions, and resumes in the middle of an insert.

use std::sync::Arc;
use std::time::Duration;

use eventlog::{Log, MemoryLog};
use processor::GROUP;
use serde_json::json;

use crate::held_tables::HeldTables;
use crate::memory_tables::MemoryTables;
use crate::worker::{record, start, start_with};

const START_MS: i64 = 1_795_132_800_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_zombie_writes_late_is_refused_and_leaves_no_second_row_p3() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    log.set_lease(Duration::from_millis(400));
    let sleeper = HeldTables::new(Arc::new(tables.clone()));
    sleeper.hold(true);
    // The whole process is suspended: with a second worker it could get its partition back.
    let zombie = start_with(&log, Arc::new(sleeper.clone()), 1);
    let event = |name: &str, at_ms: i64| json!({"name": name, "run_id": "r", "timestamp": START_MS + at_ms});
    log.append(record(&[event("agent_end", 50)])).await.unwrap();
    let deadline = sleeper.held().await;
    // Its successor reads a start that moves the run, together with the records of the suspended step: so the run's row
    // is at another key, and at the old key there is nothing that could win against the late insert.
    log.append(record(&[event("agent_start", -50)]))
        .await
        .unwrap();
    let successor = start(&log, Arc::new(tables.clone()));
    log.expel_members(GROUP);
    successor.drained().await;
    let before = tables.visible_keys();
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].1, START_MS - 50);

    tokio::time::sleep_until(deadline.into()).await;
    sleeper.hold(false);
    // It notices the loss, and joins the group again.
    log.append(record(&[event("agent_start", 10)]))
        .await
        .unwrap();
    successor.drained().await;
    let metrics = &zombie.metrics;
    let wakes = async {
        while metrics.lost_steps.get() + metrics.stored_events.get() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let woken = tokio::time::timeout(Duration::from_secs(20), wakes).await;
    woken.expect("it goes on");
    assert_eq!(tables.visible_keys(), before);
    tables.assert_one_row_per_run();
    assert_eq!(zombie.metrics.fenced_inserts.get(), 1);
    assert_eq!(zombie.metrics.lost_steps.get(), 1);
    zombie.stop().await.unwrap();
    successor.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_only_slow_stores_what_it_has_in_hand_with_another_lease_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    log.set_lease(Duration::from_millis(200));
    let slow = HeldTables::new(Arc::new(tables.clone()));
    slow.hold(true);
    let owner = start(&log, Arc::new(slow.clone()));
    log.append(record(&[
        json!({"name": "agent_start", "run_id": "r", "timestamp": START_MS}),
    ]))
    .await
    .unwrap();
    let deadline = slow.held().await;
    tokio::time::sleep_until(deadline.into()).await;
    assert_eq!(log.lag(GROUP).await.unwrap()[0].committed, 0);
    slow.hold(false);
    owner.drained().await;
    assert_eq!(tables.event_count(), 1);
    assert_eq!(
        (
            owner.metrics.fenced_inserts.get(),
            owner.metrics.lost_steps.get()
        ),
        (1, 0)
    );
    owner.stop().await.unwrap();
}
