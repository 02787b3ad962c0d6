//! Platform administration: emptying caches, scanning the platform, starting processes.
//!
//! What this tier cannot see by itself it is told over traits, which the binary implements: it knows neither the log
//! nor the other processes.

pub(crate) mod cache;
pub(crate) mod pipeline;
pub(crate) mod process;
pub mod scan;

pub use cache::in_shape_of_clearing;
pub use process::headers;

use async_trait::async_trait;
use schemas::control::Present;

/// The one cache there is for callers: everything that processes keep in memory of the tables and of others.
pub const CORE_CACHE: &str = "svc:core:cache";

/// A process that said nothing for longer, in milliseconds, is not there. They say something every few seconds.
pub(crate) const HEARD_WITHIN_MS: u64 = 10_000;

/// The processes of the deployment, as this one hears of them.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Those that said lately that they are there, this one first. One that fell silent without taking its leave stays
    /// for a while, and `silent_ms` grows.
    fn processes(&self) -> Vec<Heard>;

    /// Has every process empty the caches of these names. Returns when all that are known said that they did, or after
    /// a bounded wait without. What is under way by then goes on.
    ///
    /// # Errors
    /// A reason for a person, when nothing was done.
    async fn clear(&self, names: &[String]) -> Result<Cleared, String>;
}

/// A process and when it was heard of.
#[derive(Clone, Debug)]
pub struct Heard {
    /// What it said last.
    pub present: Present,
    /// How long ago, milliseconds.
    pub silent_ms: u64,
}

impl Heard {
    /// Whether it is there: it said so lately, and does not leave.
    pub(crate) fn is_there(&self) -> bool {
        !self.present.leaves && self.silent_ms <= HEARD_WITHIN_MS
    }
}

/// What became of an order to empty caches, as far as was known when the answer was due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Names the order in the logs of all processes.
    pub order: String,
    /// What became of it in this process.
    pub here: ClearedHere,
    /// Whether the other processes were told for certain, or there are none to tell.
    pub is_told: bool,
    /// Processes that said that they did it, this one among them if it did.
    pub confirmed: usize,
    /// Processes that were there, this one among them.
    pub of: usize,
}

/// What became of an order to empty caches in the process that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearedHere {
    /// They hold nothing from before.
    Done,
    /// Something could not be read again.
    Failed,
    /// It goes on.
    UnderWay,
}

/// What is beside the tables: the log, the disk.
#[async_trait]
pub trait Infrastructure: Send + Sync {
    /// Asks the log about itself.
    ///
    /// # Errors
    /// Why it does not answer, for a person, without addresses or credentials.
    async fn log(&self) -> Result<LogReport, String>;

    /// `kafka` or `embedded`, whether it answers or not.
    fn log_kind(&self) -> &'static str;

    /// The disk of this process's data folder; nothing if it has none. May take long where the disk does not answer.
    async fn disk(&self) -> Option<DiskReport>;
}

/// The event log as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// `kafka` or `embedded`.
    pub kind: &'static str,
    /// Its version, `unknown` where it does not tell.
    pub version: String,
    /// Brokers that answer for it.
    pub brokers: u64,
    /// Topics there are.
    pub topics: u64,
    /// Records that wait to be processed; `None` where nobody knows now.
    pub lag_records: Option<u64>,
    /// Bytes it holds and may hold, where it is bounded.
    pub bytes: Option<(u64, u64)>,
}

/// A disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// Free for this process.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
}
