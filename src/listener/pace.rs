//! How long a client may make the server wait, for bytes to arrive or to be taken.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaceLimits {
    /// Longest wait without a single byte.
    pub(crate) stall: Duration,
    /// A client that transfers this many bytes a second is never cut off.
    pub(crate) bytes_per_second: u32,
}

/// A token bucket of waiting time. Waiting for the client takes from it, and each transferred byte returns `1 /
/// bytes_per_second`, up to `stall`. A client at the minimum rate or above may continue for hours, and one that stops
/// or trickles runs out after about `stall`.
#[derive(Debug)]
pub(crate) struct Pace {
    limits: PaceLimits,
    left: Duration,
}

impl Pace {
    pub(crate) fn new(limits: PaceLimits) -> Self {
        Self {
            limits,
            left: limits.stall,
        }
    }

    /// Takes time spent waiting for the client.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Returns time for transferred bytes.
    pub(crate) fn moved(&mut self, bytes: usize) {
        let rate = f64::from(self.limits.bytes_per_second.max(1));
        let earned = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX);
        self.left = self.left.saturating_add(earned).min(self.limits.stall);
    }

    /// How much longer the server waits for the client.
    pub(crate) fn left(&self) -> Duration {
        self.left
    }
}

/// A [`Pace`] for polled I/O.
#[derive(Debug)]
pub(crate) struct Stall {
    pace: Pace,
    /// Start and end of the current wait.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Stall {
    pub(crate) fn new(limits: PaceLimits) -> Self {
        Self {
            pace: Pace::new(limits),
            waiting: None,
        }
    }

    /// The client was polled and is pending. Ready once its time is used up; wakes the task then.
    pub(crate) fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(tokio::time::sleep(self.pace.left())))
        });
        timer.as_mut().poll(cx)
    }

    /// The client transferred so many bytes.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.pace.waited(since.elapsed());
        }
        self.pace.moved(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PaceLimits = PaceLimits {
        stall: Duration::from_secs(10),
        bytes_per_second: 1000,
    };

    fn seconds_at(bytes_per_second: usize) -> Option<usize> {
        let mut pace = Pace::new(LIMITS);
        (0..100_000).find(|_| {
            pace.waited(Duration::from_secs(1));
            let is_over = pace.left().is_zero();
            pace.moved(bytes_per_second);
            is_over
        })
    }

    #[test]
    fn the_minimum_rate_is_enough_for_ever_and_less_is_not() {
        assert_eq!(seconds_at(1000), None);
        assert_eq!(seconds_at(1_000_000), None);
        assert_eq!(seconds_at(0), Some(9));
        let dribble = seconds_at(100).unwrap();
        assert!(dribble < 12, "{dribble}");
    }

    #[test]
    fn a_burst_earns_no_more_than_one_stall() {
        let mut pace = Pace::new(LIMITS);
        pace.moved(usize::MAX);
        assert_eq!(pace.left(), LIMITS.stall);
    }
}
