//! What became of every event, in numbers.

/// Events since the client started. Each event that was given to the client is in `queued`, and in exactly one of
/// `sent`, `dropped` and `waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Given to the client.
    pub queued: u64,
    /// In batches that the server answered with 200.
    pub sent: u64,
    /// Lost, by reason.
    pub dropped: Dropped,
    /// In the queue, or in the batch that is on its way.
    pub waiting: u64,
    /// Of those sent: kept by the server, as it says.
    pub accepted: u64,
    /// Of those sent: refused by the server one by one, as it says.
    pub rejected: u64,
    /// Batches that were sent again.
    pub retries: u64,
}

/// Events that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The queue was full.
    pub queue_full: u64,
    /// One event was larger than a batch may be.
    pub too_large: u64,
    /// The batch could not be delivered.
    pub failed: u64,
    /// They came after the client was closed, or were left when its time to close was over.
    pub closed: u64,
}

impl Dropped {
    /// For whatever reason.
    pub fn total(&self) -> u64 {
        self.queue_full + self.too_large + self.failed + self.closed
    }
}
