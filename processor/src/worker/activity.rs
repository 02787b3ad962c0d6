//! What a worker has and does, as the watchdog of the processor sees it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eventlog::Delivery;
use tokio::sync::watch;

/// What a worker does while it waits for records.
pub(super) const FETCHING: &str = "waiting for records";
pub(super) const COMMITTING: &str = "committing";
pub(super) const PAUSING: &str = "waiting for a retry";

/// What one worker has and does. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    now: Arc<Mutex<Now>>,
    rejoin: watch::Sender<()>,
}

#[derive(Debug)]
struct Now {
    partitions: BTreeSet<u32>,
    does: &'static str,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let now = Now {
            partitions: BTreeSet::new(),
            does: "starting",
        };
        Self {
            now: Arc::new(Mutex::new(now)),
            rejoin: watch::Sender::new(()),
        }
    }

    pub(crate) fn has(&self, partition: u32) -> bool {
        self.lock().partitions.contains(&partition)
    }

    pub(crate) fn does(&self) -> &'static str {
        self.lock().does
    }

    /// Whether the worker does something that [`Activity::rejoin`] interrupts. A step is not: it gets on by itself.
    pub(crate) fn can_rejoin(&self) -> bool {
        matches!(self.does(), FETCHING | COMMITTING | PAUSING)
    }

    /// Has the worker leave the group and join it again.
    pub(crate) fn rejoin(&self) {
        self.rejoin.send_replace(());
    }

    /// For the worker: changes when it has to join again.
    pub(super) fn rejoins(&self) -> watch::Receiver<()> {
        self.rejoin.subscribe()
    }

    pub(super) fn begin(&self, does: &'static str) {
        self.lock().does = does;
    }

    pub(super) fn follow(&self, delivery: &Delivery) {
        let partitions = &mut self.lock().partitions;
        match delivery {
            Delivery::Assigned(positions) => {
                partitions.extend(positions.iter().map(|at| at.partition));
            }
            Delivery::Revoked(gone) | Delivery::Lost(gone) => {
                partitions.retain(|partition| !gone.contains(partition));
            }
            Delivery::Records(_) | Delivery::Idle => {}
        }
    }

    pub(super) fn has_none(&self) {
        self.lock().partitions.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // A set and a word: a panic between two changes of them cannot happen.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
