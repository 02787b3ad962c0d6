//! Counts of events by fate.

/// Events since the client started. Each event is counted in `queued`, and in exactly one of `sent`, `dropped` and
/// `waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Passed to the client.
    pub queued: u64,
    /// In batches that the server answered with 200.
    pub sent: u64,
    /// Dropped, by reason.
    pub dropped: Dropped,
    /// In the queue, or in the batch in flight.
    pub waiting: u64,
    /// Of the sent events: accepted by the server.
    pub accepted: u64,
    /// Of the sent events: rejected by the server individually.
    pub rejected: u64,
    /// Batches that were sent again.
    pub retries: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The queue was full.
    pub queue_full: u64,
    /// The event was larger than a batch may be.
    pub too_large: u64,
    /// The batch could not be delivered.
    pub failed: u64,
    /// The event came after the client was closed, or was left when its time to close was over.
    pub closed: u64,
}

impl Dropped {
    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.queue_full + self.too_large + self.failed + self.closed
    }
}
