//! Inputs and actions of the machine.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use eventlog::{Delivery, Fetch, Lag, LogError, Position, StoredRecord};
use schemas::ids::ProjectId;
use store::StoreError;

use crate::dead_letter::Poison;
use crate::error::ProcessorError;
use crate::step::Stored;
use crate::worker::placing::Misplaced;

#[derive(Debug)]
pub(in crate::worker) enum Input {
    /// The process stops. Ends [`Action::Fetch`], [`Action::Pause`] and [`Action::BeginStep`]; other actions are
    /// answered afterwards.
    StopRequested,
    Joined,
    Delivered(Delivery),
    /// Empty when the ends cannot be read now.
    Ends(Vec<Lag>),
    /// `placed_by` is the number of partitions that keys are placed by, where several processes place them.
    StepBegun {
        placed_by: Option<u32>,
    },
    /// The records are durable in their own partitions.
    Moved,
    Store(StoreOutcome),
    LeaseHeld,
    PartitionsLost,
    /// The record is durable in the dead-letter topic.
    DeadLettered,
    Committed,
    /// The slices are durable in the log, except the ones that a full log did not take.
    SlicesAppended {
        not_taken: VecDeque<StoredRecord>,
    },
    PauseOver,
    LogFailed(LogError),
    /// The action ended early because the process stops.
    Interrupted,
    /// An operator has to act.
    Failed(ProcessorError),
}

/// Result of [`Action::Store`].
#[derive(Debug)]
pub(in crate::worker) enum StoreOutcome {
    /// The rows are stored. The continuations have to be stored before the records are committed.
    Stored {
        stored: Stored,
        continuations: Vec<StoredRecord>,
    },
    /// The store rejects rows of some records; other rows may be stored.
    Rejected(StoreError),
    /// The lease expired before all rows were stored; some rows may be stored.
    LeaseExpired,
}

/// What the driver does. The answer is in parentheses; an action without one completes at once.
#[derive(Clone, Debug)]
pub(in crate::worker) enum Action {
    /// Join the group ([`Input::Joined`]).
    Join,
    /// Leave the group, because partitions were lost in the middle of a step.
    Leave,
    /// Receive from the log ([`Input::Delivered`]).
    Fetch(Fetch),
    /// Read the ends of the partitions ([`Input::Ends`]).
    ReadEnds,
    /// Clear the hot runs: other processes may have written them.
    ClearHotRuns,
    /// Wait until steps may begin, and learn which tables changed ([`Input::StepBegun`]).
    BeginStep {
        /// Partitions were assigned since the last step: another process may have written their runs.
        is_new_owner: bool,
    },
    EndStep,
    /// Append records to their own partitions ([`Input::Moved`]).
    Move(Vec<Misplaced>),
    /// Store the rows of these records ([`Input::Store`]).
    Store(ToStore),
    /// Ask whether this member still owns the partitions ([`Input::LeaseHeld`]).
    CheckLease,
    /// Append a record to the dead-letter topic ([`Input::DeadLettered`]).
    DeadLetter {
        source: StoredRecord,
        bad: Poison,
    },
    /// Commit the next offset of a partition ([`Input::Committed`]).
    Commit(Position),
    /// Append slices to the log again, behind records that arrived meanwhile ([`Input::SlicesAppended`]).
    AppendSlices(VecDeque<StoredRecord>),
    /// Wait ([`Input::PauseOver`]).
    Pause(Duration),
    /// Log a failure that is retried.
    Warn {
        failed: &'static str,
        error: Arc<LogError>,
    },
    /// Count accepted events that are stored and committed (P4).
    CountStored(Vec<(ProjectId, u64)>),
    /// Record the metrics of a committed step.
    ObserveStep {
        events: u64,
        took: Duration,
    },
    End,
}

#[derive(Clone, Debug)]
pub(in crate::worker) struct ToStore {
    pub(in crate::worker) records: Arc<Vec<StoredRecord>>,
    pub(in crate::worker) range: Range<usize>,
    /// See [`crate::step::Sources::assume_partial_writes`].
    pub(in crate::worker) assume_partial_writes: bool,
}
