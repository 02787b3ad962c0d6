//! What the processor needs of the tables: a seam, so that the fold can be tested over thousands of cases against a
//! table in memory, and with the real engine.

use async_trait::async_trait;
use store::rows::{EventRow, RunRow};
use store::states::{Child, StoredRun};
use store::{Store, StoreError};

use crate::batch::Scope;

/// Look-ups and inserts on `events` and `runs`.
#[async_trait]
pub trait Tables: Send + Sync + 'static {
    /// What is stored of these runs, tombstones included; see [`Store::load_states`].
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError>;

    /// The current runs whose parent is one of these.
    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
    ) -> Result<Vec<Child>, StoreError>;

    /// Stores rows durably. After an error some may be stored; repeating is harmless.
    async fn insert(&self, events: &[EventRow<'_>], runs: &[RunRow<'_>]) -> Result<(), StoreError>;

    /// Calls back with the hash ([`store::states::run_hash`]) of every run that has a row.
    async fn known_runs(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError>;

    /// Calls back with the hash of every parent that was not known when its child was written.
    async fn waiting_parents(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError>;
}

#[async_trait]
impl Tables for Store {
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        Store::load_states(self, scope.project.as_str(), scope.app.as_str(), run_ids).await
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
    ) -> Result<Vec<Child>, StoreError> {
        Store::children_of(self, scope.project.as_str(), scope.app.as_str(), parent_ids).await
    }

    async fn insert(&self, events: &[EventRow<'_>], runs: &[RunRow<'_>]) -> Result<(), StoreError> {
        // Side by side: each is one stream on one core of the server.
        let (events, runs) = tokio::join!(
            self.insert_events(events.iter()),
            self.insert_runs(runs.iter())
        );
        events?;
        runs?;
        Ok(())
    }

    async fn known_runs(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError> {
        Store::known_runs(self, each).await
    }

    async fn waiting_parents(&self, each: &mut (dyn FnMut(u64) + Send)) -> Result<u64, StoreError> {
        Store::waiting_parents(self, each).await
    }
}
