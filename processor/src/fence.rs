//! Until when a step may store what it has made.
//!
//! Several processes read one log. A partition that its owner does not hear of any more goes to another one, and the
//! former owner may be asleep in the middle of a step. When it wakes, what it holds was made of rows that are not the
//! newest any more. So each insert has an end, taken from the lease of the member and from that of the gate, and the
//! store refuses what comes after it, by the server's clock.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::{Lease, LogError, Member};
use tokio::sync::{Mutex, watch};

use crate::ProcessorError;
use crate::gate::Pass;
use crate::patient::Pause;

/// The server looks at its clock when it has all rows of an insert, and stores them a moment later: this much at most
/// of what is left of a lease is kept for that moment.
const MARGIN_MAX: Duration = Duration::from_secs(3);
/// Rows that wait longer than this for their insert are made anew: they say when they were made, and whoever learns
/// which runs there are asks for those of the last minutes; see [`crate::known::Known`].
pub const ROWS_AGE_MAX: Duration = Duration::from_secs(300);

/// Says until when rows may be stored that were made since the step began.
#[async_trait]
pub trait Fence: Send + Sync {
    /// The end, or `None` where there is none. [`ProcessorError::Lost`] when the records are another member's by now,
    /// [`ProcessorError::Lapsed`] when they have to be processed anew.
    async fn until(&self) -> Result<Option<Instant>, ProcessorError>;
}

/// No end: for work that nobody else does at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Unfenced;

#[async_trait]
impl Fence for Unfenced {
    async fn until(&self) -> Result<Option<Instant>, ProcessorError> {
        Ok(None)
    }
}

/// The leases of one step of a worker.
pub(crate) struct Leases<'a> {
    pub(crate) member: Mutex<&'a mut dyn Member>,
    pub(crate) pass: &'a Pass,
    pub(crate) began: Instant,
    pub(crate) stop: &'a watch::Receiver<bool>,
    pub(crate) pause_max: Duration,
}

#[async_trait]
impl Fence for Leases<'_> {
    async fn until(&self) -> Result<Option<Instant>, ProcessorError> {
        let mut pause = Pause::new(self.pause_max);
        let mut member = self.member.lock().await;
        loop {
            let now = Instant::now();
            let until = match (member.lease().await, self.pass.until()?) {
                (Ok(Lease::Held), None) => return Ok(None),
                (Ok(Lease::Held), Some(gate)) => gate,
                (Ok(Lease::Until(member)), gate) => gate.map_or(member, |gate| gate.min(member)),
                (Err(LogError::NotAssigned(_)), _) => return Err(ProcessorError::Lost),
                (Err(error), _) if error.is_retryable() => {
                    tracing::warn!(error = %error, "whose the partitions are cannot be asked for now");
                    if !pause.wait(self.stop).await {
                        return Err(error.into());
                    }
                    continue;
                }
                (Err(error), _) => return Err(error.into()),
            };
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                // Nobody has said yet whose they are now.
                if !pause.wait(self.stop).await {
                    return Err(ProcessorError::Lapsed);
                }
                continue;
            }
            if self.began.elapsed() >= ROWS_AGE_MAX {
                return Err(ProcessorError::Lapsed);
            }
            let until = now + left - MARGIN_MAX.min(left / 4);
            return Ok(Some(until.min(self.began + ROWS_AGE_MAX)));
        }
    }
}
