//! The embedded log beyond the conformance suite: cut power, full disks, kills, damage, bounds.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod faults;
mod folder;
mod kill;
mod loss;
mod model;
mod power;
mod simulated_disk;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eventlog::{Delivery, EmbeddedConfig, EmbeddedLog, Fetch, Log, Record, StoredRecord};
use prometheus::Registry;

use simulated_disk::SimulatedDisk;

fn record(key: &str, payload: String) -> Record {
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        headers: Vec::new(),
        payload: Bytes::from(payload),
    }
}

fn text(stored: &StoredRecord) -> String {
    String::from_utf8(stored.record.payload.to_vec()).unwrap()
}

/// Small bounds, so that segments roll.
fn small() -> EmbeddedConfig {
    let mut config = EmbeddedConfig::new("not used");
    config.partitions = 3;
    config.segment_bytes = 64 << 10;
    config.max_bytes = 64 << 20;
    config
}

fn open(config: EmbeddedConfig, disk: &SimulatedDisk) -> EmbeddedLog {
    EmbeddedLog::open_on(config, Arc::new(disk.clone()), &Registry::new()).unwrap()
}

/// Everything that a new group, or one that reads again from its commit, receives.
async fn read_all(log: &EmbeddedLog, group: &str) -> Vec<StoredRecord> {
    let lag = log.lag(group).await.unwrap();
    let mut member = log.join(group).await.unwrap();
    let mut next: Vec<u64> = lag.iter().map(|lag| lag.committed).collect();
    let mut all = Vec::new();
    let fetch = Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(200),
    };
    while next.iter().zip(&lag).any(|(next, lag)| *next < lag.end) {
        match member.next(fetch).await.unwrap() {
            Delivery::Records(records) => {
                for stored in records {
                    let at = stored.position;
                    assert!(at.offset >= next[at.partition as usize], "order");
                    next[at.partition as usize] = at.offset + 1;
                    all.push(stored);
                }
            }
            // Offsets of failed appends at the very end: nothing more will come.
            Delivery::Idle => break,
            _ => {}
        }
    }
    all
}
