//! Bounds on the days that reported events lie on.
//!
//! Each day is a partition of every table: one event costs a part of about thirty files in `events` and in `runs`, some
//! tens of milliseconds in all, so 18,000 events on 3,000 days kept other projects' runs invisible for 204 s. Three
//! bounds apply: on the age of an event, on the distinct days of one report ([`limits::REPORT_DAYS`]), and on the rate
//! at which a project reports days before yesterday.

use std::collections::BTreeSet;
use std::time::Duration;

use moka::sync::Cache;
use schemas::api_error::{ApiError, EventCode};
use schemas::event::EventFault;
use schemas::limits;
use schemas::timestamp;

use crate::rate::Rates;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Days before yesterday that a project may report at once after a pause: two full reports.
const BURST_DAYS: u32 = 64;
/// A day that was paid for is free for this long: the processor stores records together that arrive together. So the
/// days of a project that wait in the log are bounded (the burst, and ten seconds of the rate), and events spread over
/// the last month pass at any rate.
const PAID_FOR: Duration = Duration::from_secs(10);
/// Paid days to keep (X1); one that is evicted is paid for again.
const PAID_MAX: u64 = 100_000;

/// Days since 1970, UTC.
pub(crate) fn day(time_ms: i64) -> i64 {
    time_ms.div_euclid(DAY_MS)
}

/// Bounds on the days of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DayBounds {
    pub(crate) now_ms: i64,
    /// Zero for no bound.
    max_age: Duration,
}

impl DayBounds {
    pub(crate) fn new(now_ms: i64, max_age: Duration) -> Self {
        Self { now_ms, max_age }
    }

    pub(crate) fn check_age(&self, index: usize, time_ms: i64) -> Result<(), EventFault> {
        let max_age_ms = i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX);
        let oldest_ms = self.now_ms.saturating_sub(max_age_ms);
        if self.max_age.is_zero() || time_ms >= oldest_ms {
            return Ok(());
        }
        Err(EventFault {
            code: EventCode::TimestampTooOld,
            message: format!(
                "events[{index}].timestamp {} is before {}: this server takes events of the last {} \
                 (`ingest.max_event_age`)",
                timestamp::to_text(time_ms),
                timestamp::to_text(oldest_ms),
                humantime_serde::re::humantime::format_duration(self.max_age),
            ),
        })
    }

    /// Whether a day is before yesterday. Rows of newer days share their parts with other projects' rows.
    pub(crate) fn is_old(&self, day: i64) -> bool {
        day < self::day(self.now_ms) - 1
    }

    pub(crate) fn old_days(&self, days: impl Iterator<Item = i64>) -> Vec<i64> {
        let old: BTreeSet<i64> = days.filter(|day| self.is_old(*day)).collect();
        old.into_iter().collect()
    }
}

/// The rejection of an event that is on none of the newest days of its report.
pub(crate) fn too_many(index: usize, days: usize) -> EventFault {
    EventFault {
        code: EventCode::TooManyDays,
        message: format!(
            "events[{index}] is not on one of the {} newest of {days} days in this report: one report may have events \
             of {} days; send the others in another report",
            limits::REPORT_DAYS,
            limits::REPORT_DAYS,
        ),
    }
}

/// The rate of days before yesterday by project.
pub(crate) struct OldDays {
    rates: Rates,
    paid: Cache<(String, i64), ()>,
}

impl OldDays {
    /// `None` when there is no limit.
    pub(crate) fn new(days_per_second: u32) -> Option<Self> {
        let burst = BURST_DAYS.div_ceil(days_per_second.max(1));
        Some(Self {
            rates: Rates::new(days_per_second, Duration::from_secs(burst.into()))?,
            paid: Cache::builder()
                .max_capacity(PAID_MAX)
                .time_to_live(PAID_FOR)
                .build(),
        })
    }

    /// Takes these days from the project's rate, all or none.
    pub(crate) fn take(&self, project: &str, days: &[i64]) -> Result<(), ApiError> {
        let unpaid = days
            .iter()
            .map(|day| (project.to_owned(), *day))
            .filter(|day| !self.paid.contains_key(day));
        let unpaid: Vec<_> = unpaid.collect();
        let what = "days before yesterday that this project may report \
                    (`ingest.old_days_per_second`)";
        self.rates.take_of(project, unpaid.len(), what)?;
        unpaid.into_iter().for_each(|day| self.paid.insert(day, ()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_paid_for_once_in_a_while_and_each_project_has_its_own() {
        let old = OldDays::new(1).unwrap();
        let month: Vec<i64> = (0..31).collect();
        assert_eq!(old.take("p", &month), Ok(()));
        assert_eq!(old.take("p", &month), Ok(()), "paid for");
        let next: Vec<i64> = (31..62).collect();
        assert_eq!(old.take("p", &next), Ok(()));
        let fault = old.take("p", &(62..93).collect::<Vec<_>>()).unwrap_err();
        assert_eq!((fault.status, fault.code.as_str()), (429, "rate_limited"));
        assert!(
            fault
                .retry_after_s
                .is_some_and(|wait| (1..=31).contains(&wait))
        );
        assert!(
            fault.message.contains("old_days_per_second"),
            "{}",
            fault.message
        );
        assert_eq!(old.take("q", &month), Ok(()));
        assert!(OldDays::new(0).is_none());
    }

    #[test]
    fn the_largest_report_passes_at_the_lowest_rate() {
        for days_per_second in 1..100 {
            let old = OldDays::new(days_per_second).unwrap();
            let days: Vec<i64> = (0..limits::REPORT_DAYS as i64).collect();
            assert_eq!(old.take("p", &days), Ok(()));
        }
    }

    #[test]
    fn an_age_of_zero_is_no_bound() {
        let now_ms = 1_795_132_800_000;
        let bounds = |days: u64| DayBounds::new(now_ms, Duration::from_secs(days * 86_400));
        assert!(bounds(0).check_age(0, 0).is_ok());
        assert!(bounds(2).check_age(0, now_ms - 2 * DAY_MS).is_ok());
        let fault = bounds(2).check_age(7, now_ms - 2 * DAY_MS - 1).unwrap_err();
        assert_eq!(fault.code.as_str(), "timestamp_too_old");
        assert!(fault.message.contains("events[7]") && fault.message.contains("2days"));
        assert!(!bounds(2).is_old(day(now_ms) - 1) && bounds(2).is_old(day(now_ms) - 2));
    }
}
