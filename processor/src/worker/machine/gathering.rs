//! Receiving records until a micro-batch is full, and following changes of the assignment between micro-batches.

use std::time::{Duration, Instant};

use eventlog::{Delivery, Fetch, StoredRecord};

use super::{Action, Machine, Settings, State};
use crate::worker::step_plan::{plan, weight};

/// How long one call waits for records when there are none.
const IDLE_WAIT: Duration = Duration::from_secs(5);

/// Records that wait for the micro-batch to be full.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    records: Vec<StoredRecord>,
    bytes: usize,
    /// When the micro-batch is processed even if it is not full.
    deadline: Option<Instant>,
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Requests what still fits into the micro-batch, until its deadline.
    fn fetch(&self, settings: &Settings, now: Instant) -> Fetch {
        let room = settings.batch_bytes.saturating_sub(self.bytes);
        Fetch {
            max_bytes: room.max(1),
            max_wait: self.deadline.map_or(IDLE_WAIT, |deadline| {
                deadline.saturating_duration_since(now)
            }),
        }
    }

    fn add(&mut self, records: Vec<StoredRecord>, settings: &Settings, now: Instant) {
        self.bytes += records.iter().map(weight).sum::<usize>();
        self.records.extend(records);
        self.deadline.get_or_insert(now + settings.batch_wait);
    }

    /// Whether the micro-batch is full, or its deadline has passed.
    fn is_due(&self, settings: &Settings, now: Instant) -> bool {
        self.bytes >= settings.batch_bytes || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn remove_lost(&mut self, partitions: &[u32]) {
        self.records
            .retain(|record| !partitions.contains(&record.position.partition));
    }
}

impl Machine {
    pub(super) fn fetch(&mut self, now: Instant) {
        if self.is_stopping {
            return self.process_gathered(now);
        }
        let fetch = self.gathered.fetch(&self.settings, now);
        self.act_and_wait(Action::Fetch(fetch), State::Fetching);
    }

    pub(super) fn delivered(&mut self, delivery: Delivery, now: Instant) {
        match delivery {
            Delivery::Records(records) => {
                self.gathered.add(records, &self.settings, now);
                match self.gathered.is_due(&self.settings, now) {
                    true => self.process_gathered(now),
                    false => self.fetch(now),
                }
            }
            Delivery::Idle => self.process_gathered(now),
            change => {
                if let Delivery::Lost(partitions) = &change {
                    self.gathered.remove_lost(partitions);
                }
                self.pending_change = Some(change);
                self.process_gathered(now);
            }
        }
    }

    pub(super) fn process_gathered(&mut self, now: Instant) {
        let records = std::mem::take(&mut self.gathered).records;
        let records = self.takeovers.check(records);
        self.not_assigned.clear();
        self.steps = plan(records, self.settings.batch_bytes).into();
        match self.steps.pop_front() {
            Some(step) => self.begin(step, now),
            None => self.follow_change(now),
        }
    }

    /// Follows a change of the assignment, then gathers again.
    pub(super) fn follow_change(&mut self, now: Instant) {
        if self.is_stopping {
            return self.end(Ok(()));
        }
        match self.pending_change.take() {
            Some(Delivery::Assigned(positions)) => {
                // The previous owner may have written their runs since this worker last did.
                self.act(Action::ClearHotRuns);
                self.is_new_owner = true;
                self.act_and_wait(Action::ReadEnds, State::ReadingEnds(positions));
            }
            Some(Delivery::Revoked(partitions) | Delivery::Lost(partitions)) => {
                self.act(Action::ClearHotRuns);
                self.takeovers.forget(&partitions);
                self.fetch(now);
            }
            _ => self.fetch(now),
        }
    }
}
