//! Access to the log and the disk.

use async_trait::async_trait;

/// The log and the disk.
#[async_trait]
pub trait Infrastructure: Send + Sync {
    /// # Errors
    /// Why the log does not answer, without addresses or credentials.
    async fn log(&self) -> Result<LogReport, String>;

    /// `kafka` or `embedded`, also while the log does not answer.
    fn log_kind(&self) -> &'static str;

    /// The disk of the data folder; `None` for a process without one. Takes long while the disk does not answer.
    async fn disk(&self) -> Option<DiskReport>;
}

/// The state of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// `kafka` or `embedded`.
    pub kind: &'static str,
    /// Version; `unknown` if the log does not report one.
    pub version: String,
    /// Number of brokers that answer.
    pub brokers: u64,
    /// Number of topics.
    pub topics: u64,
    /// Records that are not processed yet; `None` while unknown.
    pub lag_records: Option<u64>,
    /// Used and largest size of a bounded log in bytes.
    pub bytes: Option<(u64, u64)>,
}

/// A disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskReport {
    pub free_bytes: u64,
    pub total_bytes: u64,
}
