//! The log as a topic of Kafka.
//!
//! Appends go through one idempotent producer that waits for all in-sync replicas ([`KafkaLog::open`] creates or checks
//! the topic). Members are consumers of the classic group protocol with cooperative rebalancing; the library's
//! callbacks become deliveries. The lease of a member rests on commits: the broker accepts only commits of members, and
//! each one renews the session. `docs/decisions/0013-kafka-log.md` has the reasons.
//!
//! Start at `member` for reading and `producer` for appending; `settings` has the settings of the client library.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use prometheus::Registry;

use crate::{
    Bounds, GroupState, Inventory, Lag, Log, LogError, Member, Position, Reader, Record,
    partition_of,
};

mod commits;
mod config;
mod context;
mod errors;
mod instances;
mod leaving;
mod member;
mod metrics;
mod offsets;
mod producer;
mod reader;
mod rebalance;
mod settings;
mod topic;
mod wire;

pub use config::{Compression, KafkaConfig};

use instances::Instances;
use leaving::Leaving;
use member::TopicMember;
use metrics::Metrics;
use offsets::Offsets;
use producer::Producer;
use reader::TopicReader;

/// A topic of Kafka. Clones are the same log.
#[derive(Clone)]
pub struct KafkaLog {
    inner: Arc<Inner>,
}

/// Shared by the log, its members and its background task.
struct Inner {
    config: Arc<KafkaConfig>,
    metrics: Arc<Metrics>,
    producer: Producer,
    offsets: Offsets,
    instances: Instances,
    leaving: Leaving,
    partitions: AtomicU32,
}

impl KafkaLog {
    /// Creates or checks the topic, and opens it. [`LogError::Settings`] names everything that an operator has to
    /// change; [`LogError::Unavailable`] when no broker answers within `append_timeout`.
    ///
    /// Its metrics stay in the registry as long as the log exists; several topics may share one registry.
    pub async fn open(config: KafkaConfig, registry: &Registry) -> Result<Self, LogError> {
        config.check()?;
        let partitions = topic::ensure(&config).await?;
        let config = Arc::new(config);
        let metrics = Arc::new(Metrics::new(registry, &config.topic)?);
        metrics.partitions.set(i64::from(partitions));
        let inner = Arc::new(Inner {
            producer: Producer::new(Arc::clone(&config), Arc::clone(&metrics))?,
            offsets: Offsets::new(Arc::clone(&config), metrics.lost_records.clone())?,
            instances: Instances::default(),
            leaving: Leaving::default(),
            partitions: AtomicU32::new(partitions),
            metrics,
            config,
        });
        watch_growth(&inner);
        Ok(Self { inner })
    }

    pub fn config(&self) -> &KafkaConfig {
        &self.inner.config
    }
}

/// Checks every few seconds whether partitions were added. Ends with the log.
fn watch_growth(inner: &Arc<Inner>) {
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(settings::METADATA_REFRESH).await;
            let Some(inner) = inner.upgrade() else {
                return;
            };
            // Transient, or it shows elsewhere.
            let _ = topic::blocking(move || inner.look()).await;
        }
    });
}

impl Inner {
    /// Reads the number of partitions. Blocks.
    fn look(&self) {
        let Ok(now) = self.producer.partitions() else {
            return;
        };
        let before = self.partitions.fetch_max(now, Ordering::AcqRel);
        if now > before {
            let topic = self.config.topic.as_str();
            tracing::info!(topic, before, now, "the topic has more partitions");
            self.metrics.partitions.set(i64::from(now));
        }
    }

    fn all(&self) -> Vec<u32> {
        (0..self.partitions.load(Ordering::Acquire)).collect()
    }
}

#[async_trait]
impl Log for KafkaLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        let partition = partition_of(&record.key, self.partitions());
        self.append_to(partition, record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        if partition >= self.partitions() {
            return Err(LogError::Settings(format!("no partition {partition}")));
        }
        let appended = self.inner.producer.append(partition, record).await;
        let offset = appended.map_err(|error| self.inner.metrics.refuse(error))?;
        Ok(Position { partition, offset })
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        let member = TopicMember::join(Arc::clone(&self.inner), group)?;
        Ok(Box::new(member))
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.inner.offsets.lag(group, self.inner.all()).await
    }

    async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        self.inner.offsets.group_state(group).await
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        let reader = TopicReader::new(&self.inner.config, from)?;
        Ok(Box::new(reader))
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        self.inner.offsets.bounds(self.inner.all()).await
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        self.inner.offsets.inventory().await
    }

    fn partitions(&self) -> u32 {
        self.inner.partitions.load(Ordering::Acquire)
    }

    fn topic(&self) -> &str {
        &self.inner.config.topic
    }

    fn max_record_bytes(&self) -> usize {
        self.inner.config.max_record_bytes
    }

    async fn close(&self) {
        self.inner.producer.close().await;
        // Members that were dropped just before leave their groups explicitly, not by silence.
        self.inner
            .leaving
            .gone(self.inner.config.append_timeout)
            .await;
    }
}
