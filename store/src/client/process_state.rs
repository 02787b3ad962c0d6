//! State that all clones of one [`Store`](super::Store) share besides its connections: signals between parts of one
//! process.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use tokio::sync::{Mutex, watch};

/// Signals of changed jobs, for the runner in the same process; see [`crate::jobs`].
#[derive(Debug, Default)]
pub(crate) struct JobSignals {
    /// Number of jobs that this process queued.
    pub(crate) queued_here: watch::Sender<u64>,
    /// Number of changes in any process, as far as this one knows.
    pub(crate) changed: watch::Sender<u64>,
    /// One change at a time: each is a read and then a write.
    pub(crate) change: Mutex<()>,
}

/// Results of the last check for losses; see [`crate::maintenance::losses`].
pub(crate) type KnownLosses = watch::Sender<BTreeSet<StoredLoss>>;

/// Stored data that is no longer readable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredLoss {
    /// Recorded parts are missing.
    Missing {
        table: String,
        /// In most tables, a day.
        partition: String,
        /// Missing rows, duplicates included.
        rows: u64,
    },
    /// The engine could not read a part at its start, and detached it.
    Damaged {
        table: String,
        /// Path of the part.
        path: String,
    },
}

impl Display for StoredLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing {
                table,
                partition,
                rows,
            } => write!(
                f,
                "about {rows} rows of partition {partition} of the table {table} are missing"
            ),
            Self::Damaged { table, path } => write!(
                f,
                "a damaged part of the table {table} was set aside as {path}"
            ),
        }
    }
}
