//! Asks for retention once a day, and keeps its clock.
//!
//! What counts is whether there was one since the minute of the day last came: a server that was away then makes up
//! for it when it is back, and a deployment that is younger than that has nothing to make up for.

use std::time::{Duration, Instant};

use store::jobs::{Asked, JobKind, NewJob};
use store::{Store, StoreError};

use super::retention::clock;

const MINUTE_MS: i64 = 60 * 1000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// How often the clock of retention is kept. Much less than the day that a step of it may have, and rarely enough that
/// the rows of it are nothing.
const CLOCK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// When retention is due.
pub(super) struct Schedule {
    minute: Option<u32>,
    /// The last time it was due and was seen to.
    seen_ms: Option<i64>,
    clock_kept: Option<Instant>,
}

impl Schedule {
    /// Due every day at this minute, or never.
    pub(super) fn new(minute: Option<u32>) -> Self {
        Self {
            minute,
            seen_ms: None,
            clock_kept: None,
        }
    }

    /// Asks for a retention if one is due. Another job may be in the way; then the next look tries again.
    pub(super) async fn look(&mut self, store: &Store, now_ms: i64) -> Result<(), StoreError> {
        // Also where retention only runs when it is asked for: its clock has to be near the time then.
        let is_kept = |kept: Instant| kept.elapsed() < CLOCK_INTERVAL;
        if !self.clock_kept.is_some_and(is_kept) {
            clock::look(store, now_ms).await?.warn_if_behind();
            self.clock_kept = Some(Instant::now());
        }
        let Some(due_ms) = self.minute.map(|minute| last_due_ms(minute, now_ms)) else {
            return Ok(());
        };
        // Not a comparison: a clock that was ahead may have seen to later ones.
        if self.seen_ms == Some(due_ms) {
            return Ok(());
        }
        if store.retention_between(due_ms, now_ms).await?
            || store.first_project_ms().await? >= due_ms
        {
            self.seen_ms = Some(due_ms);
            return Ok(());
        }
        let new = NewJob {
            kind: JobKind::Retention,
            project_id: None,
            parameters: "{\"dry_run\":false}".to_owned(),
        };
        if let Asked::Made(job) = store.jobs().create(new, now_ms).await? {
            tracing::info!(job.id = job.job_id, "retention is due");
            self.seen_ms = Some(due_ms);
        }
        Ok(())
    }
}

/// The last moment not after `now_ms` at which the clock showed this minute of the day.
fn last_due_ms(minute: u32, now_ms: i64) -> i64 {
    let of_day_ms = i64::from(minute) * MINUTE_MS;
    (now_ms - of_day_ms).div_euclid(DAY_MS) * DAY_MS + of_day_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_a_day_at_its_minute() {
        let midnight_ms = 20_000 * DAY_MS;
        let three = 3 * 60;
        let due_ms = midnight_ms + 3 * 60 * MINUTE_MS;
        assert_eq!(last_due_ms(three, due_ms - 1), due_ms - DAY_MS);
        assert_eq!(last_due_ms(three, due_ms), due_ms);
        assert_eq!(last_due_ms(three, midnight_ms + DAY_MS), due_ms);
        assert_eq!(last_due_ms(0, midnight_ms), midnight_ms);
    }
}
