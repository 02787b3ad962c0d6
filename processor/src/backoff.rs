//! Pauses between retries.

use std::time::Duration;

use tokio::sync::watch;

use crate::stop::stopped_by;

const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Pauses that double with each retry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(longest: Duration) -> Self {
        let first = PAUSE_MIN.min(longest);
        Self {
            next: first,
            first,
            longest,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// Starts with the shortest pause again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns `false` when the process stops meanwhile.
    pub(crate) async fn wait(&mut self, stop: &watch::Receiver<bool>) -> bool {
        let mut stop = stop.clone();
        let pause = self.next();
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = stopped_by(&mut stop) => false,
        }
    }
}
