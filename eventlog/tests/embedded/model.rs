//! Random appends, reads, commits and restarts against a plain model.

use std::collections::BTreeMap;
use std::time::Duration;

use eventlog::{Delivery, EmbeddedConfig, EmbeddedLog, Fetch, Log, Member};
use proptest::prelude::*;

use super::simulated_disk::SimulatedDisk;
use super::{open, record, small, text};

#[derive(Clone, Debug)]
enum Step {
    /// Appends of these sizes at once, each by a separate key.
    Append(Vec<(u8, usize)>),
    Fetch(usize),
    /// Commits so many records less than were read, in every partition.
    Commit(u64),
    Rejoin,
    Restart,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let append = proptest::collection::vec((0u8..6, 0usize..6000), 1..6);
    prop_oneof![
        4 => append.prop_map(Step::Append),
        4 => (1usize..20_000).prop_map(Step::Fetch),
        2 => (0u64..4).prop_map(Step::Commit),
        1 => Just(Step::Rejoin),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
    ]
}

#[derive(Default)]
struct Model {
    /// By partition, the appended records by offset.
    records: BTreeMap<u32, Vec<String>>,
    read: BTreeMap<u32, u64>,
    committed: BTreeMap<u32, u64>,
}

struct Run {
    config: EmbeddedConfig,
    disk: SimulatedDisk,
    log: Option<EmbeddedLog>,
    member: Option<Box<dyn Member>>,
    model: Model,
    count: usize,
}

impl Run {
    async fn restart(&mut self, killed: bool) {
        let disk = if killed {
            self.disk.after_kill()
        } else {
            self.disk.clone()
        };
        self.member = None;
        self.log = None;
        self.disk = disk;
        let log = open(self.config.clone(), &self.disk);
        self.log = Some(log);
        self.join().await;
    }

    async fn join(&mut self) {
        self.member = None;
        self.member = Some(self.log.as_ref().unwrap().join("g").await.unwrap());
        self.model.read = self.model.committed.clone();
    }

    async fn append(&mut self, sizes: Vec<(u8, usize)>) {
        let log = self.log.as_ref().unwrap();
        let sent: Vec<(String, String)> = sizes
            .into_iter()
            .map(|(key, size)| {
                self.count += 1;
                let payload = format!("{:05}{}", self.count, "y".repeat(size));
                (format!("app-{key}"), payload)
            })
            .collect();
        let appends = sent
            .iter()
            .map(|(key, payload)| log.append(record(key, payload.clone())));
        for (answer, (_, payload)) in futures::future::join_all(appends)
            .await
            .into_iter()
            .zip(&sent)
        {
            let at = answer.unwrap();
            let records = self.model.records.entry(at.partition).or_default();
            // They were asked for in this order, and nothing fails here: no holes.
            assert_eq!(at.offset, records.len() as u64);
            records.push(payload.clone());
        }
    }

    async fn fetch(&mut self, max_bytes: usize) {
        let fetch = Fetch {
            max_bytes,
            max_wait: Duration::ZERO,
        };
        let member = self.member.as_mut().unwrap();
        match member.next(fetch).await.unwrap() {
            Delivery::Records(records) => {
                for stored in records {
                    let at = stored.position;
                    let next = self.model.read.entry(at.partition).or_insert(0);
                    assert_eq!(at.offset, *next);
                    assert_eq!(
                        text(&stored),
                        self.model.records[&at.partition][at.offset as usize]
                    );
                    *next += 1;
                }
            }
            Delivery::Assigned(positions) => {
                for at in positions {
                    let committed = self.model.committed.get(&at.partition).copied();
                    assert_eq!(at.offset, committed.unwrap_or(0));
                }
            }
            Delivery::Idle => {
                for (partition, records) in &self.model.records {
                    let read = self.model.read.get(partition).copied().unwrap_or(0);
                    assert_eq!(read, records.len() as u64, "idle, but not at the end");
                }
            }
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&mut self, less: u64) {
        let member = self.member.as_mut().unwrap();
        for (partition, read) in &self.model.read {
            let offset = read.saturating_sub(less);
            match member.commit(*partition, offset).await {
                Ok(()) => {
                    let committed = self.model.committed.entry(*partition).or_insert(0);
                    *committed = (*committed).max(offset);
                }
                // It has not been assigned yet.
                Err(error) => assert!(matches!(error, eventlog::LogError::NotAssigned(_))),
            }
        }
        for lag in self.log.as_ref().unwrap().lag("g").await.unwrap() {
            let committed = self.model.committed.get(&lag.partition).copied();
            assert_eq!(lag.committed, committed.unwrap_or(0));
            let records = self.model.records.get(&lag.partition);
            assert_eq!(lag.end, records.map_or(0, Vec::len) as u64);
        }
    }
}

async fn run(steps: Vec<Step>, tail: usize) {
    let mut config = small();
    config.max_tail_bytes = tail;
    let mut run = Run {
        config,
        disk: SimulatedDisk::default(),
        log: None,
        member: None,
        model: Model::default(),
        count: 0,
    };
    run.restart(false).await;
    for step in steps {
        match step {
            Step::Append(sizes) => run.append(sizes).await,
            Step::Fetch(bytes) => run.fetch(bytes).await,
            Step::Commit(less) => run.commit(less).await,
            Step::Rejoin => run.join().await,
            Step::Restart => run.restart(false).await,
            Step::Kill => run.restart(true).await,
        }
    }
    for _ in 0..10_000 {
        run.fetch(100_000).await;
        let done = run.model.records.iter().all(|(partition, records)| {
            run.model.read.get(partition).copied().unwrap_or(0) == records.len() as u64
        });
        if done {
            return;
        }
    }
    panic!("the end is never reached");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_embedded_log_is_as_its_model(
        steps in proptest::collection::vec(step(), 1..60),
        tail in prop_oneof![Just(0), Just(8_000), Just(1 << 20)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps, tail));
    }
}
