//! The time that retention counts ages from. It follows the wall clock, but a jump moves it by at most a day for each
//! day that the jump lasts.
//!
//! A wall clock that is weeks ahead for six seconds must not drop weeks of runs. A monotonic clock cannot tell such a
//! jump from a server that was off or asleep, so the rule is about steps of the wall clock between two looks:
//!
//! * A step of at most a day is time that passed. It covers a server that is off overnight.
//! * A longer step, or one back, is a jump. Retention goes on from its own time, as if the jump had not happened.
//! * Once the new time has lasted for a day, retention makes up for one day of the difference, and for one more each day
//!   after that. A server that was off for a week catches up within a week.
//! * An administrator who has looked at the clock ends that at once: `spindle retention --trust-clock`.
//!
//! The bound is on the time and not on the limit of a project: fewer `retention_days` count at the next retention.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use store::{Store, StoreError};

use super::DAY_MS;

/// Name in the table `deployment`.
const NAME: &str = "retention_clock";

/// Retention's estimate of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetentionClock {
    /// The time that ages are counted from, Unix milliseconds.
    trusted_ms: i64,
    /// The wall clock when it was last read, Unix milliseconds.
    seen_ms: i64,
    /// How long the difference has lasted, or how long ago a day of it was last made up for.
    lasted_ms: i64,
}

impl RetentionClock {
    /// A clock equal to the wall clock.
    pub(crate) fn trusting(wall_ms: i64) -> Self {
        Self {
            trusted_ms: wall_ms,
            seen_ms: wall_ms,
            lasted_ms: 0,
        }
    }

    /// The first clock of a deployment: compared with the newest stored row, which is its last evidence of the time. A
    /// new deployment has stored its own migrations a moment ago.
    fn first(newest_stored_ms: i64, wall_ms: i64) -> Self {
        Self::trusting(newest_stored_ms.min(wall_ms)).at(wall_ms)
    }

    /// The clock once the wall clock shows `wall_ms`.
    fn at(self, wall_ms: i64) -> Self {
        let step_ms = wall_ms.saturating_sub(self.seen_ms);
        let is_jump = !(0..=DAY_MS).contains(&step_ms);
        let passed_ms = if is_jump { 0 } else { step_ms };
        let mut next = Self {
            trusted_ms: self.trusted_ms.saturating_add(passed_ms),
            seen_ms: wall_ms,
            lasted_ms: if is_jump {
                0
            } else {
                self.lasted_ms.saturating_add(passed_ms)
            },
        };
        if next.trusted_ms == wall_ms {
            next.lasted_ms = 0;
        } else if next.lasted_ms >= DAY_MS {
            // If the clock is set back, retention only keeps more, so no delay is needed.
            next.trusted_ms = next.trusted_ms.saturating_add(DAY_MS).min(wall_ms);
            next.lasted_ms = 0;
        }
        next
    }

    /// Never later than the wall clock.
    pub(crate) fn now_ms(self) -> i64 {
        self.trusted_ms.min(self.seen_ms)
    }

    /// By how much the wall clock is ahead.
    pub(crate) fn behind_ms(self) -> i64 {
        self.seen_ms.saturating_sub(self.now_ms())
    }

    /// More than a day is a jump, or a time in which the server was off.
    pub(crate) fn warn_if_behind(self) {
        if self.behind_ms() > DAY_MS {
            tracing::warn!(
                retention.counts_from = text(self.now_ms()),
                clock = text(self.seen_ms),
                "the clock went forward by more than a day since retention last looked; ages are counted from the \
                 earlier time, which makes up for one day each day; if the clock is right, \
                 `spindle retention --trust-clock` makes up for all of it"
            );
        }
    }
}

/// RFC 3339.
pub(crate) fn text(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).map_or_else(
        || format!("{ms} ms"),
        |time| time.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

/// The current clock; nothing is stored.
pub(crate) async fn read(store: &Store, wall_ms: i64) -> Result<RetentionClock, StoreError> {
    let kept = store.deployment_value(NAME).await?;
    let kept = kept.and_then(|text| serde_json::from_str::<RetentionClock>(&text).ok());
    Ok(match kept {
        Some(clock) => clock.at(wall_ms),
        None => RetentionClock::first(store.newest_stored_ms().await?, wall_ms),
    })
}

/// Advances the clock to the wall clock by the rules above, and stores it durably.
pub(crate) async fn look(store: &Store, wall_ms: i64) -> Result<RetentionClock, StoreError> {
    let clock = read(store, wall_ms).await?;
    keep(store, clock).await
}

/// Trusts the wall clock from here on, by order of an operator.
pub(crate) async fn trust(store: &Store, wall_ms: i64) -> Result<RetentionClock, StoreError> {
    keep(store, RetentionClock::trusting(wall_ms)).await
}

async fn keep(store: &Store, clock: RetentionClock) -> Result<RetentionClock, StoreError> {
    // Three numbers: serialization cannot fail.
    let value = serde_json::to_string(&clock).unwrap_or_default();
    store.set_deployment_value(NAME, &value).await?;
    Ok(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = DAY_MS / 24;
    const NOW_MS: i64 = 20_000 * DAY_MS;

    fn after(clock: RetentionClock, steps_ms: &[i64]) -> RetentionClock {
        steps_ms
            .iter()
            .fold(clock, |clock, step| clock.at(clock.seen_ms + step))
    }

    #[test]
    fn a_clock_that_is_45_days_ahead_for_six_seconds_changes_nothing() {
        let clock = RetentionClock::trusting(NOW_MS);
        let ahead = after(clock, &[HOUR_MS, 45 * DAY_MS, 6000]);
        assert_eq!(ahead.now_ms(), NOW_MS + HOUR_MS + 6000);
        assert_eq!(ahead.behind_ms(), 45 * DAY_MS);
        let back = after(ahead, &[-45 * DAY_MS, HOUR_MS]);
        assert_eq!(back.now_ms(), NOW_MS + 2 * HOUR_MS + 6000);
        assert_eq!(back.behind_ms(), 0, "at once");
    }

    #[test]
    fn restarts_while_it_is_ahead_change_nothing_either() {
        let mut kept = RetentionClock::trusting(NOW_MS);
        for restart in 0..100 {
            // Killed each time, before the clock is stored and after it.
            let ahead = kept.at(NOW_MS + 45 * DAY_MS + restart);
            assert!(ahead.now_ms() <= NOW_MS + 100, "{restart}");
            if restart % 2 == 0 {
                kept = ahead;
            }
        }
    }

    #[test]
    fn a_week_off_is_made_up_for_a_day_at_a_time() {
        let mut clock = after(RetentionClock::trusting(NOW_MS), &[7 * DAY_MS]);
        assert_eq!(clock.now_ms(), NOW_MS);
        let mut longest_ms = 0;
        for _ in 0..7 * 24 {
            let next = clock.at(clock.seen_ms + HOUR_MS);
            longest_ms = longest_ms.max(next.now_ms() - clock.now_ms());
            clock = next;
        }
        assert_eq!(clock.behind_ms(), 0);
        assert!(longest_ms <= DAY_MS + HOUR_MS);
        assert_eq!(after(clock, &[HOUR_MS]).now_ms(), clock.now_ms() + HOUR_MS);
    }

    #[test]
    fn nights_and_weekends_off_end_in_the_right_time() {
        let mut clock = RetentionClock::trusting(NOW_MS);
        for day in 0..70 {
            clock = after(clock, &[HOUR_MS; 8]);
            let off_hours = if day % 7 == 4 { 64 } else { 16 };
            if day % 7 < 5 {
                clock = after(clock, &[off_hours * HOUR_MS]);
            }
            assert!(clock.behind_ms() <= 64 * HOUR_MS, "{day}");
        }
        assert_eq!(after(clock, &[16 * HOUR_MS, DAY_MS, DAY_MS]).behind_ms(), 0);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_and_a_wrong_one_that_lasted_is_left() {
        let clock = RetentionClock::trusting(NOW_MS);
        let back = after(clock, &[-45 * DAY_MS]);
        assert_eq!(back.now_ms(), NOW_MS - 45 * DAY_MS);
        assert_eq!(after(back, &[45 * DAY_MS]).now_ms(), NOW_MS, "for a moment");
        let stayed = after(back, &[DAY_MS, HOUR_MS]);
        assert_eq!(stayed.now_ms(), stayed.seen_ms);
        let again = after(stayed, &[44 * DAY_MS]);
        assert_eq!(again.now_ms(), stayed.now_ms(), "it is a jump by then");
    }

    #[test]
    fn a_deployment_without_a_clock_believes_its_newest_row() {
        let young = RetentionClock::first(NOW_MS - 5000, NOW_MS);
        assert_eq!(young.now_ms(), NOW_MS);
        let old = RetentionClock::first(NOW_MS - 40 * DAY_MS, NOW_MS);
        assert_eq!(old.now_ms(), NOW_MS - 40 * DAY_MS);
        let from_the_future = RetentionClock::first(NOW_MS + 40 * DAY_MS, NOW_MS);
        assert_eq!(from_the_future.now_ms(), NOW_MS);
    }

    #[test]
    fn extreme_clocks_do_not_overflow() {
        for wall_ms in [i64::MIN, -1, 0, i64::MAX] {
            for seen_ms in [i64::MIN, 0, i64::MAX] {
                let clock = RetentionClock::trusting(seen_ms).at(wall_ms);
                assert!(clock.now_ms() <= wall_ms && clock.behind_ms() >= 0);
            }
        }
    }

    #[test]
    fn a_clock_has_the_bytes_that_the_tables_hold() {
        let clock = RetentionClock::trusting(NOW_MS).at(NOW_MS + 2 * DAY_MS);
        let clock = clock.at(clock.seen_ms + HOUR_MS);
        let text = serde_json::to_string(&clock).unwrap();
        let golden = crate::golden::check("retention_clock.json", text.as_bytes());
        let read: RetentionClock = serde_json::from_slice(&golden).unwrap();
        assert_eq!(read, clock);
    }
}
