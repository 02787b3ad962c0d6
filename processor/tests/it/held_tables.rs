//! Tables whose inserts can be held on their way, like the inserts of a process that sleeps.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use processor::run::Scope;
use processor::{Rows, Tables};
use schemas::ids::ProjectId;
use store::StoreError;
use store::reads::states::{Child, ChildSum, LinkedRun, RunPlace, StoredRun};
use tokio::sync::watch;

/// One process's way to the tables.
#[derive(Clone)]
pub(crate) struct HeldTables {
    tables: Arc<dyn Tables>,
    holds: watch::Sender<bool>,
    /// The deadline of the insert that is held.
    waits: watch::Sender<Option<Instant>>,
    /// Whether one is held, with a deadline or without.
    has_one: watch::Sender<bool>,
}

impl HeldTables {
    pub(crate) fn new(tables: Arc<dyn Tables>) -> Self {
        Self {
            tables,
            holds: watch::Sender::new(false),
            waits: watch::Sender::new(None),
            has_one: watch::Sender::new(false),
        }
    }

    /// Inserts wait from now on, or go on.
    pub(crate) fn hold(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    /// Waits until an insert is held, whether it has a deadline or not.
    pub(crate) async fn has_one(&self) {
        let mut has_one = self.has_one.subscribe();
        has_one.wait_for(|has_one| *has_one).await.unwrap();
    }

    /// Waits until an insert is held; gives its deadline.
    pub(crate) async fn held(&self) -> Instant {
        let mut waits = self.waits.subscribe();
        let held = waits.wait_for(Option::is_some).await.unwrap();
        held.unwrap()
    }
}

#[async_trait]
impl Tables for HeldTables {
    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        if *self.holds.borrow() {
            self.waits.send_replace(rows.expires);
            self.has_one.send_replace(true);
            let mut holds = self.holds.subscribe();
            holds.wait_for(|holds| !holds).await.unwrap();
        }
        self.tables.insert(rows).await
    }

    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        self.tables.load_states(scope, run_ids).await
    }

    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        self.tables.load_states_near(project, places).await
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        self.tables.child_sums(scope, parent_ids, only).await
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        self.tables.tree_links(scope, root_ids, each).await
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError> {
        self.tables
            .children_of(scope, parent_ids, after, limit)
            .await
    }

    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        self.tables.known_runs(since, each).await
    }

    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        self.tables.waiting_parents(since, each).await
    }

    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        self.tables.linked_runs(scope, links, most).await
    }

    async fn call_links(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        self.tables.call_links(since, each).await
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        self.tables.placed_by().await
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        self.tables.place_by(partitions).await
    }
}
