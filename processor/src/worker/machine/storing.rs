//! Storing the steps of a micro-batch: rejected ranges are bisected, bad records dead-lettered.

use std::sync::Arc;
use std::time::Instant;

use super::step_in_hand::StepInHand;
use super::{Action, Machine, State, StoreOutcome, ToStore};
use crate::error::ProcessorError;
use crate::step::Stored;
use crate::worker::bisection::is_setup;
use crate::worker::placing::take_misplaced;
use crate::worker::step_plan::StepPlan;

impl Machine {
    pub(super) fn begin(&mut self, plan: StepPlan, now: Instant) {
        if plan.is_slices {
            return self.begin_slices(plan, now);
        }
        self.step = StepInHand::new(plan, now);
        self.begin_step();
    }

    /// Goes on after a step. A stop flushes only the step in hand.
    pub(super) fn next_step(&mut self, now: Instant) {
        match self.steps.pop_front() {
            Some(_) if self.is_stopping => self.end(Ok(())),
            Some(step) => self.begin(step, now),
            None => self.follow_change(now),
        }
    }

    pub(super) fn begin_step(&mut self) {
        let is_new_owner = self.is_new_owner;
        let action = Action::BeginStep { is_new_owner };
        self.act_and_wait(action, State::BeginningStep);
    }

    pub(super) fn begun(&mut self, placed_by: Option<u32>, now: Instant) {
        self.is_new_owner = false;
        let records = Arc::make_mut(&mut self.step.records);
        let misplaced = placed_by.map(|partitions| take_misplaced(records, partitions));
        match misplaced.filter(|misplaced| !misplaced.is_empty()) {
            Some(misplaced) => self.act_and_wait(Action::Move(misplaced), State::Moving),
            None => self.store_all(now),
        }
    }

    pub(super) fn store_all(&mut self, now: Instant) {
        if self.step.records.is_empty() {
            return self.stored(Stored::default(), now);
        }
        let all = self.step.all_records();
        self.store(all);
    }

    fn store(&mut self, to_store: ToStore) {
        let action = Action::Store(to_store.clone());
        self.act_and_wait(action, State::Storing(to_store));
    }

    pub(super) fn store_ended(&mut self, to_store: ToStore, outcome: StoreOutcome, now: Instant) {
        match outcome {
            StoreOutcome::Stored {
                stored,
                continuations,
            } => match self.step.range_stored(to_store, stored, continuations) {
                Some(_) if self.is_stopping => self.end(Ok(())),
                Some(continuations) => self.store(continuations),
                None => self.next_range(now),
            },
            StoreOutcome::Rejected(error) if is_setup(&error) && !self.step.is_bisected() => {
                self.end(Err(ProcessorError::AllRejected(error)));
            }
            StoreOutcome::Rejected(error) => {
                self.step.range_rejected(to_store, error);
                self.next_range(now);
            }
            StoreOutcome::LeaseExpired if self.is_stopping => self.end(Ok(())),
            // What was read of the tables may be old, and some rows may be stored. The records are still in hand.
            StoreOutcome::LeaseExpired => {
                self.step.start_over();
                self.act(Action::ClearHotRuns);
                self.act(Action::EndStep);
                self.begin_step();
            }
        }
    }

    fn next_range(&mut self, now: Instant) {
        if let Some(next) = self.step.next_range() {
            // Some rows of it may be stored, from the attempt before.
            self.act(Action::ClearHotRuns);
            return self.store(next);
        }
        match self.step.take_stored() {
            Ok(stored) => self.stored(stored, now),
            Err(error) => self.end(Err(ProcessorError::AllRejected(error))),
        }
    }

    fn stored(&mut self, stored: Stored, now: Instant) {
        self.bad_in_a_row = match stored.good_records {
            0 => self.bad_in_a_row + self.step.records.len() as u64,
            _ => 0,
        };
        let stops_at = u64::from(self.settings.poison_stop_records);
        if let Some(last) = stored.poison.last()
            && self.bad_in_a_row >= stops_at
        {
            return self.end(Err(ProcessorError::AllBad {
                records: self.bad_in_a_row,
                reason: last.code.as_str().to_owned(),
            }));
        }
        let has_poison = !stored.poison.is_empty();
        self.step.stored(stored);
        match has_poison {
            // After a loss the next owner finds the same poison, and dead-letters it.
            true => self.act_and_wait(Action::CheckLease, State::CheckingLease),
            false => self.commit(now),
        }
    }

    pub(super) fn dead_letter(&mut self, now: Instant) {
        let Some(bad) = self.step.poison.front().cloned() else {
            return self.commit(now);
        };
        let source = self.step.records[bad.record].clone();
        let action = Action::DeadLetter { source, bad };
        self.act_and_wait(action, State::DeadLettering);
    }

    pub(super) fn dead_lettered(&mut self, now: Instant) {
        self.step.poison.pop_front();
        self.backoff.reset();
        self.dead_letter(now);
    }
}
