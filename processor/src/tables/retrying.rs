//! Retries operations on the tables until they succeed or the process stops.
//!
//! So the code above reads as if the store were always there, and the backlog drains without intervention when it
//! returns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemas::ids::ProjectId;
use store::StoreError;
use store::reads::states::{Child, ChildSum, LinkedRun, RunPlace, StoredRun};
use tokio::sync::watch;

use super::{Rows, Tables};
use crate::backoff::Backoff;
use crate::metrics::Metrics;
use crate::run::Scope;
use crate::status::StatusSender;

#[derive(Clone)]
pub(crate) struct RetryingTables {
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) metrics: Metrics,
    pub(crate) status: StatusSender,
    pub(crate) pause_max: Duration,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Whether a retry may help. A query that timed out once may succeed later, because the machine may have been busy, and
/// giving up would end all workers only to repeat the query.
fn may_pass(error: &StoreError) -> bool {
    error.is_retryable() || matches!(error, StoreError::TooExpensive { .. })
}

/// Repeats a call while its error is retryable; returns that error when the process stops.
macro_rules! retry {
    ($self:ident, $call:expr) => {{
        let mut backoff = Backoff::new($self.pause_max);
        loop {
            match $call.await {
                Err(error) if may_pass(&error) => {
                    $self.metrics.store_retries.inc();
                    $self.status.set_waiting(true);
                    tracing::warn!(error = %error, "the store is unavailable; the operation is retried");
                    if !backoff.wait(&$self.stop).await {
                        break Err(error);
                    }
                }
                // Nothing was tried, so the state of the store is unknown.
                Err(StoreError::Fenced) => break Err(StoreError::Fenced),
                outcome => {
                    $self.status.set_waiting(false);
                    break outcome;
                }
            }
        }
    }};
}

#[async_trait]
impl Tables for RetryingTables {
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        retry!(self, self.tables.load_states(scope, run_ids))
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError> {
        let tables = &self.tables;
        retry!(self, tables.children_of(scope, parent_ids, after, limit))
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        let retries = self.metrics.store_retries.get();
        let outcome = retry!(self, self.tables.insert(rows));
        // A fenced insert is expected after waiting for a store that was away.
        let has_waited = self.metrics.store_retries.get() > retries;
        if matches!(outcome, Err(StoreError::Fenced)) && !has_waited {
            self.metrics.fenced_inserts.inc();
        }
        outcome
    }

    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        retry!(self, self.tables.load_states_near(project, places))
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        let tables = &self.tables;
        retry!(self, tables.child_sums(scope, parent_ids, only))
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        // A link that is read twice, because a response broke off, is the same link.
        let tables = &self.tables;
        retry!(self, tables.tree_links(scope, root_ids, each))
    }

    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        retry!(self, self.tables.known_runs(since, each))
    }

    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        retry!(self, self.tables.waiting_parents(since, each))
    }

    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        retry!(self, self.tables.linked_runs(scope, links, most))
    }

    async fn call_links(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        retry!(self, self.tables.call_links(since, each))
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        retry!(self, self.tables.placed_by())
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        retry!(self, self.tables.place_by(partitions))
    }
}
