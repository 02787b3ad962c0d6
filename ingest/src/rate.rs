//! Rate limits of events, by key, or by app that is accepted without one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::sync::Cache;
use schemas::api_error::{ApiError, ErrorCode};

/// Limiters to keep (X1); one that is evicted starts again with a full burst.
const LIMITERS: u64 = 10_000;

/// One rate limit per name. It is no cache: emptying it would give every client a full burst again, so an order to
/// clear caches does not apply to it.
#[derive(Debug)]
pub(crate) struct Rates {
    quota: Quota,
    limiters: Cache<String, Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
}

impl Rates {
    /// `None` when there is no limit.
    pub(crate) fn new(events_per_second: u32, burst: Duration) -> Option<Self> {
        let rate = NonZeroU32::new(events_per_second)?;
        let seconds = u32::try_from(burst.as_secs()).unwrap_or(u32::MAX).max(1);
        let burst = rate.saturating_mul(NonZeroU32::new(seconds)?);
        // A limiter that was silent for the length of its burst is full again, and so is a new one.
        let limiters = Cache::builder()
            .max_capacity(LIMITERS)
            .time_to_idle(Duration::from_secs(seconds.into()))
            .build();
        Some(Self {
            quota: Quota::per_second(rate).allow_burst(burst),
            limiters,
            clock: DefaultClock::default(),
        })
    }

    /// Takes `events` from the rate of `name`, all or none.
    pub(crate) fn take(&self, name: &str, events: usize) -> Result<(), ApiError> {
        self.take_of(name, events, "events")
    }

    /// `what` names the unit in the message.
    pub(crate) fn take_of(&self, name: &str, events: usize, what: &str) -> Result<(), ApiError> {
        let Some(events) = NonZeroU32::new(u32::try_from(events).unwrap_or(u32::MAX)) else {
            return Ok(());
        };
        let limiter = match self.limiters.get(name) {
            Some(limiter) => limiter,
            None => self.limiters.get_with(name.to_owned(), || {
                Arc::new(RateLimiter::direct(self.quota))
            }),
        };
        match limiter.check_n(events) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(not_until)) => {
                let wait = not_until.wait_time_from(self.clock.now());
                let seconds = u32::try_from(wait.as_secs())
                    .unwrap_or(u32::MAX)
                    .saturating_add(1);
                Err(ApiError::new(
                    ErrorCode::RateLimited,
                    format!("over the rate of {what}; send again in {seconds} s"),
                )
                .with_retry_after(seconds))
            }
            // Can never pass, so there is no `Retry-After`.
            Err(_) => Err(ApiError::new(
                ErrorCode::BatchOverRate,
                format!(
                    "{events} {what} in one request; at most {} at once",
                    self.quota.burst_size()
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_the_rate_is_429_with_a_time_and_each_name_counts_for_itself() {
        let rates = Rates::new(1, Duration::from_secs(10)).unwrap();
        assert_eq!(rates.take("a", 10), Ok(()));
        let fault = rates.take("a", 5).unwrap_err();
        assert_eq!((fault.status, fault.code.as_str()), (429, "rate_limited"));
        assert!((1..=6).contains(&fault.retry_after_s.unwrap()));
        assert_eq!(rates.take("b", 10), Ok(()));
    }

    #[test]
    fn a_batch_that_could_never_pass_is_413_and_takes_nothing() {
        let rates = Rates::new(1, Duration::from_secs(10)).unwrap();
        assert_eq!(rates.take("a", 11).unwrap_err().status, 413);
        assert_eq!(rates.take("a", 10), Ok(()));
    }

    #[test]
    fn nothing_is_limited_by_default_and_no_events_cost_nothing() {
        assert!(Rates::new(0, Duration::from_secs(1)).is_none());
        let rates = Rates::new(1, Duration::from_secs(1)).unwrap();
        assert_eq!(rates.take("a", 1), Ok(()));
        assert_eq!(rates.take("a", 0), Ok(()));
    }
}
