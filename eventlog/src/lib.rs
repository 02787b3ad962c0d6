//! The event log: bytes in, offsets out, durable in between.
//!
//! The log knows nothing of what it carries. A record is a key, headers and a payload; the log decides the
//! partition by the key, gives it an offset, and hands it to the members of consumer groups.
//!
//! # Contract
//!
//! - **Durable** (L1): [`Log::append`] returns `Ok` only when the record survives `kill -9` and power loss.
//!   An error or a dropped future says nothing: the record may or may not be in the log.
//! - **Order** (L2): records of one key are in one partition, in the order in which their appends returned.
//!   Offsets of a partition grow strictly; they may have holes.
//! - **Delivery**: a group sees each record at least once, each partition in offset order, each partition at one
//!   member at a time. A member resumes at the group's committed offset, or at the oldest record kept.
//! - **Commit** (P1): a committed offset is the *next* one the group wants. It is durable when `commit` returns.
//!   Commits never move backwards.
//! - **Lease**: [`Member::lease`] says until when nobody else can be given the partitions of a member. Whoever writes
//!   elsewhere what it made of records does so within the lease, so that a member that slept through the loss of
//!   its partitions writes nothing afterwards.
//! - **Rebalance**: members come and go; what that means for one of them arrives in band, as a [`Delivery`].
//!   After `Revoked` the member may still commit those partitions until it calls `next` again: that call is its
//!   word that it is done with them. After `Lost` a commit of them is refused with [`LogError::NotAssigned`].
//! - **Bounds** (X1): a full log answers [`LogError::Full`] at once; nothing waits for ever, nothing is dropped.
//! - **Cancellation**: every future here may be dropped at an await point. A dropped `next` loses no record.
//!
//! What success does not mean: an appended record has not been processed, only kept.
//!
//! # Where to start reading
//!
//! [`Log`] and [`Member`], then [`embedded`] for the durable log of one process, [`kafka`] for that of many, and
//! [`memory`] for the one that tests use. What the two in a process share is `groups` (who reads which partition, a
//! pure state machine) and `member` (the loop a member runs). The suite in `conformance` (a feature) says what every
//! implementation has to show.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
mod groups;
pub mod kafka;
mod member;
pub mod memory;
mod partition;
mod scan;

pub use embedded::{EmbeddedConfig, EmbeddedLog};
pub use kafka::{KafkaConfig, KafkaLog};
pub use memory::MemoryLog;
pub use partition::partition_of;

/// What is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Decides the partition. All records of one key stay in order.
    pub key: Bytes,
    /// Small named values beside the payload; names are lower-case ASCII.
    pub headers: Vec<(String, Bytes)>,
    /// The content. Never looked into.
    pub payload: Bytes,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Partition, from 0.
    pub partition: u32,
    /// Offset in the partition, from 0, strictly growing.
    pub offset: u64,
}

/// A record as read back.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// Where it is.
    pub position: Position,
    /// What was appended, byte for byte.
    pub record: Record,
}

/// What a member of a group is told, in the order in which it happens.
#[derive(Debug)]
pub enum Delivery {
    /// These partitions are this member's from now on; records follow from the given offset.
    Assigned(Vec<Position>),
    /// These partitions go to another member once this one calls `next` again. Finish and commit first.
    Revoked(Vec<u32>),
    /// These partitions are already gone, without a chance to commit.
    Lost(Vec<u32>),
    /// Records, in offset order per partition. Never empty.
    Records(Vec<StoredRecord>),
    /// `max_wait` passed without anything new.
    Idle,
}

/// How much one call of [`Member::next`] may bring.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// Stop after this many payload bytes (at least one record is delivered whatever its size).
    pub max_bytes: usize,
    /// Return [`Delivery::Idle`] after this long without a record.
    pub max_wait: Duration,
}

/// How far a group is behind in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The partition.
    pub partition: u32,
    /// The next offset the group wants.
    pub committed: u64,
    /// The offset the next append will get.
    pub end: u64,
}

/// What a partition holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The partition.
    pub partition: u32,
    /// The oldest offset that may still be there.
    pub begin: u64,
    /// The offset the next append will get.
    pub end: u64,
}

/// What a log stands on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Brokers that answer for it; one where it is in this process.
    pub brokers: u32,
    /// Topics beside which it is, itself among them, but not the brokers' own.
    pub topics: u32,
    /// Bytes it holds and may hold, where it is bounded by bytes.
    pub bytes: Option<(u64, u64)>,
}

/// How long the partitions of a member are its own for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Until the member is told otherwise: the log lives in this process, so the word cannot come late.
    Held,
    /// Until this moment at least, however long the process sleeps meanwhile.
    Until(Instant),
}

/// One topic of a log. See the crate documentation for the contract.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Keeps the record; returns when it is durable.
    async fn append(&self, record: Record) -> Result<Position, LogError>;

    /// The same, in a partition of the caller's choice: for records that were appended once and have to go elsewhere.
    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError>;

    /// Joins a consumer group. Dropping the member leaves the group.
    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError>;

    /// How far the group is behind, per partition.
    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError>;

    /// Reads without a group and without commits, from these positions on: for looking, copying and broadcasts.
    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError>;

    /// What each partition holds.
    async fn bounds(&self) -> Result<Vec<Bounds>, LogError>;

    /// What it stands on.
    async fn inventory(&self) -> Result<Inventory, LogError>;

    /// How many partitions there are. May grow while the log is open, if others can add some.
    fn partitions(&self) -> u32;

    /// The name of the topic.
    fn topic(&self) -> &str;

    /// The largest record that can be appended: bytes of key, headers and payload, and what the log adds.
    fn max_record_bytes(&self) -> usize;

    /// Flushes what is in flight and refuses further appends with [`LogError::Closed`].
    async fn close(&self);
}

/// One member of a consumer group.
#[async_trait]
pub trait Member: Send {
    /// The next thing this member has to know. Safe to drop and call again.
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError>;

    /// Commits: `next_offset` is the first offset of `partition` that the group still wants.
    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError>;

    /// Until when nobody else is given the partitions this member has. Asks the log again when what it knows is old;
    /// [`LogError::NotAssigned`] when it has none any more, although it may not have been told yet.
    async fn lease(&mut self) -> Result<Lease, LogError>;
}

/// Reads partitions from given positions on.
#[async_trait]
pub trait Reader: Send {
    /// The next records, in offset order per partition; none when `max_wait` passed without any.
    /// Safe to drop and call again.
    async fn next(&mut self, fetch: Fetch) -> Result<Vec<StoredRecord>, LogError>;
}

/// Why the log could not do it. A variant exists where a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The bound on disk or in flight is reached: answer 503 with `Retry-After`.
    #[error("the log is full: {0}")]
    Full(String),
    /// The record alone is over the log's limit: it can never be appended.
    #[error("the record of {bytes} bytes is over the log's limit of {limit}")]
    TooLarge {
        /// Size of the record.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The log or its disk cannot be reached or written now; it may come back.
    #[error("the log is away: {0}")]
    Unavailable(String),
    /// The partition is not this member's (any more): what was read from it belongs to another member.
    #[error("partition {0} is not assigned to this member")]
    NotAssigned(u32),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The log's settings do not fit its data or its surroundings: a person has to change one of them.
    #[error("the log cannot be opened so: {0}")]
    Settings(String),
    /// What is on disk is not what was written.
    #[error("the log is damaged: {0}")]
    Damaged(String),
}

impl LogError {
    /// Whether the same call may succeed later without anyone's help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, LogError::Full(_) | LogError::Unavailable(_))
    }

    /// Why a record was refused, as the metrics name it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            LogError::Full(_) => "full",
            LogError::TooLarge { .. } => "too_large",
            LogError::Closed => "closed",
            _ => "unavailable",
        }
    }
}
