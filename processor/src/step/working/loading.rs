//! Loads runs into the working set, from the cache or in batches from the table.

use std::collections::{HashMap, HashSet};

use store::reads::states::StoredRun;

use super::request::Wanted;
use super::{Sources, Working, hash};
use crate::error::ProcessorError;
use crate::run::{Node, RunKey};

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) hot: u64,
    pub(super) cold: u64,
}

impl Working {
    /// Loads runs that are not in the set, from the cache or the table; unknown ones become `absent`.
    pub(super) async fn load(
        &mut self,
        wanted: Vec<Wanted>,
        sources: Sources<'_>,
    ) -> Result<Loaded, ProcessorError> {
        let mut loaded = Loaded::default();
        let mut cold: HashMap<usize, Vec<Wanted>> = HashMap::new();
        for wanted in wanted {
            let scope = &self.nodes.scopes[wanted.scope];
            let key = scope.key(&wanted.run_id);
            if self.nodes.get(key).is_some() || self.unseen.contains_key(&key) {
                continue;
            }
            if let Some(hot) = sources.hot.get(key) {
                loaded.hot += 1;
                let node = Node::of_hot(wanted.scope, wanted.run_id, hot, scope)?;
                self.insert(key, node);
            } else if sources.known.may_be_stored(hash(scope, &wanted.run_id)) {
                cold.entry(wanted.scope).or_default().push(wanted);
            } else {
                self.absent.insert(key);
            }
        }
        for (scope, cold) in cold {
            let rows = self.rows_of(scope, &cold, sources).await?;
            let mut rows_of: HashMap<String, Vec<StoredRun>> = HashMap::new();
            for row in rows {
                rows_of.entry(row.run_id.clone()).or_default().push(row);
            }
            for Wanted { run_id, .. } in cold {
                let key = self.nodes.scopes[scope].key(&run_id);
                match rows_of.remove(run_id.as_ref()) {
                    Some(rows) => {
                        loaded.cold += 1;
                        let node = Node::of_rows(scope, run_id, rows, &self.nodes.scopes[scope])?;
                        self.insert(key, node);
                    }
                    None if self.nodes.get(key).is_none() => {
                        self.absent.insert(key);
                    }
                    None => {}
                }
            }
        }
        Ok(loaded)
    }

    /// The stored rows of runs. A known start finds them by their key; where that fails, or an interrupted write may
    /// have left rows, they are found by their ids.
    async fn rows_of(
        &self,
        scope: usize,
        wanted: &[Wanted],
        sources: Sources<'_>,
    ) -> Result<Vec<StoredRun>, ProcessorError> {
        let scope = &self.nodes.scopes[scope];
        let (placed, unplaced): (Vec<_>, Vec<_>) = wanted
            .iter()
            .map(|run| (run.run_id.as_ref(), run.started_at_ms))
            .partition(|(_, start)| start.is_some() && !sources.assume_partial_writes);
        let placed: Vec<(&str, i64)> = placed
            .into_iter()
            .filter_map(|(run_id, start)| Some((run_id, start?)))
            .collect();
        let mut rows = Vec::new();
        let mut ids: Vec<&str> = unplaced.into_iter().map(|(run_id, _)| run_id).collect();
        if !placed.is_empty() {
            rows = sources.tables.load_states_at(scope, &placed).await?;
            let found: HashSet<&str> = rows
                .iter()
                .filter(|row| row.is_deleted == 0)
                .map(|row| row.run_id.as_str())
                .collect();
            let moved = placed.iter().map(|(run_id, _)| *run_id);
            let moved: Vec<&str> = moved.filter(|run_id| !found.contains(run_id)).collect();
            drop(found);
            let gone: HashSet<&str> = moved.iter().copied().collect();
            rows.retain(|row| !gone.contains(row.run_id.as_str()));
            ids.extend(moved);
        }
        if !ids.is_empty() {
            rows.extend(sources.tables.load_states(scope, &ids).await?);
        }
        Ok(rows)
    }

    pub(super) fn insert(&mut self, key: RunKey, node: Node) {
        if node.state.is_unseen() {
            self.absent.insert(key);
            self.unseen.insert(key, node);
            return;
        }
        self.absent.remove(&key);
        if let Some(parent) = node.parent() {
            self.children.entry(parent).or_default().push(key);
        }
        self.nodes.nodes.insert(key, node);
    }
}
