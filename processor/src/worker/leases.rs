//! The lease of a step: the earlier end of its partitions' lease and of the permit of its process.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::{Lease, LogError, Member};
use tokio::sync::{Mutex, watch};

use crate::backoff::Backoff;
use crate::error::ProcessorError;
use crate::step::lease::{ROWS_AGE_MAX, StepLease};
use control::Permit;

/// The server compares its clock when it has all rows of an insert, and stores them a moment later. At most this much
/// of the remaining lease is reserved for that moment.
const MARGIN_MAX: Duration = Duration::from_secs(3);

pub(super) struct Leases<'a> {
    pub(super) member: Mutex<&'a mut dyn Member>,
    pub(super) permit: &'a Permit,
    pub(super) began: Instant,
    pub(super) stop: &'a watch::Receiver<bool>,
    pub(super) pause_max: Duration,
}

#[async_trait]
impl StepLease for Leases<'_> {
    async fn expires(&self) -> Result<Option<Instant>, ProcessorError> {
        let mut backoff = Backoff::new(self.pause_max);
        let mut member = self.member.lock().await;
        loop {
            let now = Instant::now();
            let until = match (member.lease().await, self.permit.expires()?) {
                (Ok(Lease::Held), None) => return Ok(None),
                (Ok(Lease::Held), Some(permit)) => permit,
                (Ok(Lease::Until(member)), permit) => {
                    permit.map_or(member, |permit| permit.min(member))
                }
                (Err(LogError::NotAssigned(_)), _) => return Err(ProcessorError::PartitionsLost),
                (Err(error), _) if error.is_retryable() => {
                    tracing::warn!(error = %error, "the lease of the partitions cannot be read and is retried");
                    if !backoff.wait(self.stop).await {
                        return Err(error.into());
                    }
                    continue;
                }
                (Err(error), _) => return Err(error.into()),
            };
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                // The new owner is not known yet.
                if !backoff.wait(self.stop).await {
                    return Err(ProcessorError::LeaseExpired);
                }
                continue;
            }
            if self.began.elapsed() >= ROWS_AGE_MAX {
                return Err(ProcessorError::LeaseExpired);
            }
            let until = now + left - MARGIN_MAX.min(left / 4);
            return Ok(Some(until.min(self.began + ROWS_AGE_MAX)));
        }
    }
}
