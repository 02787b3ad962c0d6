//! Starts retention once a day, and advances its clock.
//!
//! Retention is due if none ran since the configured minute of the day last passed. So a server that was away makes up
//! for it, and a deployment that was younger than [`YOUNG_MS`] then has nothing to make up for.

use std::time::{Duration, Instant};

use schemas::job;
use store::jobs::{Asked, JobKind, NewJob};
use store::{Store, StoreError};

use super::retention::clock;

const MINUTE_MS: i64 = 60 * 1000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// Age of a deployment in which nothing has expired.
const YOUNG_MS: i64 = 10 * MINUTE_MS;

/// How often the clock of retention is stored: much more often than once a day, the largest step it trusts, and rarely
/// enough that its rows are negligible.
const CLOCK_INTERVAL: Duration = Duration::from_secs(60 * 60);

pub(super) struct Schedule {
    minute: Option<u32>,
    /// When it was last due and handled.
    seen_ms: Option<i64>,
    clock_kept: Option<Instant>,
}

impl Schedule {
    pub(super) fn new(minute: Option<u32>) -> Self {
        Self {
            minute,
            seen_ms: None,
            clock_kept: None,
        }
    }

    /// Queues a retention if one is due. If the queue is full, the next look tries again.
    pub(super) async fn look(&mut self, store: &Store, now_ms: i64) -> Result<(), StoreError> {
        // Also where retention only runs on request: its clock has to be close to the time then.
        let is_kept = |kept: Instant| kept.elapsed() < CLOCK_INTERVAL;
        if !self.clock_kept.is_some_and(is_kept) {
            clock::look(store, now_ms).await?.warn_if_behind();
            self.clock_kept = Some(Instant::now());
        }
        let Some(due_ms) = self.minute.map(|minute| last_due_ms(minute, now_ms)) else {
            return Ok(());
        };
        // Equality instead of a comparison: a clock that was ahead may have handled later ones.
        if self.seen_ms == Some(due_ms) {
            return Ok(());
        }
        let is_young = is_young(store.first_project_ms().await?, due_ms);
        if is_young || store.retention_between(due_ms, now_ms).await? {
            self.seen_ms = Some(due_ms);
            return Ok(());
        }
        let new = NewJob {
            kind: JobKind::Retention,
            project_id: None,
            // Numbers and names: serialization cannot fail.
            parameters: serde_json::to_string(&job::Retention::default()).unwrap_or_default(),
        };
        match store.jobs().create(new, now_ms).await? {
            Asked::Made(job, _) | Asked::Same(job, _) => {
                tracing::info!(job.id = job.job_id, "retention is due");
                self.seen_ms = Some(due_ms);
            }
            Asked::Full => {}
        }
        Ok(())
    }
}

/// Whether the deployment was young when retention was due. One without a project is being set up.
fn is_young(first_project_ms: Option<i64>, due_ms: i64) -> bool {
    first_project_ms.is_none_or(|first_ms| first_ms.saturating_add(YOUNG_MS) > due_ms)
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

    #[test]
    fn a_young_deployment_has_nothing_to_drop() {
        let due_ms = 20_000 * DAY_MS;
        assert!(is_young(None, due_ms), "it has no project yet");
        for (age_ms, expected) in [
            (-1, true),
            (0, true),
            (YOUNG_MS - 1, true),
            (YOUNG_MS, false),
        ] {
            assert_eq!(
                is_young(Some(due_ms - age_ms), due_ms),
                expected,
                "{age_ms}"
            );
        }
    }
}
