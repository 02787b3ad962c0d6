//! The event log: bytes in, offsets out, durable in between.
//!
//! The log does not interpret its contents. A record is a key, headers and a payload; the log chooses the partition by
//! the key, assigns an offset, and delivers it to the members of consumer groups.
//!
//! # Contract
//!
//! - **Durable** (L1): [`Log::append`] returns `Ok` only when the record survives `kill -9` and power loss. After an
//!   error or a dropped future the record may or may not be in the log.
//! - **Order** (L2): records of one key are in one partition, in the order in which their appends returned. Offsets of
//!   a partition grow strictly; they may have holes.
//! - **Delivery**: a group receives each record at least once, each partition in offset order, each partition at one
//!   member at a time. A member resumes at the group's committed offset, or at the oldest record kept.
//! - **Commit** (P1): a committed offset is the *next* one of the group. It is durable when `commit` returns. Commits
//!   never move backwards.
//! - **Lease**: [`Member::lease`] returns how long no other member can be assigned the partitions of a member. A
//!   consumer that writes elsewhere does so within the lease, so that a member that was suspended while it lost its
//!   partitions writes nothing afterwards.
//! - **Rebalance**: members join and leave; the consequences for a member arrive in band, as a [`Delivery`]. After
//!   `Revoked` the member may still commit those partitions until it calls `next` again: that call gives them back.
//!   After `Lost` a commit of them fails with [`LogError::NotAssigned`]. A commit that fails so earlier is followed by
//!   `Lost`, and its records are delivered again.
//! - **Bounds** (X1): a full log answers [`LogError::Full`] at once; nothing waits for ever, nothing is dropped.
//! - **Cancellation**: every future here may be dropped at an await point. A dropped `next` loses no record.
//!
//! Success does not mean that an appended record has been processed, only that it is kept.
//!
//! # Where to start reading
//!
//! [`Log`] and [`Member`], then `embedded` for the durable log of one process, `kafka` for the log of many, and
//! `memory` for tests. The two logs within a process share `groups` (ownership of partitions, a pure state machine)
//! and `member` (the loop of a member). The suite in `conformance` (a feature) is the test of every implementation.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

#[cfg(feature = "conformance")]
pub mod conformance;
mod embedded;
mod groups;
mod kafka;
mod member;
mod memory;
mod partition;
mod scan;

pub use embedded::{Disk, EmbeddedConfig, EmbeddedLog, Loss};
pub use kafka::{Compression, KafkaConfig, KafkaLog};
pub use memory::{Fault, MemoryLog};
pub use partition::partition_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Determines the partition. All records of one key stay in order.
    pub key: Bytes,
    /// Small named values beside the payload; names are lower-case ASCII.
    pub headers: Vec<(String, Bytes)>,
    /// Opaque to the log.
    pub payload: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// From 0.
    pub partition: u32,
    /// From 0, strictly growing within the partition.
    pub offset: u64,
}

/// A record with its position.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    pub position: Position,
    /// What was appended, byte for byte.
    pub record: Record,
}

/// What a member of a group receives, in the order in which it happens.
#[derive(Debug)]
pub enum Delivery {
    /// The member owns these partitions from now on; records follow from the given offset.
    Assigned(Vec<Position>),
    /// The member loses these partitions when it calls `next` again. Finish and commit first.
    Revoked(Vec<u32>),
    /// The member has lost these partitions, without a chance to commit.
    Lost(Vec<u32>),
    /// Records, in offset order per partition. Never empty.
    Records(Vec<StoredRecord>),
    /// `max_wait` passed without anything new.
    Idle,
}

/// Bounds on one call of [`Member::next`].
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// Stop after this many payload bytes (at least one record is delivered whatever its size).
    pub max_bytes: usize,
    /// Return [`Delivery::Idle`] after this long without a record.
    pub max_wait: Duration,
}

/// The lag of a group in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    pub partition: u32,
    /// The next offset of the group.
    pub committed: u64,
    /// The offset the next append will get.
    pub end: u64,
}

/// The range of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub partition: u32,
    /// The oldest offset that may still exist.
    pub begin: u64,
    /// The offset the next append will get.
    pub end: u64,
}

/// A group as its log sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// What the log calls its state, such as `Stable`.
    pub name: String,
    /// By partition, the member that has it.
    pub owners: BTreeMap<u32, String>,
}

/// The brokers, topics and bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Brokers that answer; one for a log within this process.
    pub brokers: u32,
    /// Topics of the cluster, this one included, without the brokers' internal ones.
    pub topics: u32,
    /// Bytes used and allowed, where the log is bounded by bytes.
    pub bytes: Option<(u64, u64)>,
}

/// How long a member certainly owns its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Until the member receives a change: the log is in this process, so the change cannot come late.
    Held,
    /// At least until this moment, however long the process is suspended meanwhile.
    Until(Instant),
}

/// One topic of a log. See the crate documentation for the contract.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Returns when the record is durable.
    async fn append(&self, record: Record) -> Result<Position, LogError>;

    /// Appends to a chosen partition, for records that were appended once and have to move.
    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError>;

    /// Joins a consumer group. Dropping the member leaves the group.
    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError>;

    /// The lag of the group, by partition.
    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError>;

    /// The owners of the partitions of the group.
    async fn group_state(&self, group: &str) -> Result<GroupState, LogError>;

    /// Reads without a group and without commits, from these positions on: for inspection, copies and broadcasts.
    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError>;

    /// The range of each partition.
    async fn bounds(&self) -> Result<Vec<Bounds>, LogError>;

    async fn inventory(&self) -> Result<Inventory, LogError>;

    /// The number of partitions. May grow while the log is open, if other processes can add partitions.
    fn partitions(&self) -> u32;

    fn topic(&self) -> &str;

    /// The largest record that can be appended: bytes of key, headers and payload, and the log's overhead.
    fn max_record_bytes(&self) -> usize;

    /// Flushes appends in flight and fails further ones with [`LogError::Closed`].
    async fn close(&self);
}

/// One member of a consumer group.
#[async_trait]
pub trait Member: Send {
    /// The next event of this member. Safe to drop and call again.
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError>;

    /// `next_offset` is the first offset of `partition` that the group still wants.
    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError>;

    /// How long no other member is assigned the partitions of this member. Asks the log again when its knowledge is
    /// old; [`LogError::NotAssigned`] when the member owns none any more, even if no delivery has said so yet.
    async fn lease(&mut self) -> Result<Lease, LogError>;
}

/// Reads partitions from given positions on.
#[async_trait]
pub trait Reader: Send {
    /// The next records, in offset order per partition; none when `max_wait` passed without any. Safe to drop and call
    /// again.
    async fn next(&mut self, fetch: Fetch) -> Result<Vec<StoredRecord>, LogError>;
}

/// A variant exists where a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The bound on disk or in flight is reached: respond with 503 and `Retry-After`.
    #[error("the log is full: {0}")]
    Full(String),
    /// The record alone is over the log's limit: it can never be appended.
    #[error("the record of {bytes} bytes is over the log's limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
    /// The log or its disk cannot be reached or written now; a retry may succeed.
    #[error("the log is away: {0}")]
    Unavailable(String),
    /// This member does not own the partition (any more): its records belong to another member.
    #[error("partition {0} is not assigned to this member")]
    NotAssigned(u32),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The log's settings do not fit its data or its environment: an operator has to change one of them.
    #[error("the settings do not fit the log: {0}")]
    Settings(String),
    /// The data on disk differs from what was written.
    #[error("the log is damaged: {0}")]
    Damaged(String),
}

impl LogError {
    /// Whether a retry of the same call may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, LogError::Full(_) | LogError::Unavailable(_))
    }

    /// A copy: every append of a failed group gets one.
    pub(crate) fn duplicate(&self) -> LogError {
        match self {
            LogError::Full(what) => LogError::Full(what.clone()),
            LogError::Damaged(what) => LogError::Damaged(what.clone()),
            LogError::Settings(what) => LogError::Settings(what.clone()),
            LogError::Closed => LogError::Closed,
            LogError::NotAssigned(partition) => LogError::NotAssigned(*partition),
            LogError::TooLarge { bytes, limit } => LogError::TooLarge {
                bytes: *bytes,
                limit: *limit,
            },
            LogError::Unavailable(what) => LogError::Unavailable(what.clone()),
        }
    }

    /// The reason of a failed append, as a label of a metric.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            LogError::Full(_) => "full",
            LogError::TooLarge { .. } => "too_large",
            LogError::Closed => "closed",
            _ => "unavailable",
        }
    }
}

#[cfg(test)]
#[path = "../../tests/golden/golden.rs"]
mod golden;
