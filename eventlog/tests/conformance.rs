//! The suite of the contract, on the logs that live in this process.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use eventlog::conformance::{self, Place, Subject};
use eventlog::{EmbeddedConfig, EmbeddedLog, Log, MemoryLog};

struct Memory;

struct MemoryPlace(Mutex<MemoryLog>);

#[async_trait]
impl Subject for Memory {
    async fn place(&self, partitions: u32, max_bytes: Option<u64>) -> Option<Box<dyn Place>> {
        let log = MemoryLog::new(partitions);
        if let Some(max_bytes) = max_bytes {
            log.set_max_bytes(max_bytes as usize);
        }
        Some(Box::new(MemoryPlace(Mutex::new(log))))
    }
}

#[async_trait]
impl Place for MemoryPlace {
    async fn open(&self) -> Arc<dyn Log> {
        let mut log = self.0.lock().unwrap();
        *log = log.restart();
        Arc::new(log.clone())
    }

    async fn grow(&self, _log: &dyn Log, partitions: u32) -> bool {
        self.0.lock().unwrap().grow(partitions);
        true
    }
}

struct Embedded {
    root: PathBuf,
    count: Mutex<u32>,
    tail: usize,
}

struct EmbeddedPlace(EmbeddedConfig);

#[async_trait]
impl Subject for Embedded {
    async fn place(&self, partitions: u32, max_bytes: Option<u64>) -> Option<Box<dyn Place>> {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let mut config = EmbeddedConfig::new(self.root.join(count.to_string()));
        config.partitions = partitions;
        config.max_tail_bytes = self.tail;
        config.segment_bytes = 64 << 10;
        if let Some(max_bytes) = max_bytes {
            config.max_bytes = max_bytes;
        }
        Some(Box::new(EmbeddedPlace(config)))
    }
}

#[async_trait]
impl Place for EmbeddedPlace {
    async fn open(&self) -> Arc<dyn Log> {
        let registry = prometheus::Registry::new();
        Arc::new(EmbeddedLog::open(self.0.clone(), &registry).unwrap())
    }
}

#[tokio::test]
async fn the_memory_log_keeps_the_contract() {
    conformance::all(&Memory).await;
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&Embedded {
        root: folder.path().to_owned(),
        count: Mutex::default(),
        tail: 1 << 20,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_log_keeps_the_contract_without_a_tail_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&Embedded {
        root: folder.path().to_owned(),
        count: Mutex::default(),
        tail: 0,
    })
    .await;
}
