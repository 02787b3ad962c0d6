//! Power cuts at random moments: acknowledged records are there, exactly once, in order (L1, L2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use eventlog::{EmbeddedLog, Log, Position};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::simulated_disk::SimulatedDisk;
use super::{open, read_all, record, small, text};

type Acknowledged = Arc<Mutex<BTreeMap<Position, String>>>;

/// Appends from several tasks until the log fails or the budget is used.
fn appenders(
    log: &EmbeddedLog,
    acknowledged: &Acknowledged,
    round: usize,
) -> Vec<tokio::task::JoinHandle<()>> {
    let tasks = (0..4).map(|appender| {
        let log = log.clone();
        let acknowledged = Arc::clone(acknowledged);
        tokio::spawn(async move {
            for i in 0..40 {
                let key = format!("app-{appender}");
                let filler = "x".repeat((appender * 977 + i * 131) % 9000);
                let payload = format!("{key}:{round:03}-{i:03}:{filler}");
                if let Ok(at) = log.append(record(&key, payload.clone())).await {
                    let before = acknowledged.lock().unwrap().insert(at, payload);
                    assert_eq!(before, None, "{at:?} was acknowledged twice");
                }
            }
        })
    });
    tasks.collect()
}

async fn check(log: &EmbeddedLog, acknowledged: &BTreeMap<Position, String>, group: &str) {
    let all = read_all(log, group).await;
    let mut found = BTreeMap::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for stored in &all {
        let before = found.insert(stored.position, text(stored));
        assert_eq!(before, None, "{:?} came twice", stored.position);
        let payload = text(stored);
        let mut parts = payload.split(':').map(str::to_owned);
        let (key, number) = (parts.next().unwrap(), parts.next().unwrap());
        if let Some(before) = last.insert(key, number.clone()) {
            assert!(before < number, "{before} before {number}");
        }
    }
    for (at, payload) in acknowledged {
        assert_eq!(found.get(at), Some(payload), "{at:?} is not what was there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_records_survive_power_cuts_at_random_moments() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..6 {
        let mut disk = SimulatedDisk::default();
        let acknowledged = Acknowledged::default();
        for round in 0..5 {
            let log = open(small(), &disk);
            let known = acknowledged.lock().unwrap().clone();
            check(&log, &known, &format!("check-{round}")).await;
            let tasks = appenders(&log, &acknowledged, round);
            let wanted = disk.syncs() + rng.random_range(1..60);
            while disk.syncs() < wanted && tasks.iter().any(|task| !task.is_finished()) {
                tokio::task::yield_now().await;
            }
            // First the acknowledged records, then the cut: nothing acknowledged is newer than the cut.
            let before: BTreeMap<Position, String> = acknowledged.lock().unwrap().clone();
            let next = if rng.random_bool(0.8) {
                disk.after_power_cut(&mut rng)
            } else {
                disk.after_kill()
            };
            for task in tasks {
                task.await.unwrap();
            }
            drop(log);
            disk = next;
            // What was acknowledged after the cut never happened.
            *acknowledged.lock().unwrap() = before;
            println!(
                "case {case} round {round}: {} kept",
                acknowledged.lock().unwrap().len()
            );
        }
        let log = open(small(), &disk);
        let known = acknowledged.lock().unwrap().clone();
        check(&log, &known, "last").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_is_never_success_and_loses_nothing_that_was() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..6 {
        let disk = SimulatedDisk::default();
        let acknowledged = Acknowledged::default();
        let log = open(small(), &disk);
        for round in 0..4 {
            let tasks = appenders(&log, &acknowledged, round);
            let wanted = disk.syncs() + rng.random_range(1..30);
            while disk.syncs() < wanted && tasks.iter().any(|task| !task.is_finished()) {
                tokio::task::yield_now().await;
            }
            disk.fail_syncs(rng.random_range(1..3));
            for task in tasks {
                task.await.unwrap();
            }
            disk.fail_syncs(0);
            let known = acknowledged.lock().unwrap().clone();
            // Reading opens the files that failed again, and closes them: so a later sync hides whatever it would hide.
            check(&log, &known, &format!("check-{round}")).await;
        }
        let after = disk.after_power_cut(&mut rng);
        drop(log);
        let log = open(small(), &after);
        let known = acknowledged.lock().unwrap().clone();
        println!("case {case}: {} kept", known.len());
        check(&log, &known, "after").await;
    }
}
