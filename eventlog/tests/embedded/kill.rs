//! `kill -9` of a process that appends: every acknowledged record is there afterwards, exactly once, in order
//! (L1, L2, R1).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use eventlog::{EmbeddedConfig, EmbeddedLog, Log, Position};
use prometheus::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{read_all, record, text};

const FOLDER: &str = "SPINDLE_KILL_TEST_FOLDER";
const ROUND: &str = "SPINDLE_KILL_TEST_ROUND";

fn config(folder: &str) -> EmbeddedConfig {
    let mut config = EmbeddedConfig::new(folder);
    config.partitions = 3;
    config.segment_bytes = 1 << 20;
    config
}

/// Not a test by itself: the process that the test below starts and kills. Without the environment it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let round = std::env::var(ROUND).unwrap();
    let log = EmbeddedLog::open(config(&folder), &Registry::new()).unwrap();
    let tasks = (0..8).map(|appender| {
        let (log, round) = (log.clone(), round.clone());
        tokio::spawn(async move {
            let key = format!("app-{appender}");
            for i in 0.. {
                let filler = "x".repeat((i * 701 + appender * 97) % 20_000);
                let payload = format!("{key}:{round}-{i:06}:{filler}");
                let at = log.append(record(&key, payload)).await.unwrap();
                let line = format!("ack {} {} {key}:{round}-{i:06}\n", at.partition, at.offset);
                // One write, so that a line is there whole or not at all.
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(tasks.collect::<Vec<_>>()).await;
}

fn killed_after(folder: &str, round: usize, acknowledged: usize, then: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child_that_appends_until_it_is_killed"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(FOLDER, folder)
        .env(ROUND, format!("{round:03}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < acknowledged {
        let line = lines.next().expect("the child ended by itself").unwrap();
        if line.starts_with("ack ") {
            seen.push(line);
        }
    }
    // The moment of the kill is random by intent: this is the fault, not a wait for something.
    std::thread::sleep(then);
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = lines.map_while(Result::ok);
    seen.extend(rest.filter(|line| line.starts_with("ack ")));
    seen
}

#[tokio::test]
async fn acknowledged_records_survive_kills_at_random_moments() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut acknowledged: BTreeMap<Position, String> = BTreeMap::new();
    for round in 0..8 {
        let count = rng.random_range(0..300);
        let then = Duration::from_micros(rng.random_range(0..20_000));
        for line in killed_after(path, round, count, then) {
            let fields: Vec<&str> = line.split(' ').collect();
            let at = Position {
                partition: fields[1].parse().unwrap(),
                offset: fields[2].parse().unwrap(),
            };
            let before = acknowledged.insert(at, fields[3].to_owned());
            assert_eq!(before, None, "{at:?} was acknowledged twice");
        }
    }
    let log = EmbeddedLog::open(config(path), &Registry::new()).unwrap();
    let mut found = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for stored in read_all(&log, "check").await {
        let payload = text(&stored);
        let mut parts = payload.split(':').map(str::to_owned);
        let (key, number) = (parts.next().unwrap(), parts.next().unwrap());
        let name = format!("{key}:{number}");
        assert!(names.insert(name.clone()), "{name} is there twice");
        found.insert(stored.position, name);
        if let Some(before) = last.insert(key, number.clone()) {
            assert!(before < number, "{before} before {number}");
        }
    }
    println!("{} acknowledged, {} found", acknowledged.len(), found.len());
    for (at, name) in &acknowledged {
        assert_eq!(found.get(at), Some(name), "{at:?}");
    }
}
