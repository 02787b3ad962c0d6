//! Tables that wait: what fails for a while is tried again until it works, or until the process is told to stop.
//!
//! So everything above reads as if the store were always there, and the backlog drains by itself when it comes back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::StoreError;
use store::states::{Child, ChildTotals, StoredRun};
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

/// Repeats a call while its error says that repeating may help. Told to stop, it hands out that error.
macro_rules! patiently {
    ($self:ident, $call:expr) => {{
        let mut pause = Pause::new($self.processor.config.retry_pause_max);
        loop {
            match $call.await {
                Err(error) if error.is_retryable() => {
                    $self.processor.metrics.store_retries.inc();
                    $self.processor.set_waiting(true);
                    tracing::warn!(error = %error, "the store is away; the processor waits for it");
                    if !pause.wait(&$self.stop).await {
                        break Err(error);
                    }
                }
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
    ) -> Result<Vec<Child>, StoreError> {
        patiently!(
            self,
            self.processor.parts.tables.children_of(scope, parent_ids)
        )
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        patiently!(self, self.processor.parts.tables.insert(rows))
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

    async fn child_totals(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        each: &mut (dyn FnMut(ChildTotals) + Send),
    ) -> Result<(), StoreError> {
        // Told as a whole: an answer that breaks off must not be counted twice.
        let found = patiently!(self, async {
            let mut found = Vec::new();
            let mut keep = |child| found.push(child);
            let tables = &self.processor.parts.tables;
            tables.child_totals(scope, parent_ids, &mut keep).await?;
            Ok::<_, StoreError>(found)
        })?;
        found.into_iter().for_each(each);
        Ok(())
    }

    async fn known_runs(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError> {
        patiently!(self, self.processor.parts.tables.known_runs(each))
    }

    async fn waiting_parents(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError> {
        patiently!(self, self.processor.parts.tables.waiting_parents(each))
    }
}
