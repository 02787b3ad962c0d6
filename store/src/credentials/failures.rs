//! Failed look-ups of credentials, limited per client address.
//!
//! Secrets are 256 random bits, so guessing one is hopeless; but a guess costs a query. Each address has a token bucket
//! of look-ups that may fail. An empty one yields 429 before any look-up. A cached credential costs nothing and is
//! never limited, so an address shared by many clients keeps working for all valid ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use moka::sync::Cache;
use prometheus::IntCounterVec;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::client_address::ClientAddress;

/// Failed look-ups of one address, per minute and in a burst.
pub const FAILURES_PER_MINUTE: u32 = 300;
/// Tracked addresses; beyond it the least used start again (X1).
const ADDRESSES: u64 = 20_000;
/// After this long without a failure every bucket is full again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);
/// An address is logged at most once in this time, and all addresses together at most [`LINES`] times.
const LOGGED_EVERY: Duration = Duration::from_secs(60);
const LINES: u32 = 60;

/// The kind of an invalid credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCredential {
    Secret,
    Session,
    Identity,
}

impl FailedCredential {
    fn label(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Session => "session",
            Self::Identity => "identity",
        }
    }
}

/// The failures of one process.
pub struct Failures {
    per_minute: u32,
    addresses: Cache<ClientAddress, Arc<Mutex<OfAddress>>>,
    lines: Mutex<(Instant, u32)>,
    counted: IntCounterVec,
}

/// The token bucket of one address, and its log state.
#[derive(Debug)]
struct OfAddress {
    left: f64,
    at: Instant,
    logged: Option<Instant>,
    unlogged: u32,
}

impl OfAddress {
    fn fill(&mut self, per_minute: u32, now: Instant) {
        let rate = f64::from(per_minute) / 60.0;
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.left = (self.left + earned).min(per_minute.into());
        self.at = now;
    }
}

impl Failures {
    pub(super) fn new(per_minute: u32, counted: IntCounterVec) -> Self {
        Self {
            per_minute,
            addresses: Cache::builder()
                .max_capacity(ADDRESSES)
                .time_to_idle(FORGOTTEN_AFTER)
                .build(),
            lines: Mutex::new((Instant::now(), 0)),
            counted,
        }
    }

    /// Whether a credential from this address may be looked up.
    ///
    /// # Errors
    /// 429 when too many look-ups failed.
    pub fn may_try(&self, client: Option<ClientAddress>) -> Result<(), ApiError> {
        self.may_try_at(client, Instant::now())
    }

    fn may_try_at(&self, client: Option<ClientAddress>, now: Instant) -> Result<(), ApiError> {
        let Some(of) = client.and_then(|client| self.addresses.get(&client)) else {
            return Ok(());
        };
        let mut of = of.lock().unwrap_or_else(PoisonError::into_inner);
        of.fill(self.per_minute, now);
        if self.per_minute == 0 || of.left >= 1.0 {
            return Ok(());
        }
        self.counted.with_label_values(&["limited"]).inc();
        let wait_s = (1.0 - of.left) * 60.0 / f64::from(self.per_minute);
        let wait_s = wait_s.ceil().max(1.0) as u32;
        let message = format!(
            "more than {} credentials of this address failed within a minute; try again in {wait_s} s",
            self.per_minute
        );
        Err(ApiError::new(ErrorCode::TooManyFailures, message).with_retry_after(wait_s))
    }

    /// Call after the look-up of an invalid credential from this address.
    pub fn failed(&self, client: Option<ClientAddress>, what: FailedCredential) {
        self.counted.with_label_values(&[what.label()]).inc();
        let Some(client) = client else { return };
        if let Some(failures) = self.count(client, Instant::now()) {
            tracing::warn!(
                client.address = %client,
                auth.credential = what.label(),
                auth.failures = failures,
                "credentials are not good"
            );
        }
    }

    /// Counts a failure; returns how many to log, if a line is due.
    fn count(&self, client: ClientAddress, now: Instant) -> Option<u32> {
        let of = self.addresses.get_with(client, || {
            Arc::new(Mutex::new(OfAddress {
                left: self.per_minute.into(),
                at: now,
                logged: None,
                unlogged: 0,
            }))
        });
        let mut of = of.lock().unwrap_or_else(PoisonError::into_inner);
        of.fill(self.per_minute, now);
        of.left = (of.left - 1.0).max(0.0);
        of.unlogged = of.unlogged.saturating_add(1);
        let is_due = |last: Instant| now.saturating_duration_since(last) >= LOGGED_EVERY;
        if !of.logged.is_none_or(is_due) || !self.has_line(now) {
            return None;
        }
        of.logged = Some(now);
        Some(std::mem::take(&mut of.unlogged))
    }

    fn has_line(&self, now: Instant) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(lines.0) >= LOGGED_EVERY {
            *lines = (now, 0);
        }
        lines.1 += 1;
        lines.1 <= LINES
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use prometheus::Opts;

    use super::*;

    fn failures(per_minute: u32) -> Failures {
        let counted = IntCounterVec::new(Opts::new("f", "f"), &["reason"]).unwrap();
        Failures::new(per_minute, counted)
    }

    fn client(host: u8) -> ClientAddress {
        IpAddr::from([10, 0, 0, host]).into()
    }

    #[test]
    fn an_address_is_limited_after_its_failures_and_others_are_not() {
        let failures = failures(60);
        let now = Instant::now();
        for _ in 0..60 {
            assert!(failures.may_try_at(Some(client(1)), now).is_ok());
            failures.count(client(1), now);
        }
        let fault = failures.may_try_at(Some(client(1)), now).unwrap_err();
        assert_eq!((fault.status, fault.retry_after_s), (429, Some(1)));
        assert!(failures.may_try_at(Some(client(2)), now).is_ok());
        assert!(failures.may_try_at(None, now).is_ok());
        let later = now + Duration::from_secs(1);
        assert!(failures.may_try_at(Some(client(1)), later).is_ok());
    }

    #[test]
    fn zero_means_no_limit() {
        let failures = failures(0);
        let now = Instant::now();
        for _ in 0..1000 {
            failures.count(client(1), now);
        }
        assert!(failures.may_try_at(Some(client(1)), now).is_ok());
    }

    #[test]
    fn an_address_is_logged_once_a_minute_and_all_together_within_a_bound() {
        let failures = failures(60);
        let now = Instant::now();
        assert_eq!(failures.count(client(1), now), Some(1));
        for _ in 0..9 {
            assert_eq!(failures.count(client(1), now), None);
        }
        let later = now + LOGGED_EVERY;
        assert_eq!(failures.count(client(1), later), Some(10));
        let lines = (2..200).filter_map(|host| failures.count(client(host), later));
        assert_eq!(lines.count(), LINES as usize - 1);
    }
}
