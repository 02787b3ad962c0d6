//! Messages that this process has published and not received back yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Messages to keep: one a second, two at each barrier, for a minute (X1). An older one proves nothing.
const PENDING_MAX: usize = 100;

/// Numbers the messages of one kind, so that the process recognizes its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Echoes {
    sequence: u64,
    pending: VecDeque<(u64, Instant)>,
    last: Option<Instant>,
}

impl Echoes {
    /// The number of a message that is published now.
    pub(crate) fn publish(&mut self, now: Instant) -> u64 {
        self.sequence += 1;
        self.last = Some(now);
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back((self.sequence, now));
        self.sequence
    }

    pub(crate) fn is_due(&self, interval: Duration, now: Instant) -> bool {
        self.last.is_none_or(|last| now >= last + interval)
    }

    /// When the message of this number was published; removes it and those before it.
    pub(crate) fn receive(&mut self, sequence: u64) -> Option<Instant> {
        while let Some(&(number, at)) = self.pending.front() {
            if number > sequence {
                return None;
            }
            self.pending.pop_front();
            if number == sequence {
                return Some(at);
            }
        }
        None
    }

    /// Messages in flight prove nothing any more.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_recognized_in_order_and_once_and_memory_is_bounded() {
        let (mut echoes, start) = (Echoes::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(echoes.is_due(second, start));
        for at in 0..3u32 {
            assert_eq!(echoes.publish(start + second * at), u64::from(at) + 1);
        }
        assert_eq!(echoes.receive(2), Some(start + second));
        assert_eq!(echoes.receive(1), None, "older");
        assert_eq!(echoes.receive(2), None, "again");
        assert!(!echoes.is_due(second, start + second * 2));
        assert!(echoes.is_due(second, start + second * 3));
        echoes.forget();
        assert_eq!(echoes.receive(3), None);
        for at in 0..200 {
            echoes.publish(start + second * at);
        }
        assert_eq!(echoes.pending.len(), PENDING_MAX);
    }
}
