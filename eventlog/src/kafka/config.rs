//! How to reach Kafka, and how a topic has to be.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Compression of what is sent to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// LZ4: little CPU.
    #[default]
    Lz4,
    /// Zstandard: smaller, more CPU.
    Zstd,
}

/// Settings of a topic and of its clients in this process.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port` of some brokers, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Names this process in the brokers' logs and metrics.
    pub client_id: String,
    /// Partitions of the topic when it is made here. One that exists keeps its own.
    pub partitions: u32,
    /// Replicas of each partition when the topic is made here.
    pub replication: u32,
    /// Replicas that have to hold a record before it is acknowledged, when the topic is made here.
    pub min_insync_replicas: u32,
    /// How long records are kept when the topic is made here. Longer than processing may ever be away.
    pub retention: Duration,
    /// Whether the topic is made if it is not there, and checked. Off where topics are not this process's business:
    /// then it has to be there and to fit.
    pub manage_topic: bool,
    /// The largest record: key, headers and payload. The topic is made, and checked, to take it.
    pub max_record_bytes: usize,
    /// Compression of what is sent.
    pub compression: Compression,
    /// How long a record waits for others to be sent with.
    pub linger: Duration,
    /// Bytes that may wait to be sent or acknowledged. Beyond it appends are refused as full (X1).
    pub max_in_flight_bytes: usize,
    /// How long an append may take, retries included, before it is refused as away.
    pub append_timeout: Duration,
    /// After so long without a sign of life a member's partitions are given to others.
    pub session_timeout: Duration,
    /// Names a member across restarts (static membership): it gets its partitions back if it returns within the
    /// session time-out. Members of one process get a number behind it. `None`: a new member every time.
    pub instance_id: Option<String>,
    /// Members this process joins with: each gets its share of `max_prefetch_bytes`.
    pub members: u32,
    /// Bytes read ahead of what was delivered, for all members of this process together.
    pub max_prefetch_bytes: usize,
    /// Settings of the client library as they are: TLS, SASL and whatever else. They win over those made here, but
    /// for those that the log's promises rest on, which are refused.
    pub properties: BTreeMap<String, String>,
}

impl KafkaConfig {
    /// The defaults for these brokers and this topic.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            client_id: "spindle".to_owned(),
            partitions: 12,
            replication: 1,
            min_insync_replicas: 1,
            retention: Duration::from_secs(7 * 86_400),
            manage_topic: true,
            max_record_bytes: 4 << 20,
            compression: Compression::Lz4,
            linger: Duration::from_millis(5),
            max_in_flight_bytes: 64 << 20,
            append_timeout: Duration::from_secs(10),
            session_timeout: Duration::from_secs(45),
            instance_id: None,
            members: 1,
            max_prefetch_bytes: 64 << 20,
            properties: BTreeMap::new(),
        }
    }
}

/// Without the values of the properties: some are secrets (X2).
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("client_id", &self.client_id)
            .field("partitions", &self.partitions)
            .field("replication", &self.replication)
            .field("max_record_bytes", &self.max_record_bytes)
            .field("session_timeout", &self.session_timeout)
            .field("instance_id", &self.instance_id)
            .field("properties", &self.properties.keys())
            .finish_non_exhaustive()
    }
}
