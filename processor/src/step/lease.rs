//! How long a step may store its rows.
//!
//! Several processes read one log. When the group loses contact with the owner of a partition, it assigns the partition
//! to another process, and the former owner may be suspended in the middle of a step. When it resumes, its rows are
//! based on rows that are no longer the newest. So each insert has an expiry, from the lease of the member and from the
//! permit of the step, and the store rejects later inserts by the server's clock.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::error::ProcessorError;

/// Rows that wait longer than this for their insert are made again: they carry the time when they were made, and a
/// process that learns of new runs reads the runs of the last minutes; see [`crate::known_runs::KnownRuns`].
pub const ROWS_AGE_MAX: Duration = Duration::from_secs(300);

/// Limits how long rows may be stored that were made since the step began.
#[async_trait]
pub trait StepLease: Send + Sync {
    /// `None` if there is no expiry. Fails with [`ProcessorError::PartitionsLost`] when another member owns the
    /// records, with [`ProcessorError::LeaseExpired`] when they have to be processed again.
    async fn expires(&self) -> Result<Option<Instant>, ProcessorError>;
}

/// No expiry: for work that no other process does at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Unleased;

#[async_trait]
impl StepLease for Unleased {
    async fn expires(&self) -> Result<Option<Instant>, ProcessorError> {
        Ok(None)
    }
}
