//! The processor's interface to the tables. A trait, so that tests run the fold over thousands of cases against tables
//! in memory, and against the real engine.

use std::collections::BTreeMap;
use std::time::Instant;

use async_trait::async_trait;
use schemas::ids::ProjectId;
use store::reads::states::{Child, ChildPage, ChildSum, LinkedRun, RunPlace, StoredRun};
use store::tables::rows::{EventRow, FeedbackRow, InstanceRow, MessageRow};
use store::{Store, StoreError};

use crate::run::{RunToStore, Scope};

mod retrying;

pub(crate) use retrying::RetryingTables;

/// Days written by one insert. Each day is a partition and becomes a part of its own, about 13 ms each: an insert over
/// all days that timestamps may have would take minutes and time out.
const DAYS_PER_INSERT: usize = 100;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Groups rows by few days each; nearly always one group, in the order given.
fn by_days<R>(rows: &[R], time_ms: impl Fn(&R) -> i64) -> Vec<Vec<&R>> {
    let mut days: BTreeMap<i64, Vec<&R>> = BTreeMap::new();
    for row in rows {
        days.entry(time_ms(row).div_euclid(DAY_MS))
            .or_default()
            .push(row);
    }
    let days: Vec<Vec<&R>> = days.into_values().collect();
    days.chunks(DAYS_PER_INSERT)
        .map(|days| days.concat())
        .collect()
}

/// Inserts a few days at a time.
pub(crate) async fn insert_runs(store: &Store, runs: &[RunToStore<'_>]) -> Result<(), StoreError> {
    for runs in by_days(runs, RunToStore::started_at_ms) {
        let rows = runs.into_iter().map(RunToStore::row);
        store.insert_runs(rows).await?;
    }
    Ok(())
}

/// The rows of one step.
#[derive(Debug, Default)]
pub struct Rows<'a> {
    pub events: Vec<EventRow<'a>>,
    pub runs: Vec<RunToStore<'a>>,
    /// Rows of `runs` to store after all others: the others follow from them.
    pub causes: Vec<RunToStore<'a>>,
    pub messages: Vec<MessageRow<'a>>,
    pub feedback: Vec<FeedbackRow<'a>>,
    pub instances: Vec<InstanceRow<'a>>,
    /// No row may be stored after this moment.
    pub expires: Option<Instant>,
}

/// Look-ups and inserts on `events` and the tables derived from it.
#[async_trait]
pub trait Tables: Send + Sync {
    /// Includes tombstones; see [`Store::load_states`].
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError>;

    /// The rows that are where they are expected; see [`Store::load_states_near`].
    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError>;

    /// The sums of the stored children of these runs; see [`Store::child_sums`].
    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError>;

    /// Calls back with the links of the trees with these roots; see [`Store::tree_links`].
    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError>;

    /// The current rows whose parent is in the list and whose id is greater than `after`: the first `limit` by id.
    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError>;

    /// Stores rows durably. After an error some rows may be stored; repeating is harmless. An insert after
    /// [`Rows::expires`] fails with [`StoreError::Fenced`].
    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError>;

    /// Calls back with the hash ([`store::reads::states::run_hash`]) of every run that has a row; with `since` (Unix
    /// milliseconds), of the runs written since then, and possibly of others.
    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError>;

    /// Calls back with the hash of every parent that was unknown when its child was written; `since` as above.
    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError>;

    /// The runs with one of these links, at most `most` of each; see [`Store::runs_by_call_links`].
    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError>;

    /// Calls back with every link that a run has; `since` as above.
    async fn call_links(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError>;

    /// The number of partitions that all processors place keys by; `None` if no processor has decided it.
    async fn placed_by(&self) -> Result<Option<u32>, StoreError>;

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError>;
}

/// Name of that number in the table `deployment`.
const PLACED_BY: &str = "log.partitions";

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
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError> {
        let (project, app) = (scope.project.as_str(), scope.app.as_str());
        Store::children_of(self, project, app, parent_ids, ChildPage { after, limit }).await
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        let store = self.with_deadline(rows.expires);
        // Concurrent: each insert is one stream on one core of the server. Runs are last: a run that is visible has its
        // events, and so its input and output.
        let insert_events = async {
            for rows in by_days(&rows.events, |row| row.timestamp) {
                store.insert_events(rows.into_iter()).await?;
            }
            Ok::<_, StoreError>(())
        };
        let insert_messages = async {
            for rows in by_days(&rows.messages, |row| row.timestamp) {
                store.insert_messages(rows.into_iter()).await?;
            }
            for rows in by_days(&rows.feedback, |row| row.timestamp) {
                store.insert_feedback(rows.into_iter()).await?;
            }
            if !rows.instances.is_empty() {
                store.insert_instances(rows.instances.iter()).await?;
            }
            Ok::<_, StoreError>(())
        };
        tokio::try_join!(insert_events, insert_messages)?;
        insert_runs(&store, &rows.runs).await?;
        insert_runs(&store, &rows.causes).await
    }

    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        Store::load_states_near(self, project.as_str(), places).await
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        let (project, app) = (scope.project.as_str(), scope.app.as_str());
        Store::child_sums(self, project, app, parent_ids, only).await
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        let (project, app) = (scope.project.as_str(), scope.app.as_str());
        Store::tree_links(self, project, app, root_ids, each).await
    }

    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Store::known_runs(self, since, each).await
    }

    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Store::waiting_parents(self, since, each).await
    }

    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        let (project, app) = (scope.project.as_str(), scope.app.as_str());
        Store::runs_by_call_links(self, project, app, links, most).await
    }

    async fn call_links(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Store::call_links(self, since, each).await
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        let Some(value) = self.deployment_value(PLACED_BY).await? else {
            return Ok(None);
        };
        let unreadable = |_| StoreError::Shape(format!("{PLACED_BY} is not a number: {value}"));
        value.parse().map(Some).map_err(unreadable)
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        self.set_deployment_value(PLACED_BY, &partitions.to_string())
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_many_days_go_in_few_days_at_a_time() {
        let rows: Vec<i64> = (0..250).rev().map(|day| day * DAY_MS).collect();
        let lists = by_days(&rows, |row| *row);
        let sizes: Vec<usize> = lists.iter().map(Vec::len).collect();
        assert_eq!(sizes, [100, 100, 50], "(X1)");
        assert_eq!(by_days(&[5, 3, 9], |row| *row), [[&5, &3, &9]]);
        assert!(by_days(&[], |row: &i64| *row).is_empty());
    }
}
