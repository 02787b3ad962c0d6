//! When a worker stores what, and when it commits.
//!
//! A pure state machine: [`Machine::handle`] takes one [`Input`] and the time, and returns the [`Action`]s that follow.
//! Only the last of them is answered, by the next input. Everything else (the member, the tables, the caches) belongs
//! to the driver, [`super::Worker`].
//!
//! A micro-batch passes through [`gathering`], [`storing`] (changes in large trees also through [`slices_in_hand`]) and
//! [`committing`]; this module holds the state, the transitions, and what follows an error or a stop.
//!
//! # Promises
//!
//! - An offset is committed only after every record below it is stored, dead-lettered, or durable in the partition of
//!   its key (P1).
//! - Records of partitions that were lost are neither stored nor committed.
//! - At most one micro-batch is in hand: [`Settings::batch_bytes`] and one record (X1).
//! - After a lease expired, or an insert was rejected, records are stored again only with `assume_partial_writes`.
//! - A stop flushes the step in hand, without a further retry; everything not committed stays in the log.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::{Delivery, LogError, Position};
use schemas::ids::ProjectId;

use super::step_plan::StepPlan;
use super::takeovers::Takeovers;
use crate::backoff::Backoff;
use crate::error::ProcessorError;
use gathering::Gathered;
use slices_in_hand::SlicesInHand;
use step_in_hand::StepInHand;

pub(super) use messages::{Action, Input, StoreOutcome, ToStore};

mod committing;
mod gathering;
mod messages;
mod slices_in_hand;
mod step_in_hand;
mod storing;
#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) batch_bytes: usize,
    pub(super) batch_wait: Duration,
    pub(super) retry_pause_max: Duration,
    pub(super) poison_stop_records: u32,
}

/// Which answer the machine awaits.
#[derive(Debug)]
enum State {
    Joining,
    Fetching,
    ReadingEnds(Vec<Position>),
    BeginningStep,
    Moving,
    Storing(ToStore),
    CheckingLease,
    DeadLettering,
    Committing,
    AppendingSlices,
    Pausing(Retry),
    Ended,
}

/// What follows a pause.
#[derive(Clone, Copy, Debug)]
enum Retry {
    Join,
    Fetch,
    DeadLetter,
    Commit,
}

#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    state: State,
    is_stopping: bool,
    gathered: Gathered,
    /// A change of the assignment, followed once everything gathered before it is processed.
    pending_change: Option<Delivery>,
    steps: VecDeque<StepPlan>,
    slices: Option<SlicesInHand>,
    step: StepInHand,
    /// Partitions of the records in hand whose commit was rejected: another member reads these records again.
    not_assigned: BTreeSet<u32>,
    takeovers: Takeovers,
    is_new_owner: bool,
    /// Records in a row that could not be processed.
    bad_in_a_row: u64,
    /// Accepted events that are stored and not yet committed, by project.
    uncounted: Vec<(ProjectId, u64)>,
    backoff: Backoff,
    rejoin_backoff: Backoff,
    actions: Vec<Action>,
    outcome: Result<(), ProcessorError>,
}

impl Machine {
    /// A machine that has not joined, and its first actions.
    pub(super) fn start(settings: Settings, now: Instant) -> (Self, Vec<Action>) {
        let machine = Self {
            settings,
            state: State::Joining,
            is_stopping: false,
            gathered: Gathered::default(),
            pending_change: None,
            steps: VecDeque::new(),
            slices: None,
            step: StepInHand::none(now),
            not_assigned: BTreeSet::new(),
            takeovers: Takeovers::default(),
            is_new_owner: false,
            bad_in_a_row: 0,
            uncounted: Vec::new(),
            backoff: Backoff::new(settings.retry_pause_max),
            rejoin_backoff: Backoff::new(settings.retry_pause_max),
            actions: Vec::new(),
            outcome: Ok(()),
        };
        (machine, vec![Action::Join])
    }

    /// Meaningful after [`Action::End`].
    pub(super) fn into_outcome(self) -> Result<(), ProcessorError> {
        self.outcome
    }

    /// Whether [`Input::StopRequested`] ends the action whose answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(
            self.state,
            State::Fetching | State::Pausing(_) | State::BeginningStep
        )
    }

    pub(super) fn handle(&mut self, input: Input, now: Instant) -> Vec<Action> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        match (state, input) {
            (state, Input::StopRequested) => self.stop(state, now),
            (State::Pausing(retry), Input::PauseOver) => self.retry(retry, now),
            (State::Joining, Input::Joined) => {
                self.act(Action::ClearHotRuns);
                self.takeovers.clear();
                self.uncounted.clear();
                self.fetch(now);
            }
            (State::Fetching, Input::Delivered(delivery)) => self.delivered(delivery, now),
            // The error returns with the next call; what is in hand is not delivered again and comes first.
            (State::Fetching, Input::LogFailed(_)) if !self.gathered.is_empty() => {
                self.process_gathered(now);
            }
            (State::Fetching, Input::LogFailed(LogError::Closed)) => self.end(Ok(())),
            (State::Fetching, Input::LogFailed(error)) => {
                self.backoff.reset();
                self.log_failed("reading from the log", error, Retry::Fetch);
            }
            (State::Joining, Input::LogFailed(error)) => {
                self.log_failed("joining the group", error, Retry::Join);
            }
            (State::ReadingEnds(positions), Input::Ends(ends)) => {
                self.takeovers
                    .assign(&positions, &ends, self.settings.batch_bytes);
                self.fetch(now);
            }
            (State::BeginningStep, Input::StepBegun { placed_by }) => self.begun(placed_by, now),
            (State::Moving, Input::Moved) => self.store_all(now),
            (State::Storing(to_store), Input::Store(outcome)) => {
                self.store_ended(to_store, outcome, now);
            }
            (State::CheckingLease, Input::LeaseHeld) => self.dead_letter(now),
            (State::DeadLettering, Input::DeadLettered) => self.dead_lettered(now),
            (State::DeadLettering, Input::LogFailed(error)) => {
                self.log_failed("dead-lettering a record", error, Retry::DeadLetter);
            }
            (State::Committing, Input::Committed) => self.committed(now),
            // The current owner reads the same records again, which changes nothing (P2).
            (State::Committing, Input::LogFailed(LogError::NotAssigned(partition))) => {
                self.not_assigned.insert(partition);
                self.commit(now);
            }
            (State::Committing, Input::LogFailed(error)) => {
                self.log_failed("committing an offset", error, Retry::Commit);
            }
            (State::AppendingSlices, Input::SlicesAppended { not_taken }) => {
                self.slices_appended(not_taken, now);
            }
            (_, Input::PartitionsLost) => self.rejoin(now),
            (_, Input::Interrupted) => self.end(Ok(())),
            (_, Input::Failed(error)) => self.end(Err(error)),
            (state, input) => {
                debug_assert!(false, "{input:?} is no answer in {state:?}");
                self.end(Err(ProcessorError::WorkerPanicked));
            }
        }
        std::mem::take(&mut self.actions)
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn act_and_wait(&mut self, action: Action, state: State) {
        self.actions.push(action);
        self.state = state;
    }

    fn stop(&mut self, state: State, now: Instant) {
        self.is_stopping = true;
        match state {
            State::Fetching => self.process_gathered(now),
            State::Pausing(_) | State::BeginningStep => self.end(Ok(())),
            // The answer still follows.
            state => self.state = state,
        }
    }

    fn end(&mut self, outcome: Result<(), ProcessorError>) {
        self.outcome = outcome;
        self.act_and_wait(Action::End, State::Ended);
    }

    fn log_failed(&mut self, failed: &'static str, error: LogError, retry: Retry) {
        if !error.is_retryable() {
            return self.end(Err(error.into()));
        }
        if self.is_stopping {
            return self.end(Ok(()));
        }
        let error = Arc::new(error);
        self.act(Action::Warn { failed, error });
        let pause = self.backoff.next();
        self.act_and_wait(Action::Pause(pause), State::Pausing(retry));
    }

    fn retry(&mut self, retry: Retry, now: Instant) {
        match retry {
            Retry::Join => self.act_and_wait(Action::Join, State::Joining),
            Retry::Fetch => self.fetch(now),
            Retry::DeadLetter => self.dead_letter(now),
            Retry::Commit => self.commit(now),
        }
    }

    /// Leaves the group and joins it again. The records in hand are delivered again, from the committed offset, to the
    /// owner at that time.
    fn rejoin(&mut self, now: Instant) {
        self.gathered = Gathered::default();
        self.pending_change = None;
        self.steps.clear();
        self.slices = None;
        self.step = StepInHand::none(now);
        self.act(Action::EndStep);
        self.act(Action::Leave);
        if self.is_stopping {
            return self.end(Ok(()));
        }
        self.backoff.reset();
        let pause = self.rejoin_backoff.next();
        self.act_and_wait(Action::Pause(pause), State::Pausing(Retry::Join));
    }
}
