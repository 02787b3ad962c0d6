//! One suite for every implementation of the log: what the contract in the crate documentation says, shown.
//!
//! A test calls [`all`] with its [`Subject`]. Every check runs in a place of its own and panics when the log does
//! not do what it promises. Nothing here sleeps or knows how fast a log is: a check waits for what has to come, at
//! most [`PATIENCE`].

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Delivery, Fetch, Log, Member, Position, Record, StoredRecord};

mod append;
pub mod broker;
mod consume;
mod look;
pub mod proxy;
mod rebalance;

/// How long anything may take before a check fails: a broker's rebalance takes seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An implementation under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A new, empty place for a log. `max_bytes` bounds what it keeps; `None` is returned when this implementation
    /// cannot be bounded.
    async fn place(&self, partitions: u32, max_bytes: Option<u64>) -> Option<Box<dyn Place>>;
}

/// A place where one log lives.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the log. Called again after the earlier one and its members are gone: a restart.
    async fn open(&self) -> Arc<dyn Log>;
}

/// Runs every check.
pub async fn all(subject: &dyn Subject) {
    append::all(subject).await;
    consume::all(subject).await;
    rebalance::all(subject).await;
    look::all(subject).await;
}

async fn place(subject: &dyn Subject, partitions: u32) -> Box<dyn Place> {
    let place = subject.place(partitions, None).await;
    place.expect("every implementation can be opened without a bound")
}

fn record(key: &str, payload: &str) -> Record {
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        headers: vec![("format".to_owned(), Bytes::from_static(b"1"))],
        payload: Bytes::copy_from_slice(payload.as_bytes()),
    }
}

fn fetch() -> Fetch {
    Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(50),
    }
}

async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain for: {what}"),
    }
}

/// A member with what it has been told so far, kept by the rules of the contract and checked against them.
struct Reader {
    member: Box<dyn Member>,
    /// Own partitions and the next offset expected to be at least.
    own: BTreeMap<u32, u64>,
    /// Told to be revoked, not yet given back.
    revoked: Vec<u32>,
    got: Vec<StoredRecord>,
}

impl Reader {
    async fn join(log: &dyn Log, group: &str) -> Reader {
        let member = log.join(group).await.expect("join");
        Reader {
            member,
            own: BTreeMap::new(),
            revoked: Vec::new(),
            got: Vec::new(),
        }
    }

    /// One call of `next`, its delivery taken in and checked.
    async fn step(&mut self) -> Delivery {
        for partition in std::mem::take(&mut self.revoked) {
            self.own.remove(&partition);
        }
        let delivery = self.member.next(fetch()).await.expect("next");
        match &delivery {
            Delivery::Assigned(positions) => {
                for Position { partition, offset } in positions {
                    let before = self.own.insert(*partition, *offset);
                    assert_eq!(before, None, "{partition} was this member's already");
                }
            }
            Delivery::Revoked(partitions) => {
                for partition in partitions {
                    assert!(self.own.contains_key(partition), "{partition} was not its");
                }
                self.revoked.clone_from(partitions);
            }
            Delivery::Lost(partitions) => {
                for partition in partitions {
                    self.own.remove(partition);
                }
            }
            Delivery::Records(records) => {
                assert!(!records.is_empty(), "records are never empty");
                for stored in records {
                    let at = stored.position;
                    let next = self.own.get_mut(&at.partition);
                    let next = next.expect("records come of own partitions only");
                    assert!(at.offset >= *next, "{at:?} after {next}: not in order");
                    *next = at.offset + 1;
                    self.got.push(stored.clone());
                }
            }
            Delivery::Idle => {}
        }
        delivery
    }

    /// Steps until it has this many records.
    async fn read(&mut self, count: usize) -> &[StoredRecord] {
        patiently(&format!("{count} records"), async {
            while self.got.len() < count {
                self.step().await;
            }
        })
        .await;
        &self.got
    }

    /// Steps until it owns this many partitions.
    async fn own(&mut self, count: usize) {
        patiently(&format!("{count} partitions"), async {
            while self.own.len() - self.revoked.len() != count || !self.revoked.is_empty() {
                self.step().await;
            }
        })
        .await;
    }

    /// Commits everything it has read of the partitions it has.
    async fn commit_all(&mut self) {
        for (partition, next) in &self.own {
            let done = self.member.commit(*partition, *next).await;
            done.expect("commit of an own partition");
        }
    }

    fn payloads(&self) -> Vec<String> {
        let texts = self.got.iter().map(|stored| {
            let bytes = stored.record.payload.to_vec();
            String::from_utf8(bytes).expect("the checks append text")
        });
        texts.collect()
    }
}
