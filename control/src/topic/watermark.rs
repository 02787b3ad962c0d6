//! The time up to which every message is known to have been received. Pure: no clock, no log.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Age of the watermark before anything was received: older than any reader accepts.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(super) struct Watermark {
    /// Offset of the next message; `None` before the topic was first read.
    next: Option<u64>,
    /// An end that was looked up and is not reached yet: messages published before the moment lie below the offset.
    asked: Option<(Instant, u64)>,
    received_until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFrom {
    /// No message is missed.
    LastPosition(u64),
    /// Messages below were not received, and will not be.
    End(u64),
}

impl ReadFrom {
    pub(super) fn offset(self) -> u64 {
        let (Self::LastPosition(offset) | Self::End(offset)) = self;
        offset
    }
}

impl Watermark {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next: None,
            asked: None,
            received_until: now.checked_sub(NEVER).unwrap_or(now),
        }
    }

    /// Where to read from, given the topic's offsets as looked up at `asked`: the last position, or the end if
    /// that record is gone or nothing was read before.
    pub(super) fn begin(&mut self, asked: Instant, topic: Range<u64>) -> ReadFrom {
        match self.next {
            Some(next) if (topic.start..=topic.end).contains(&next) => {
                self.end_is(asked, topic);
                ReadFrom::LastPosition(next)
            }
            _ => {
                self.next = Some(topic.end);
                self.asked = None;
                ReadFrom::End(topic.end)
            }
        }
    }

    /// The message at this offset was passed on.
    pub(super) fn received(&mut self, offset: u64) {
        let next = offset.saturating_add(1);
        self.next = self.next.max(Some(next));
        self.advance();
    }

    /// Takes the topic's offsets as looked up at `asked`. `false` when the next record is gone.
    pub(super) fn end_is(&mut self, asked: Instant, topic: Range<u64>) -> bool {
        let is_there = self
            .next
            .is_some_and(|next| (topic.start..=topic.end).contains(&next));
        // One end at a time: replaced by newer ones it would never be reached under a steady flow of messages.
        if is_there && self.asked.is_none() {
            self.asked = Some((asked, topic.end));
            self.advance();
        }
        is_there
    }

    /// The moment before which every message was received or skipped.
    pub(super) fn received_until(&self) -> Instant {
        self.received_until
    }

    fn advance(&mut self) {
        if let Some((asked, end)) = self.asked
            && self.next.is_some_and(|next| next >= end)
        {
            self.received_until = self.received_until.max(asked);
            self.asked = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Published,
        Received,
        Asked,
        Reopened,
        Trimmed,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Published),
            Just(Step::Received),
            Just(Step::Asked),
            Just(Step::Reopened),
            Just(Step::Trimmed)
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        /// Each step takes a second. Messages published before the watermark have all been received, except messages
        /// that were trimmed before.
        #[test]
        fn every_message_before_the_watermark_was_received(steps in steps()) {
            let start = Instant::now();
            let mut watermark = Watermark::new(start);
            prop_assert!(watermark.received_until() < start - Duration::from_secs(3600));
            let (mut published_at, mut begin) = (Vec::new(), 0);
            let mut next = watermark.begin(start, 0..0).offset();
            for (at, step) in steps.into_iter().enumerate() {
                let now = start + Duration::from_secs(at as u64 + 1);
                let end = published_at.len() as u64;
                match step {
                    Step::Published => published_at.push(now),
                    Step::Received if next < end && next >= begin => {
                        watermark.received(next);
                        next += 1;
                    }
                    Step::Asked => {
                        let is_there = watermark.end_is(now, begin..end);
                        prop_assert_eq!(is_there, next >= begin);
                    }
                    Step::Reopened => {
                        let from = watermark.begin(now, begin..end);
                        prop_assert_eq!(matches!(from, ReadFrom::End(_)), next < begin);
                        next = from.offset();
                    }
                    Step::Trimmed => begin = end,
                    Step::Received => {}
                }
                let missing = published_at.iter().skip(next.max(begin) as usize).min();
                if let Some(missing) = missing {
                    prop_assert!(watermark.received_until() <= *missing);
                }
            }
            let (now, end) = (start + Duration::from_secs(100), published_at.len() as u64);
            for offset in watermark.begin(now, begin..end).offset()..end {
                watermark.received(offset);
            }
            let later = now + Duration::from_secs(3);
            watermark.end_is(later, begin..end);
            prop_assert_eq!(watermark.received_until(), later, "caught up");
        }
    }
}
