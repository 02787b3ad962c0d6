//! Settings of the embedded log.

use std::path::PathBuf;

use crate::LogError;

/// The defaults suit a server of two cores with a local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedConfig {
    /// The folder of the log, created if it does not exist. One process at a time.
    pub folder: PathBuf,
    /// Number of partitions (default 8). Fixed when the folder is created: opening it with another number fails,
    /// because keys would change their partition.
    pub partitions: u32,
    /// Bound on disk (default 16 GiB): an append that would exceed it fails with [`LogError::Full`] at once. Counts
    /// what a record takes in its file, padding included.
    pub max_bytes: u64,
    /// A segment file is closed at this size and the next one begun (default 256 MiB). A segment is removed as a whole
    /// once every group has committed past it. At most a quarter of `max_bytes` is used.
    pub segment_bytes: u64,
    /// A larger record fails with [`LogError::TooLarge`] (default 16 MiB).
    pub max_record_bytes: usize,
    /// Records that are not yet durable (default 64 MiB); beyond it, [`LogError::Full`].
    pub max_in_flight_bytes: usize,
    /// Upper bound on one write with one `fdatasync` (default 8 MiB).
    pub max_group_bytes: usize,
    /// Memory for recent records, for members that read right behind (default 64 MiB). Records are dropped once
    /// delivered, and not kept at all while there is no member.
    pub max_tail_bytes: usize,
    /// Page cache of one open segment in the store (default 4 MiB); at most three segments are open.
    pub page_cache_bytes: usize,
}

impl EmbeddedConfig {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        EmbeddedConfig {
            folder: folder.into(),
            partitions: 8,
            max_bytes: 16 << 30,
            segment_bytes: 256 << 20,
            max_record_bytes: 16 << 20,
            max_in_flight_bytes: 64 << 20,
            max_group_bytes: 8 << 20,
            max_tail_bytes: 64 << 20,
            page_cache_bytes: 4 << 20,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        let fault = if self.partitions == 0 || self.partitions > 4096 {
            "partitions must be 1 to 4096"
        } else if self.max_record_bytes > 1 << 30 {
            "max_record_bytes must be at most 1 GiB"
        } else if self.max_in_flight_bytes < self.max_record_bytes {
            "max_in_flight_bytes must not be below max_record_bytes"
        } else if self.max_bytes < 64 << 10 {
            "max_bytes must be at least 64 KiB"
        } else {
            return Ok(());
        };
        Err(LogError::Settings(fault.to_owned()))
    }

    pub(crate) fn segment_limit(&self) -> u64 {
        self.segment_bytes.min(self.max_bytes / 4)
    }
}
