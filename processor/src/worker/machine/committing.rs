//! Committing the offsets of a step, and counting the events that it stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use eventlog::Position;

use super::{Action, Machine, State};

/// Offsets to commit.
#[derive(Debug, Default)]
pub(super) struct Commits {
    next: VecDeque<Position>,
    /// Whether none of them was rejected so far.
    pub(super) is_whole: bool,
}

impl Commits {
    pub(super) fn new(offsets: BTreeMap<u32, u64>) -> Self {
        let positions = offsets
            .into_iter()
            .map(|(partition, offset)| Position { partition, offset });
        Self {
            next: positions.collect(),
            is_whole: true,
        }
    }

    /// The next offset to commit in a partition that is not in `not_assigned`.
    fn next(&mut self, not_assigned: &BTreeSet<u32>) -> Option<Position> {
        while let Some(next) = self.next.front() {
            if !not_assigned.contains(&next.partition) {
                return Some(*next);
            }
            self.is_whole = false;
            self.next.pop_front();
        }
        None
    }
}

impl Machine {
    /// The offsets to commit next: the offsets of the step in hand, then the offsets of all slices.
    fn commits(&mut self) -> &mut Commits {
        match &mut self.slices {
            Some(slices) if self.step.is_over => &mut slices.commits,
            _ => &mut self.step.commits,
        }
    }

    pub(super) fn commit(&mut self, now: Instant) {
        let not_assigned = std::mem::take(&mut self.not_assigned);
        let next = self.commits().next(&not_assigned);
        self.not_assigned = not_assigned;
        match next {
            Some(next) => self.act_and_wait(Action::Commit(next), State::Committing),
            None if self.step.is_over => self.end_slices(now),
            None => self.end_step(now),
        }
    }

    pub(super) fn committed(&mut self, now: Instant) {
        self.backoff.reset();
        self.commits().next.pop_front();
        self.commit(now);
    }

    fn end_step(&mut self, now: Instant) {
        self.backoff.reset();
        let is_committed = self.step.commits.is_whole;
        self.uncounted.append(&mut self.step.accepted);
        if self.step.is_covered || !is_committed {
            self.count_stored(is_committed);
        }
        let events = self.step.events;
        let took = now.saturating_duration_since(self.step.began);
        self.act(Action::ObserveStep { events, took });
        self.act(Action::EndStep);
        self.step.end();
        self.step_ended(now);
    }

    /// Counts events that are stored; events that are not committed are counted by the member that commits them (P4).
    pub(super) fn count_stored(&mut self, is_committed: bool) {
        let uncounted = std::mem::take(&mut self.uncounted);
        if is_committed && !uncounted.is_empty() {
            self.act(Action::CountStored(uncounted));
        }
    }
}
