//! The conformance suite of the contract in the crate documentation, for every implementation of the log.
//!
//! A test calls [`all`] with its [`Subject`]. Every check runs in a separate place and panics when the log breaks its
//! contract. Nothing here sleeps or depends on the speed of a log: a check waits for what has to happen, at most
//! [`PATIENCE`].

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

/// Time-out of every wait: a broker's rebalance takes seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An implementation under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A new, empty place for a log. `max_bytes` bounds what it keeps; `None` if this implementation cannot be bounded.
    async fn place(&self, partitions: u32, max_bytes: Option<u64>) -> Option<Box<dyn Place>>;
}

/// Storage of one log.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the log. Called again after the earlier log and its members are dropped: a restart.
    async fn open(&self) -> Arc<dyn Log>;

    /// Adds partitions to this open log of the place until it has so many, and returns when it knows them. `false`
    /// where that cannot be done.
    async fn grow(&self, _log: &dyn Log, _partitions: u32) -> bool {
        false
    }
}

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

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain for: {what}"),
    }
}

/// A member with everything it has received, checked against the contract.
struct Reader {
    member: Box<dyn Member>,
    /// Assigned partitions, and the least offset expected next.
    own: BTreeMap<u32, u64>,
    /// Revoked, and not yet given back.
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

    /// One call of `next`, with its delivery checked.
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

    async fn read(&mut self, count: usize) -> &[StoredRecord] {
        in_time(&format!("{count} records"), async {
            while self.got.len() < count {
                self.step().await;
            }
        })
        .await;
        &self.got
    }

    async fn own(&mut self, count: usize) {
        in_time(&format!("{count} partitions"), async {
            while self.own.len() - self.revoked.len() != count || !self.revoked.is_empty() {
                self.step().await;
            }
        })
        .await;
    }

    /// Commits everything it has read of its partitions.
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
