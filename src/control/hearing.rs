//! Until when everything that was said is known to have been heard. Pure: no clock, no log.

use std::time::{Duration, Instant};

/// Whoever keeps something closed says so every second. So after this long of hearing, all is known that is in force,
/// although it was said first while nobody listened here.
const SAID_AGAIN_WITHIN: Duration = Duration::from_millis(2500);
/// Before anything was heard: longer ago than anyone accepts.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// What one process knows of the control topic.
#[derive(Debug)]
pub(super) struct Hearing {
    /// The offset of the next word; none before the topic was seen at all.
    next: Option<u64>,
    /// Ends that were asked for and are not reached yet: everything said before the moment stands below the offset.
    asked: Option<(Instant, u64)>,
    /// Words before the place where reading began may still be in force until this moment.
    trusted_from: Option<Instant>,
    until: Instant,
}

/// The offset where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Nothing was missed.
    WhereItWasLeft(u64),
    /// Words said before were not heard, and will not be.
    TheEnd(u64),
}

impl From {
    pub(super) fn offset(self) -> u64 {
        let (Self::WhereItWasLeft(offset) | Self::TheEnd(offset)) = self;
        offset
    }
}

impl Hearing {
    /// Nothing was heard yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next: None,
            asked: None,
            trusted_from: None,
            until: now.checked_sub(NEVER).unwrap_or(now),
        }
    }

    /// Where to read from, with the topic's begin and end as asked for at `asked`: where it was left, or from the end
    /// if that is not there any more or never was.
    pub(super) fn begin(&mut self, asked: Instant, (begin, end): (u64, u64)) -> From {
        match self.next {
            Some(next) if (begin..=end).contains(&next) => {
                self.end_is(asked, (begin, end));
                From::WhereItWasLeft(next)
            }
            _ => {
                self.next = Some(end);
                self.asked = None;
                self.trusted_from = Some(asked + SAID_AGAIN_WITHIN);
                From::TheEnd(end)
            }
        }
    }

    /// The word at this offset was passed on.
    pub(super) fn heard(&mut self, offset: u64) {
        let next = offset.saturating_add(1);
        self.next = self.next.max(Some(next));
        self.settle();
    }

    /// The topic's begin and end as asked for at `asked`. `false` when what comes next cannot come any more.
    pub(super) fn end_is(&mut self, asked: Instant, (begin, end): (u64, u64)) -> bool {
        let is_there = self.next.is_some_and(|next| (begin..=end).contains(&next));
        // An end that is still to be reached is enough to go on with: a newer one would never let time move on under
        // a steady flow of words.
        if is_there && self.asked.is_none() {
            self.asked = Some((asked, end));
            self.settle();
        }
        is_there
    }

    /// The moment before which every word was heard that was in force then.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    fn settle(&mut self) {
        if let Some((asked, end)) = self.asked
            && self.next.is_some_and(|next| next >= end)
        {
            if self.trusted_from.is_none_or(|from| asked >= from) {
                self.until = self.until.max(asked);
            }
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
        Said,
        Heard,
        Asked,
        Reopened,
        Trimmed,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Said),
            Just(Step::Heard),
            Just(Step::Asked),
            Just(Step::Reopened),
            Just(Step::Trimmed)
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        /// Each step takes a second. Words said before `until` have all been heard, but for those that were trimmed
        /// away before they could be.
        #[test]
        fn no_word_is_unheard_that_was_said_before_the_time_told(steps in steps()) {
            let start = Instant::now();
            let mut hearing = Hearing::new(start);
            prop_assert!(hearing.until() < start - SAID_AGAIN_WITHIN);
            let (mut said_at, mut begin, mut skipped_at) = (Vec::new(), 0, start);
            let mut next = hearing.begin(start, (0, 0)).offset();
            for (at, step) in steps.into_iter().enumerate() {
                let now = start + Duration::from_secs(at as u64 + 1);
                let end = said_at.len() as u64;
                match step {
                    Step::Said => said_at.push(now),
                    Step::Heard if next < end && next >= begin => {
                        hearing.heard(next);
                        next += 1;
                    }
                    Step::Asked => {
                        let is_there = hearing.end_is(now, (begin, end));
                        prop_assert_eq!(is_there, next >= begin);
                    }
                    Step::Reopened => {
                        if next < begin {
                            skipped_at = now;
                        }
                        let from = hearing.begin(now, (begin, end));
                        prop_assert_eq!(matches!(from, From::TheEnd(_)), next < begin);
                        next = from.offset();
                    }
                    Step::Trimmed => begin = end,
                    Step::Heard => {}
                }
                let unheard = said_at.iter().skip(next.max(begin) as usize).min();
                if let Some(unheard) = unheard {
                    prop_assert!(hearing.until() <= *unheard);
                }
                let is_settling = hearing.until() >= skipped_at
                    && hearing.until() < skipped_at + SAID_AGAIN_WITHIN;
                prop_assert!(!is_settling, "what was said before the skip may be in force");
            }
            let (now, end) = (start + Duration::from_secs(100), said_at.len() as u64);
            for offset in hearing.begin(now, (begin, end)).offset()..end {
                hearing.heard(offset);
            }
            let later = now + SAID_AGAIN_WITHIN;
            hearing.end_is(later, (begin, end));
            prop_assert_eq!(hearing.until(), later, "caught up");
        }
    }
}
