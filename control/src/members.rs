//! The membership of one process, shared between its tasks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemas::control::KnownProcess;
use tokio::sync::{Notify, watch};

use crate::membership::{ClearProgress, Membership};

/// The membership of one process. Clones are the same; a [`crate::Driver`] keeps it current.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    membership: Mutex<Membership>,
    /// Counts heartbeats of others.
    received: watch::Sender<u64>,
    hurry: Notify,
}

impl Members {
    pub fn new(process: String, interval: Duration) -> Self {
        Self(Arc::new(Inner {
            membership: Mutex::new(Membership::new(process, interval)),
            received: watch::Sender::new(0),
            hurry: Notify::new(),
        }))
    }

    pub fn list(&self) -> Vec<KnownProcess> {
        self.with(|membership| membership.list(Instant::now()))
    }

    pub fn clear_progress(&self, order: &str) -> ClearProgress {
        self.with(|membership| membership.clear_progress(order, Instant::now()))
    }

    /// Changes after each heartbeat of another process.
    pub fn received(&self) -> watch::Receiver<u64> {
        self.0.received.subscribe()
    }

    /// The heartbeat of this process has changed: the next one is published at once.
    pub fn publish_soon(&self) {
        self.with(Membership::publish_soon);
        self.0.hurry.notify_one();
    }

    pub(crate) async fn hurried(&self) {
        self.0.hurry.notified().await;
    }

    pub(crate) fn count_received(&self) {
        self.0.received.send_modify(|received| *received += 1);
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Membership) -> T) -> T {
        // Consistent at any moment: no code between two changes can panic.
        let membership = self.0.membership.lock();
        work(&mut membership.unwrap_or_else(PoisonError::into_inner))
    }
}
