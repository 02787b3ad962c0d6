//! The log over real Kafka brokers, and over the client library's mock of one for rare errors.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use eventlog::conformance::broker::Cluster;
use eventlog::conformance::{self, Place, Subject};
use eventlog::{KafkaConfig, KafkaLog, Log, Record};
use prometheus::Registry;

mod brokers;
mod errors;
mod growth;
mod membership;

/// A separate topic for each test, with short time-outs.
fn config(brokers: &str, partitions: u32) -> KafkaConfig {
    let topic = format!("test-{:016x}", rand::random::<u64>());
    let mut config = KafkaConfig::new(brokers, topic);
    config.partitions = partitions;
    config.session_timeout = Duration::from_secs(3);
    config
}

async fn open(config: &KafkaConfig) -> KafkaLog {
    let opened = KafkaLog::open(config.clone(), &Registry::new()).await;
    opened.unwrap()
}

fn record(key: &str, payload: &str) -> Record {
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        headers: Vec::new(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
    }
}

async fn append(log: &KafkaLog, count: usize) {
    for i in 0..count {
        let record = record(&format!("app-{i}"), &format!("{i:04}"));
        log.append(record).await.unwrap();
    }
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    // Brokers that start, and groups that find each other, on a busy computer.
    match tokio::time::timeout(Duration::from_secs(180), future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for: {what}"),
    }
}

struct Kafka;

struct KafkaPlace(KafkaConfig);

#[async_trait]
impl Subject for Kafka {
    async fn place(&self, partitions: u32, max_bytes: Option<u64>) -> Option<Box<dyn Place>> {
        // Kafka's retention is by time: there is no bound on bytes to reach.
        if max_bytes.is_some() {
            return None;
        }
        let brokers = Cluster::shared().bootstrap();
        Some(Box::new(KafkaPlace(config(&brokers, partitions))))
    }
}

#[async_trait]
impl Place for KafkaPlace {
    async fn open(&self) -> Arc<dyn Log> {
        Arc::new(open(&self.0).await)
    }

    async fn grow(&self, log: &dyn Log, partitions: u32) -> bool {
        Cluster::shared()
            .grow(log.topic(), partitions as usize)
            .await;
        in_time("the new number", async {
            while log.partitions() != partitions {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kafka_log_keeps_the_contract() {
    conformance::all(&Kafka).await;
}
