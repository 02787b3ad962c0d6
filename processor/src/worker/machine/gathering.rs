//! Receiving records until a micro-batch is full, and following changes of the assignment between micro-batches.

use std::time::{Duration, Instant};

use eventlog::{Delivery, Fetch, StoredRecord};

use super::{Action, Machine, Settings, State};
use crate::worker::step_plan::{plan, weight};

/// How long one call waits for records when there are none.
const IDLE_WAIT: Duration = Duration::from_secs(5);

/// How long the first records after a quiet time wait for those that a client sends right behind them.
const SETTLING: Duration = Duration::from_millis(10);

/// Records that wait for the micro-batch to be full.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    records: Vec<StoredRecord>,
    bytes: usize,
    times: Option<Times>,
}

/// When the micro-batch is processed even if it is not full.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From then on nothing is waited for; records that are in the log already are still taken.
    settled: Instant,
    /// From then on nothing more is taken.
    deadline: Instant,
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
            max_wait: self.times.map_or(IDLE_WAIT, |times| {
                times.settled.saturating_duration_since(now)
            }),
        }
    }

    /// Adds records that were received at `now`, after a step that began at `last_began`. Steps begin
    /// [`Settings::batch_wait`] apart, and the first one after a quiet time begins at once.
    fn add(
        &mut self,
        records: Vec<StoredRecord>,
        settings: &Settings,
        last_began: Instant,
        now: Instant,
    ) {
        self.bytes += records.iter().map(weight).sum::<usize>();
        self.records.extend(records);
        self.times.get_or_insert_with(|| {
            let deadline = now + settings.batch_wait;
            let settled = (last_began + settings.batch_wait).max(now + SETTLING);
            Times {
                settled: settled.min(deadline),
                deadline,
            }
        });
    }

    /// Whether the micro-batch is full, or its deadline has passed.
    fn is_due(&self, settings: &Settings, now: Instant) -> bool {
        self.bytes >= settings.batch_bytes || self.times.is_some_and(|times| times.deadline <= now)
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
                let last_began = self.step.began;
                self.gathered.add(records, &self.settings, last_began, now);
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

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        batch_bytes: 1 << 20,
        batch_wait: Duration::from_millis(200),
        retry_pause_max: Duration::from_secs(5),
        poison_stop_records: 100,
    };

    /// How long records that arrive this long after the beginning of a step wait for more; at most, and if none come.
    fn waits(after_step: Duration) -> (Duration, Duration) {
        let began = Instant::now();
        let arrived = began + after_step;
        let mut gathered = Gathered::default();
        gathered.add(Vec::new(), &SETTINGS, began, arrived);
        assert!(!gathered.is_due(&SETTINGS, arrived));
        let deadline = gathered.times.expect("some are gathered").deadline;
        assert!(gathered.is_due(&SETTINGS, deadline));
        let if_none = gathered.fetch(&SETTINGS, arrived).max_wait;
        (deadline - arrived, if_none)
    }

    #[test]
    fn records_after_a_quiet_time_are_processed_at_once() {
        assert_eq!(
            waits(Duration::from_secs(60)),
            (SETTINGS.batch_wait, SETTLING)
        );
    }

    #[test]
    fn steps_begin_no_closer_than_the_wait_unless_they_are_full() {
        let (_, if_none) = waits(Duration::from_millis(50));
        assert_eq!(if_none, Duration::from_millis(150));
        let (deadline, if_none) = waits(Duration::ZERO);
        assert_eq!(
            (deadline, if_none),
            (SETTINGS.batch_wait, SETTINGS.batch_wait)
        );
    }
}
