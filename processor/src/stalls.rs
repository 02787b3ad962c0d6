//! Partitions in which records wait and nothing is committed. Pure: looks at the log and time in, stalls out.
//!
//! Nothing that is known of causes this for long: a store that is away is named elsewhere. What is left is a partition
//! without an owner, or an owner that waits for records which it was given already or never gets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eventlog::Lag;

/// Longest pause between two orders to join again, in times that a partition may wait.
const PAUSE_MAX: u32 = 16;

/// The watchdog's knowledge of each partition with a lag.
#[derive(Debug)]
pub(crate) struct Stalls {
    after: Duration,
    /// Fraction by which the pauses of this process are longer, so that processes do not act at the same time.
    spread: f64,
    waiting: BTreeMap<u32, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    committed: u64,
    since: Instant,
    due: Instant,
    /// How often something was due.
    rounds: u32,
}

/// A partition that is stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) partition: u32,
    /// The offset that does not move.
    pub(crate) committed: u64,
    pub(crate) lag_records: u64,
    /// How long it has not moved.
    pub(crate) lasts: Duration,
    /// Whether something is to be done about it: after pauses that double, and differ between processes.
    pub(crate) is_due: bool,
    /// How often that was so before.
    pub(crate) rounds: u32,
}

impl Stalls {
    /// A partition is stalled after this long. `spread` is a random number from 0 to 1 of this process.
    pub(crate) fn new(after: Duration, spread: f64) -> Self {
        Self {
            after,
            spread,
            waiting: BTreeMap::new(),
        }
    }

    /// What waits, waits for something that is known.
    pub(crate) fn reset(&mut self) {
        self.waiting.clear();
    }

    /// Takes a look at the log; gives what is stalled.
    pub(crate) fn look(&mut self, lags: &[Lag], now: Instant) -> Vec<Stall> {
        let (after, spread) = (self.after, self.spread);
        let pause = |rounds: u32| {
            let times = 1_u32.checked_shl(rounds).unwrap_or(PAUSE_MAX);
            (after * times.min(PAUSE_MAX)).mul_f64(1.0 + spread)
        };
        let mut stalls = Vec::new();
        for lag in lags {
            let lag_records = lag.end.saturating_sub(lag.committed);
            if lag_records == 0 {
                self.waiting.remove(&lag.partition);
                continue;
            }
            let new = || Waiting {
                committed: lag.committed,
                since: now,
                due: now + pause(0),
                rounds: 0,
            };
            let waiting = self.waiting.entry(lag.partition).or_insert_with(new);
            if waiting.committed != lag.committed {
                *waiting = new();
            }
            let lasts = now.saturating_duration_since(waiting.since);
            if lasts < after {
                continue;
            }
            let (is_due, rounds) = (now >= waiting.due, waiting.rounds);
            if is_due {
                waiting.rounds = rounds.saturating_add(1);
                waiting.due = now + pause(waiting.rounds);
            }
            stalls.push(Stall {
                partition: lag.partition,
                committed: lag.committed,
                lag_records,
                lasts,
                is_due,
                rounds,
            });
        }
        stalls
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
    fn a_partition_is_stalled_when_records_wait_and_nothing_is_committed_for_a_minute() {
        let (minute, start) = (Duration::from_secs(60), Instant::now());
        let mut stalls = Stalls::new(minute, 0.0);
        let mut at = |second: u64, lag: [Lag; 1]| {
            let found = stalls.look(&lag, start + Duration::from_secs(second));
            let one = found.first();
            one.map(|stall| (stall.lag_records, stall.lasts.as_secs(), stall.is_due))
        };
        assert_eq!(at(0, lag(0, 0)), None);
        assert_eq!(at(1, lag(0, 5)), None);
        assert_eq!(at(60, lag(0, 9)), None);
        assert_eq!(at(61, lag(0, 9)), Some((9, 60, true)));
        assert_eq!(at(62, lag(0, 9)), Some((9, 61, false)), "said once");
        assert_eq!(at(180, lag(0, 9)), Some((9, 179, false)));
        assert_eq!(at(181, lag(0, 9)), Some((9, 180, true)), "again");
        assert_eq!(at(182, lag(1, 9)), None, "it moves");
        assert_eq!(at(241, lag(1, 9)), None);
        assert_eq!(at(242, lag(1, 9)), Some((8, 60, true)));
        assert_eq!(at(243, lag(9, 9)), None);
        assert_eq!(at(300, lag(9, 10)), None, "a new record waits since now");
    }

    /// The seconds at which something is due in the first hours.
    fn due(spread: f64) -> Vec<u64> {
        let start = Instant::now();
        let mut stalls = Stalls::new(Duration::from_secs(60), spread);
        let is_due = |second: &u64| {
            let found = stalls.look(&lag(0, 9), start + Duration::from_secs(*second));
            found.first().is_some_and(|stall| stall.is_due)
        };
        (0..10_000).filter(is_due).collect()
    }

    #[test]
    fn members_join_again_after_growing_pauses_that_differ_between_processes() {
        let lockstep = due(0.0);
        let pauses: Vec<u64> = lockstep.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(lockstep[0], 60);
        assert_eq!(pauses[..5], [120, 240, 480, 960, 960], "at most 16 minutes");
        let (one, other) = (due(0.25), due(0.75));
        assert_eq!((one[0], other[0]), (75, 105));
        assert!(one.iter().all(|second| !other.contains(second)));
    }
}
