//! Age of the oldest record that is not committed.
//!
//! The log does not store when a record was appended. But its end is read every second, so it is known when the end
//! first lay beyond the committed offset, from the start of this process on.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use eventlog::Lag;

/// Ends kept per partition; beyond it every second one is dropped, so that hours of lag stay measurable (X1).
const ENDS_MAX: usize = 600;

/// Ends of partitions, and when they were first seen.
#[derive(Debug, Default)]
pub(crate) struct LagAges {
    ends: BTreeMap<u32, Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    seen: VecDeque<(Instant, u64)>,
    /// The shortest time between two of them: grows with the lag.
    gap: Duration,
}

impl LagAges {
    /// Takes the current lag; returns the age of the oldest record that is not committed.
    pub(crate) fn look(&mut self, lags: &[Lag], now: Instant) -> Duration {
        let ages = lags.iter().map(|lag| {
            let ends = self.ends.entry(lag.partition).or_default();
            ends.age(lag, now)
        });
        ages.max().unwrap_or_default()
    }
}

impl Ends {
    fn age(&mut self, lag: &Lag, now: Instant) -> Duration {
        // A log that was replaced ends earlier.
        self.seen
            .retain(|(_, end)| lag.committed < *end && *end <= lag.end);
        let is_new = self
            .seen
            .back()
            .is_none_or(|(seen, end)| *end < lag.end && now >= *seen + self.gap);
        if lag.committed < lag.end && is_new {
            self.seen.push_back((now, lag.end));
        }
        if self.seen.is_empty() {
            self.gap = Duration::ZERO;
        } else if self.seen.len() > ENDS_MAX {
            let mut at = 0;
            // The oldest stays: it determines the age.
            self.seen.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.gap = (self.gap * 2).max(Duration::from_secs(2));
        }
        let oldest = self.seen.front();
        oldest.map_or(Duration::ZERO, |(seen, _)| {
            now.saturating_duration_since(*seen)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(committed: u64, end: u64) -> [Lag; 1] {
        [Lag {
            partition: 3,
            committed,
            end,
        }]
    }

    #[test]
    fn the_age_is_that_of_the_oldest_record_that_is_not_committed() {
        let (mut ages, start) = (LagAges::default(), Instant::now());
        let at = |second: u64| start + Duration::from_secs(second);
        assert_eq!(ages.look(&lag(0, 0), at(0)), Duration::ZERO);
        assert_eq!(ages.look(&lag(0, 5), at(1)), Duration::ZERO);
        assert_eq!(ages.look(&lag(0, 9), at(4)), Duration::from_secs(3));
        assert_eq!(ages.look(&lag(5, 9), at(6)), Duration::from_secs(2));
        assert_eq!(ages.look(&lag(9, 9), at(7)), Duration::ZERO);
        assert_eq!(ages.look(&lag(0, 2), at(8)), Duration::ZERO, "replaced");
    }

    #[test]
    fn hours_of_waiting_take_little_room_and_are_measured_x1() {
        let (mut ages, start) = (LagAges::default(), Instant::now());
        let mut age = Duration::ZERO;
        for second in 0..20_000 {
            age = ages.look(&lag(0, second + 1), start + Duration::from_secs(second));
        }
        assert_eq!(age, Duration::from_secs(19_999));
        assert!(ages.ends[&3].seen.len() <= ENDS_MAX);
        let rest = ages.look(&lag(10_000, 20_000), start + Duration::from_secs(20_000));
        assert!(
            rest <= Duration::from_secs(10_001) && rest > Duration::from_secs(9_000),
            "{rest:?}"
        );
    }
}
