//! Hot runs that are forgotten by order: between two steps, whatever goes on, and without changing anything.

use std::sync::Arc;
use std::time::Duration;

use eventlog::{Log, MemoryLog};
use processor::HotView;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::held_tables::HeldTables;
use crate::memory_tables::MemoryTables;
use crate::reference;
use crate::several::{any_event, record};
use crate::worker;

async fn until_none(hot: &HotView) {
    let none = async {
        while hot.report().entries > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), none)
        .await
        .expect("they are forgotten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_are_forgotten_again_and_again_fold_to_the_same_p2_p3() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (log, tables) = (MemoryLog::new(4), MemoryTables::default());
    let running = worker::start(&log, Arc::new(tables.clone()));
    let mut events = Vec::new();
    for round in 0..600 {
        events.push(any_event(&mut random));
        log.append(record(&events[events.len() - 1])).await.unwrap();
        match random.random_range(0..20) {
            0 => running.hot.clear().await,
            1 => tokio::time::sleep(Duration::from_millis(10)).await,
            2 if round % 3 == 0 => log.redeliver(),
            _ => {}
        }
    }
    running.drained().await;
    tables.assert_one_row_per_run();
    assert_eq!(tables.event_count(), reference::distinct(&events));
    let expected = reference::fold(&events, &[]);
    let stored = tables.visible_runs();
    assert_eq!(stored.len(), expected.len());
    for (run, columns) in &expected {
        assert_eq!(&stored[run], columns, "{run:?}, seed {seed}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_work_forgets_at_once_and_reads_its_runs_again() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    let running = worker::start_with(&log, Arc::new(tables.clone()), 1);
    let event = |run| record_of(run, "agent_start");
    for run in 0..5 {
        log.append(event(run)).await.unwrap();
    }
    running.drained().await;
    let before = running.hot.report();
    assert_eq!((before.entries, before.name.as_str()), (5, "hot_runs"));
    assert!(before.used_bytes > 0 && before.used_bytes <= before.max_bytes);
    log.append(record_of(0, "note")).await.unwrap();
    running.drained().await;
    let hot = running.hot.report();
    assert_eq!((hot.hits, hot.misses), (before.hits + 1, before.misses));

    running.hot.clear().await;
    until_none(&running.hot).await;
    assert_eq!(running.hot.report().used_bytes, 0);
    let lookups = tables.lookups();
    log.append(record_of(1, "agent_end")).await.unwrap();
    running.drained().await;
    let cold = running.hot.report();
    assert_eq!((cold.hits, cold.misses), (hot.hits, hot.misses + 1));
    assert!(tables.lookups() > lookups);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_under_way_holds_nobody_up_and_leaves_nothing_behind() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    let held = HeldTables::new(Arc::new(tables.clone()));
    let running = worker::start_with(&log, Arc::new(held.clone()), 1);
    held.hold(true);
    log.append(record_of(0, "agent_start")).await.unwrap();
    // The insert is held from here on; what it stores is put among the hot runs after it.
    let is_held = tokio::time::timeout(Duration::from_secs(20), held.has_one());
    is_held.await.expect("the step stores");
    let cleared = tokio::time::timeout(Duration::from_secs(1), running.hot.clear());
    cleared.await.expect("it does not wait for the step");
    held.hold(false);
    running.drained().await;
    until_none(&running.hot).await;
    log.append(record_of(0, "agent_end")).await.unwrap();
    running.drained().await;
    let report = running.hot.report();
    assert_eq!((report.hits, report.misses), (0, 1), "read again");
    tables.assert_one_row_per_run();
    running.stop().await.unwrap();
}

fn record_of(run: usize, name: &str) -> eventlog::Record {
    let mut event = worker::event(run);
    event["name"] = name.into();
    worker::record(&[event])
}
