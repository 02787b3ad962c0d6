//! Tables that wait: what fails for a while is tried again until it works, or until the process is told to stop.
//!
//! So everything above reads as if the store were always there, and the backlog drains by itself when it comes back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::StoreError;
use store::states::{Child, ChildSum, StoredRun};
use tokio::sync::watch;

use crate::batch::Scope;
use crate::processor::{Processor, stopped_by};
use crate::tables::{Rows, Tables};

/// First pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Pauses that double from try to try.
pub(crate) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            next: PAUSE_MIN.min(longest),
            longest,
        }
    }

    /// Waits; `false` when told to stop meanwhile.
    pub(crate) async fn wait(&mut self, stop: &watch::Receiver<bool>) -> bool {
        let mut stop = stop.clone();
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = stopped_by(&mut stop) => false,
        }
    }
}

/// The processor's tables, patiently.
#[derive(Clone)]
pub(crate) struct Patient {
    pub(crate) processor: Arc<Processor>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Whether waiting may help. A question that took too long once need not do so again: the machine may have been busy,
/// and giving up would end all workers only to ask the same again.
fn may_pass(error: &StoreError) -> bool {
    error.is_retryable() || matches!(error, StoreError::TooExpensive { .. })
}

/// Repeats a call while its error says that repeating may help. Told to stop, it hands out that error.
macro_rules! patiently {
    ($self:ident, $call:expr) => {{
        let mut pause = Pause::new($self.processor.config.retry_pause_max);
        loop {
            match $call.await {
                Err(error) if may_pass(&error) => {
                    $self.processor.metrics.store_retries.inc();
                    $self.processor.set_waiting(true);
                    tracing::warn!(error = %error, "the store is away; the processor waits for it");
                    if !pause.wait(&$self.stop).await {
                        break Err(error);
                    }
                }
                // Nothing was tried, so nothing is known of the store.
                Err(StoreError::Fenced) => break Err(StoreError::Fenced),
                outcome => {
                    $self.processor.set_waiting(false);
                    break outcome;
                }
            }
        }
    }};
}

#[async_trait]
impl Tables for Patient {
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        patiently!(
            self,
            self.processor.parts.tables.load_states(scope, run_ids)
        )
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        part: (&str, usize),
    ) -> Result<Vec<Child>, StoreError> {
        let tables = &self.processor.parts.tables;
        patiently!(self, tables.children_of(scope, parent_ids, part))
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        let retries = self.processor.metrics.store_retries.get();
        let outcome = patiently!(self, self.processor.parts.tables.insert(rows));
        // After waiting for a store that was away it is no wonder.
        let has_waited = self.processor.metrics.store_retries.get() > retries;
        if matches!(outcome, Err(StoreError::Fenced)) && !has_waited {
            self.processor.metrics.fenced_inserts.inc();
        }
        outcome
    }

    async fn load_states_at(
        &self,
        scope: &Scope,
        runs: &[(&str, i64)],
    ) -> Result<Vec<StoredRun>, StoreError> {
        patiently!(
            self,
            self.processor.parts.tables.load_states_at(scope, runs)
        )
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        let tables = &self.processor.parts.tables;
        patiently!(self, tables.child_sums(scope, parent_ids, only))
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        // A link that is told twice, because an answer broke off, is the same link.
        let tables = &self.processor.parts.tables;
        patiently!(self, tables.tree_links(scope, root_ids, each))
    }

    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        patiently!(self, self.processor.parts.tables.known_runs(since, each))
    }

    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        patiently!(
            self,
            self.processor.parts.tables.waiting_parents(since, each)
        )
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        patiently!(self, self.processor.parts.tables.placed_by())
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        patiently!(self, self.processor.parts.tables.place_by(partitions))
    }
}
