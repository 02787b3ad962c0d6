//! Settings of the connection to Kafka and of a topic.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Compression of what is sent to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
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
    /// Partitions of a topic that is created here. An existing one keeps its number.
    pub partitions: u32,
    /// Replicas of each partition of a topic that is created here.
    pub replication: u32,
    /// Replicas that have to hold a record before it is acknowledged, for a topic that is created here.
    pub min_insync_replicas: u32,
    /// Retention of a topic that is created here: longer than processing may ever be away.
    pub retention: Duration,
    /// Whether the topic is created if it is missing, and checked. If not, it has to exist and to fit.
    pub manage_topic: bool,
    /// The largest record: key, headers and payload. The topic is created, and checked, to accept it.
    pub max_record_bytes: usize,
    /// Compression of what is sent.
    pub compression: Compression,
    /// How long a record waits for others in its batch.
    pub linger: Duration,
    /// Bytes that may be unsent or unacknowledged. Beyond it appends fail as full (X1).
    pub max_in_flight_bytes: usize,
    /// Time-out of an append, retries included.
    pub append_timeout: Duration,
    /// A member without a heartbeat for this long loses its partitions.
    pub session_timeout: Duration,
    /// Names a member across restarts (static membership): it gets its partitions back if it returns within the session
    /// time-out. Members of one process get a numeric suffix. `None`: a new name for each member, which leaves the group
    /// when it ends.
    pub instance_id: Option<String>,
    /// Members of this process: each gets its share of `max_prefetch_bytes`.
    pub members: u32,
    /// Bytes prefetched by all members of this process together.
    pub max_prefetch_bytes: usize,
    /// Settings passed to the client library: TLS, SASL and others. They override the log's settings, except those that
    /// its promises rest on, which are rejected.
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
            session_timeout: Duration::from_secs(12),
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
