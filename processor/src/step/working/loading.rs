//! Loads runs into the working set, from the cache or in batches from the table.

use std::collections::HashMap;

use schemas::ids::ProjectId;
use store::reads::states::{RunPlace, StoredRun};

use super::request::{Start, Wanted};
use super::{Sources, Working, hash};
use crate::error::ProcessorError;
use crate::run::{KeyMap, Node, RunKey, Scope};

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
        let mut cold: Vec<Wanted> = Vec::new();
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
                cold.push(wanted);
            } else {
                self.absent.insert(key);
            }
        }
        let mut rows = self.rows_of(&cold, sources).await?;
        for Wanted { scope, run_id, .. } in cold {
            let of = &self.nodes.scopes[scope];
            let key = of.key(&run_id);
            match rows.remove(&key) {
                Some(rows) => {
                    loaded.cold += 1;
                    let node = Node::of_rows(scope, run_id, rows, of)?;
                    self.insert(key, node);
                }
                None if self.nodes.get(key).is_none() => {
                    self.absent.insert(key);
                }
                None => {}
            }
        }
        Ok(loaded)
    }

    /// The stored rows of runs. A known start finds them by their key; where that fails, or an interrupted write may
    /// have left rows, they are found by their ids.
    async fn rows_of(
        &self,
        wanted: &[Wanted],
        sources: Sources<'_>,
    ) -> Result<KeyMap<Vec<StoredRun>>, ProcessorError> {
        let mut rows = match sources.assume_partial_writes {
            true => KeyMap::default(),
            false => self.rows_near(wanted, sources).await?,
        };
        let mut missing: HashMap<usize, Vec<&str>> = HashMap::new();
        for Wanted { scope, run_id, .. } in wanted {
            if !rows.contains_key(&self.nodes.scopes[*scope].key(run_id)) {
                missing.entry(*scope).or_default().push(run_id.as_ref());
            }
        }
        for (scope, ids) in missing {
            let scope = &self.nodes.scopes[scope];
            for row in sources.tables.load_states(scope, &ids).await? {
                rows.entry(scope.key(&row.run_id)).or_default().push(row);
            }
        }
        Ok(rows)
    }

    /// The rows of the runs whose current row is where it is expected.
    async fn rows_near(
        &self,
        wanted: &[Wanted],
        sources: Sources<'_>,
    ) -> Result<KeyMap<Vec<StoredRun>>, ProcessorError> {
        let mut projects: HashMap<&ProjectId, Vec<RunPlace<'_>>> = HashMap::new();
        let mut scopes: HashMap<(&ProjectId, &str), &Scope> = HashMap::new();
        for run in wanted {
            let (started_at, is_exact) = match run.start {
                Start::Unknown => continue,
                Start::Near(ms) => (ms, false),
                Start::At(ms) => (ms, true),
            };
            let scope = &self.nodes.scopes[run.scope];
            scopes.insert((&scope.project, scope.app.as_str()), scope);
            projects.entry(&scope.project).or_default().push(RunPlace {
                app: scope.app.as_str(),
                run_id: &run.run_id,
                started_at,
                is_exact,
            });
        }
        let mut found: KeyMap<Vec<StoredRun>> = KeyMap::default();
        for (project, places) in projects {
            for row in sources.tables.load_states_near(project, &places).await? {
                if let Some(scope) = scopes.get(&(project, row.app_id.as_str())) {
                    found.entry(scope.key(&row.run_id)).or_default().push(row);
                }
            }
        }
        found.retain(|_, rows| rows.iter().any(|row| row.is_deleted == 0));
        Ok(found)
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
