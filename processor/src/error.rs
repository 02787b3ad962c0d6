//! Errors of the processor.

/// Why the processor stopped, or a step failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The log cannot be read or committed to.
    #[error("event log: {0}")]
    Log(#[from] eventlog::LogError),
    /// The store failed, and a retry does not help.
    #[error("store: {0}")]
    Store(#[from] store::StoreError),
    /// The state in a row is damaged, or this version cannot read it.
    #[error("run state in the table: {0}")]
    State(#[from] schemas::fold::StateFault),
    /// So many records in a row could not be processed that the records are not at fault. The last ones are neither
    /// dead-lettered nor committed.
    #[error(
        "{records} records in a row cannot be processed, the last one because: {reason}; to dead-letter them, raise \
         processor.poison_stop_records and restart; otherwise check that their producer and this program match"
    )]
    AllBad {
        records: u64,
        /// The reason of the last one, without its content.
        reason: String,
    },
    /// The store rejected rows of a step. Workers find out which records are at fault.
    #[error("the store rejected rows: {0}")]
    Rejected(store::StoreError),
    /// The store rejected all rows: its tables do not have this program's schema.
    #[error(
        "the store rejects every row, so its tables or settings are at fault: {0}; nothing was committed, run \
         `spindle migrate` and restart"
    )]
    AllRejected(store::StoreError),
    /// The partitions of a step were reassigned before the step was stored. Workers join again.
    #[error("the partitions belong to another member")]
    PartitionsLost,
    /// The lease of a step expired before its rows were stored. Workers process its records again.
    #[error("the lease of the step expired")]
    LeaseExpired,
    /// A worker ended without an outcome.
    #[error("a worker panicked")]
    WorkerPanicked,
}

impl From<control::PermitLapsed> for ProcessorError {
    fn from(_: control::PermitLapsed) -> Self {
        Self::LeaseExpired
    }
}
