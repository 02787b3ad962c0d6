//! Log in, rows out.
//!
//! The processor is a member of the consumer group `processor`. It gathers records into micro-batches, folds their
//! events into runs, writes `events` and `runs`, and commits. The path of a micro-batch:
//!
//! 1. [`decode`]: records become events; what cannot be read goes to the dead letters, with its reason.
//! 2. [`batch`]: the events of each run are folded on their own, then joined with what is known of the run: from the
//!    cache of hot runs ([`hot`]), or from the table. Which runs have no row at all is known without asking
//!    ([`known`]), so that a new run costs no look-up.
//! 3. [`lineage`]: roots, and agents and users inherited from ancestors, whatever arrived first.
//! 4. [`rows`]: what changed becomes rows, with a version from the log's position.
//! 5. [`worker`]: both tables are written, tried again for as long as the store is away, and only then the offsets
//!    are committed (P1).
//!
//! # Promises
//!
//! - A run's row is a pure function of the set of its events, and of its ancestors' (P2), whatever the order, the
//!   repetition, the cut into batches and the restarts between.
//! - A version never stands for less than a lower one did (P3).
//! - Nothing is committed that is neither stored nor in the dead letters (P1).
//!
//! It deliberately keeps nothing on disk of its own: all it needs to go on is in the log and in the tables.

pub mod batch;
pub mod config;
pub mod control;
mod dead_letter;
pub mod decode;
pub mod fence;
pub mod gate;
pub mod hot;
pub mod jobs;
pub mod known;
mod lag;
pub mod lineage;
pub mod metrics;
mod patient;
mod processor;
pub mod rows;
pub mod slices;
pub mod step;
pub mod tables;
pub mod totals;
mod worker;

pub use config::ProcessorConfig;
pub use control::Control;
pub use gate::{Gate, Keeper};
pub use hot::HotView;
pub use metrics::Metrics;
pub use processor::{Parts, Processor, Status};
pub use tables::{Rows, Tables};

/// The consumer group whose commits say what is stored.
pub const GROUP: &str = "processor";

/// Why the processor stopped.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The log cannot be read or committed to.
    #[error("the log failed: {0}")]
    Log(#[from] eventlog::LogError),
    /// The store refused what a retry cannot mend.
    #[error("the store refused: {0}")]
    Store(#[from] store::StoreError),
    /// The state in a row was not written by this version, or is damaged.
    #[error("run state in the table: {0}")]
    State(#[from] schemas::fold::StateFault),
    /// So many records in a row could not be processed that something else is wrong. None of the last ones is buried or
    /// committed.
    #[error(
        "{records} records in a row cannot be processed, the last one because: {reason}; if they are to be given up, \
         raise processor.poison_stop_records and start again, else look whether their writer and this program fit"
    )]
    AllBad {
        /// How many.
        records: u64,
        /// What is wrong with the last one; nothing of its content.
        reason: String,
    },
    /// The store refused the rows of a step. Workers find out which records are at fault.
    #[error("the store refused rows: {0}")]
    Refused(store::StoreError),
    /// The store refused everything there was to store: its tables are not those that this program knows.
    #[error(
        "the store refuses every row, so the fault is in its tables or its settings: {0}; nothing was committed, \
         mend it (spindle migrate) and start again"
    )]
    AllRefused(store::StoreError),
    /// The partitions of a step went to another member before the step was stored. Workers see to it themselves.
    #[error("the partitions belong to another member")]
    Lost,
    /// Too much may have happened since a step began: its records have to be processed anew. Workers do.
    #[error("the step took longer than it may")]
    Lapsed,
    /// A worker ended without saying why.
    #[error("a worker panicked")]
    WorkerPanicked,
}
