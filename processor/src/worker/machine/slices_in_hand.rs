//! Processing slices one by one, and appending the rest to the log again after a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use eventlog::StoredRecord;

use super::committing::Commits;
use super::step_in_hand::StepInHand;
use super::{Action, Machine, State};
use crate::step::slices;
use crate::worker::step_plan::StepPlan;

/// How long slices are processed before the records that arrived meanwhile have their turn.
const SLICES_TIME: Duration = Duration::from_secs(1);

/// Slices that are committed together; see [`crate::step::slices`].
#[derive(Debug)]
pub(super) struct SlicesInHand {
    waiting: VecDeque<StoredRecord>,
    began: Instant,
    pub(super) commits: Commits,
}

impl Machine {
    pub(super) fn begin_slices(&mut self, plan: StepPlan, now: Instant) {
        self.slices = Some(SlicesInHand {
            waiting: slices::merge(plan.records, plan.assume_partial_writes),
            began: now,
            commits: Commits::new(plan.commit),
        });
        self.next_slice(now);
    }

    pub(super) fn next_slice(&mut self, now: Instant) {
        let Some(slices) = &mut self.slices else {
            return self.next_step(now);
        };
        if slices.waiting.is_empty() {
            return self.commit(now);
        }
        if self.is_stopping {
            return self.end(Ok(()));
        }
        if let Some(record) = slices.waiting.pop_front() {
            self.step = StepInHand::of_slice(record, now);
            self.begin_step();
        }
    }

    /// Goes on after a step, with the next slice if slices are in hand.
    pub(super) fn step_ended(&mut self, now: Instant) {
        match &mut self.slices {
            Some(slices)
                if !slices.waiting.is_empty()
                    && now.saturating_duration_since(slices.began) >= SLICES_TIME =>
            {
                let waiting = std::mem::take(&mut slices.waiting);
                self.act_and_wait(Action::AppendSlices(waiting), State::AppendingSlices);
            }
            _ => self.next_slice(now),
        }
    }

    pub(super) fn slices_appended(&mut self, not_taken: VecDeque<StoredRecord>, now: Instant) {
        if let Some(slices) = &mut self.slices {
            slices.waiting = not_taken;
        }
        self.next_slice(now);
    }

    pub(super) fn end_slices(&mut self, now: Instant) {
        let slices = self.slices.take();
        self.count_stored(slices.is_some_and(|slices| slices.commits.is_whole));
        self.next_step(now);
    }
}
