//! Log in, rows out.
//!
//! The processor is a member of the consumer group `processor`. It gathers records into micro-batches, folds their
//! events into runs, writes `events` and `runs`, and commits. The path of a micro-batch:
//!
//! 1. [`step::decode`]: records become events; unreadable ones are dead-lettered with their reason.
//! 2. [`step::batch`]: the events of each run are folded, then joined with the stored state of the run: from the cache
//!    of hot runs ([`hot`]), or from the table. A filter ([`known_runs`]) knows which runs have no row, so a new run
//!    costs no look-up.
//! 3. [`step::lineage`]: roots, and agents and users inherited from ancestors, in whatever order the runs arrived.
//! 4. [`step::rows`]: what changed becomes rows, with a version from the log's position.
//! 5. [`worker`]: the tables are written, with retries while the store is away, and only then the offsets are committed
//!    (P1).
//!
//! # Promises
//!
//! - A run's row is a pure function of the set of its events and of its ancestors' events (P2), whatever the order, the
//!   duplicates, the batches and the restarts.
//! - A version never stands for less than a lower one did (P3).
//! - Nothing is committed that is neither stored nor dead-lettered (P1).
//!
//! The processor deliberately keeps nothing on disk: everything it needs to continue is in the log and in the tables.

mod backoff;
mod config;
pub mod dead_letter;
mod dependencies;
mod error;
mod hot;
pub mod jobs;
pub mod known_runs;
mod lag;
mod late_marks;
mod metrics;
mod partitioning;
mod processor;
pub mod run;
mod stalls;
mod status;
pub mod step;
mod stop;
mod tables;
mod watchdog;
mod worker;

pub use config::{GROUP, Limits, ProcessorConfig};
pub use dependencies::Dependencies;
pub use error::ProcessorError;
pub use hot::{HotRuns, HotView};
pub use late_marks::LateMarks;
pub use metrics::Metrics;
pub use processor::Processor;
pub use status::Status;
pub use tables::{Rows, Tables};

#[cfg(test)]
#[path = "../../tests/golden/golden.rs"]
mod golden;
