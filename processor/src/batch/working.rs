//! The runs a micro-batch touches, and those whose lineage it reaches.

use std::collections::HashMap;
use std::sync::Arc;

use schemas::fold::RunState;
use store::states::{CHILDREN_MAX, StoredRun, run_hash};

use super::{Base, Delta, KeyMap, KeySet, Node, Nodes, Resolved, RunKey, Scope, Snapshot};
use crate::ProcessorError;
use crate::hot::{HotRun, HotRuns};
use crate::known::Known;
use crate::lineage::{self, Round};
use crate::metrics::Metrics;
use crate::tables::Tables;

/// Where what is known of a run comes from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The tables.
    pub tables: &'a dyn Tables,
    /// Runs touched lately.
    pub hot: &'a HotRuns,
    /// Which runs have rows at all.
    pub known: &'a Known,
    /// What is counted.
    pub metrics: &'a Metrics,
    /// Whether these records may have been stored in part before, by a process that was killed half way. Then the
    /// cause of a change may be in the table without all of its consequences, so that finding nothing changed proves
    /// nothing: every touched run is related to its ancestors again, and every run below it.
    pub careful: bool,
}

/// The working set of one micro-batch.
#[derive(Debug, Default)]
pub struct Working {
    nodes: Nodes,
    /// Runs that were looked for and have no row.
    absent: KeySet,
    /// Children by parent, as far as they are in the set.
    children: KeyMap<Vec<RunKey>>,
    /// Hashes of unknown parents that runs of this set name.
    orphaned: Vec<u64>,
}

impl Working {
    /// Brings together what a micro-batch says and what is known, and settles the lineage of all it reaches.
    pub async fn settle(
        scopes: &[Scope],
        deltas: KeyMap<Delta>,
        sources: Sources<'_>,
    ) -> Result<Self, ProcessorError> {
        let mut working = Self::default();
        working.nodes.scopes = scopes.to_vec();
        let wanted = deltas
            .values()
            .map(|delta| (delta.scope, delta.run_id.clone()))
            .collect();
        let loaded = working.load(wanted, sources).await?;
        let labels = ["hot", "cold", "new"];
        let new = deltas.len() as u64 - loaded.hot - loaded.cold;
        for (label, count) in labels.into_iter().zip([loaded.hot, loaded.cold, new]) {
            sources
                .metrics
                .runs_touched
                .with_label_values(&[label])
                .inc_by(count);
        }
        let touched = working.join(deltas, sources.careful)?;
        working.settle_lineage(touched, sources).await?;
        Ok(working)
    }

    /// The runs to write, each with its scope.
    pub fn changed(&self) -> impl Iterator<Item = (&Node, &Scope)> {
        let nodes = self.nodes.nodes.values().filter(|node| node.is_changed());
        nodes.map(|node| (node, &self.nodes.scopes[node.scope]))
    }

    /// What is written is stored: what is known follows.
    pub fn stored(self, sources: Sources<'_>) {
        let scopes = &self.nodes.scopes;
        let new = self.nodes.nodes.values().filter(|node| node.is_new());
        sources
            .known
            .add_runs(new.map(|node| hash(&scopes[node.scope], &node.run_id)));
        sources.known.add_waiting(self.orphaned.iter().copied());
        for (key, node) in self.nodes.nodes {
            let version = match &node.base {
                Some(base) if !node.is_changed() => base.version,
                _ => node.version(&scopes[node.scope]),
            };
            let hot = HotRun {
                snapshot: node.snapshot,
                version,
                started_at_ms: node.state.started_at_ms(),
                resolved: node.resolved,
                may_have_children: node.may_have_children,
            };
            sources.hot.put(key, hot);
        }
    }

    /// Folds the micro-batch into what was loaded; returns the runs whose lineage has to be looked at.
    fn join(&mut self, deltas: KeyMap<Delta>, careful: bool) -> Result<Touched, ProcessorError> {
        let mut touched = Touched::default();
        for (key, delta) in deltas {
            self.absent.remove(&key);
            match self.nodes.nodes.get_mut(&key) {
                Some(node) => {
                    let before = Links::of(&node.state);
                    node.state.join(*delta.state);
                    node.snapshot = Snapshot::of(&node.state)?;
                    let after = Links::of(&node.state);
                    if careful || before.parent != after.parent && !before.parent.is_empty() {
                        touched.rewired.insert(key);
                    }
                    if careful || before != after {
                        touched.frontier.insert(key);
                    }
                }
                None => {
                    touched.frontier.insert(key);
                    let snapshot = Snapshot::of(&delta.state)?;
                    let resolved = Resolved {
                        root: delta.run_id.clone(),
                        agent: lineage::nothing(),
                        user_email: lineage::nothing(),
                    };
                    let Delta {
                        scope,
                        run_id,
                        state,
                    } = delta;
                    let node = Node {
                        scope,
                        run_id,
                        state,
                        snapshot,
                        resolved,
                        may_have_children: false,
                        base: None,
                    };
                    self.nodes.nodes.insert(key, node);
                }
            }
            self.link(key);
        }
        Ok(touched)
    }

    /// Files a run under the parent it names.
    fn link(&mut self, key: RunKey) {
        let Some(parent) = self
            .nodes
            .get(key)
            .and_then(|node| self.nodes.parent_of(node))
        else {
            return;
        };
        // A run is filed when it is loaded and again when it is touched; whoever reads this makes a set of it.
        self.children.entry(parent).or_default().push(key);
    }

    async fn settle_lineage(
        &mut self,
        touched: Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let Touched {
            mut frontier,
            rewired,
        } = touched;
        let mut asked = KeySet::default();
        while !frontier.is_empty() {
            let mut before = KeyMap::default();
            loop {
                for key in &frontier {
                    // A new run counts as changed the first time whatever comes out.
                    let is_first = |node: &Node| node.is_new() && !asked.contains(key);
                    if let Some(node) = self.nodes.get(*key).filter(|node| !is_first(node)) {
                        before.entry(*key).or_insert_with(|| node.resolved.clone());
                    }
                }
                self.load_parents(&frontier, sources).await?;
                match lineage::resolve(&mut self.nodes, &frontier, &rewired) {
                    Round::Settled => break,
                    Round::Widen(keys) => frontier.extend(keys),
                }
            }
            let changed: Vec<RunKey> = frontier
                .iter()
                .copied()
                .filter(|key| {
                    self.nodes.get(*key).is_some_and(|node| {
                        (node.is_new() || sources.careful) && !asked.contains(key)
                            || before
                                .get(key)
                                .is_some_and(|before| *before != node.resolved)
                    })
                })
                .collect();
            self.load_children(&changed, &mut asked, sources).await?;
            let below = changed
                .iter()
                .filter_map(|key| self.children.get(key))
                .flatten();
            frontier = below
                .filter(|child| !frontier.contains(child))
                .copied()
                .collect();
        }
        self.note_orphans();
        Ok(())
    }

    async fn load_parents(
        &mut self,
        frontier: &KeySet,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut wanted = KeyMap::default();
        for key in frontier {
            let Some(node) = self.nodes.get(*key) else {
                continue;
            };
            let Some(parent) = self.nodes.parent_of(node) else {
                continue;
            };
            if self.nodes.get(parent).is_none() && !self.absent.contains(&parent) {
                wanted
                    .entry(parent)
                    .or_insert_with(|| (node.scope, Arc::<str>::from(node.state.parent_run_id())));
            }
        }
        self.load(wanted.into_values().collect(), sources).await?;
        let parents: Vec<RunKey> = frontier
            .iter()
            .filter_map(|key| {
                self.nodes
                    .get(*key)
                    .and_then(|node| self.nodes.parent_of(node))
            })
            .collect();
        for parent in parents {
            if let Some(node) = self.nodes.get_mut(parent) {
                node.may_have_children = true;
            }
        }
        Ok(())
    }

    /// Loads the stored children of runs that changed, where there may be any.
    async fn load_children(
        &mut self,
        changed: &[RunKey],
        asked: &mut KeySet,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut parents: HashMap<usize, Vec<Arc<str>>> = HashMap::new();
        for key in changed.iter().filter(|key| asked.insert(**key)) {
            let Some(node) = self.nodes.get(*key) else {
                continue;
            };
            let may_have = if sources.careful {
                true
            } else if node.is_new() {
                sources
                    .known
                    .may_be_waited_for(hash(&self.nodes.scopes[node.scope], &node.run_id))
            } else {
                node.may_have_children
            };
            if may_have {
                parents
                    .entry(node.scope)
                    .or_default()
                    .push(node.run_id.clone());
            }
        }
        for (scope, parents) in parents {
            let ids: Vec<&str> = parents.iter().map(AsRef::as_ref).collect();
            let found = sources
                .tables
                .children_of(&self.nodes.scopes[scope], &ids)
                .await?;
            if found.len() >= CHILDREN_MAX {
                tracing::warn!(
                    run.children = found.len(),
                    "a run has more children than are followed; the others keep the root and agent they had"
                );
            }
            let wanted = found
                .into_iter()
                .map(|child| (scope, Arc::from(child.run_id)))
                .collect();
            self.load(wanted, sources).await?;
            for parent in &parents {
                let key = self.nodes.scopes[scope].key(parent);
                let has_children = self.children.contains_key(&key);
                if let Some(node) = self.nodes.get_mut(key) {
                    node.may_have_children |= has_children;
                }
            }
        }
        Ok(())
    }

    /// Brings runs into the set that are not in it, from the cache or the table; unknown ones become `absent`.
    async fn load(
        &mut self,
        wanted: Vec<(usize, Arc<str>)>,
        sources: Sources<'_>,
    ) -> Result<Loaded, ProcessorError> {
        let mut loaded = Loaded::default();
        let mut cold: HashMap<usize, Vec<Arc<str>>> = HashMap::new();
        for (scope, run_id) in wanted {
            let key = self.nodes.scopes[scope].key(&run_id);
            if self.nodes.get(key).is_some() {
                continue;
            }
            if let Some(hot) = sources.hot.get(key) {
                loaded.hot += 1;
                let base = Base {
                    version: hot.version,
                    snapshot: hot.snapshot,
                    resolved: hot.resolved,
                    keys: vec![hot.started_at_ms],
                };
                let state = Box::new(base.snapshot.decode()?);
                let snapshot = base.snapshot.clone();
                let may_have_children = hot.may_have_children;
                self.insert(
                    key,
                    Found {
                        scope,
                        run_id,
                        state,
                        snapshot,
                        base,
                        may_have_children,
                    },
                );
            } else if sources
                .known
                .may_be_stored(hash(&self.nodes.scopes[scope], &run_id))
            {
                cold.entry(scope).or_default().push(run_id);
            } else {
                self.absent.insert(key);
            }
        }
        for (scope, run_ids) in cold {
            let ids: Vec<&str> = run_ids.iter().map(AsRef::as_ref).collect();
            let rows = sources
                .tables
                .load_states(&self.nodes.scopes[scope], &ids)
                .await?;
            let mut rows_of: HashMap<String, Vec<StoredRun>> = HashMap::new();
            for row in rows {
                rows_of.entry(row.run_id.clone()).or_default().push(row);
            }
            for run_id in run_ids {
                let key = self.nodes.scopes[scope].key(&run_id);
                match rows_of.remove(run_id.as_ref()) {
                    Some(rows) => {
                        loaded.cold += 1;
                        let found = joined(scope, run_id, rows)?;
                        self.insert(key, found);
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

    fn insert(&mut self, key: RunKey, found: Found) {
        let Found {
            scope,
            run_id,
            state,
            snapshot,
            base,
            may_have_children,
        } = found;
        let resolved = base.resolved.clone();
        let node = Node {
            scope,
            run_id,
            state,
            snapshot,
            resolved,
            may_have_children,
            base: Some(base),
        };
        self.absent.remove(&key);
        self.nodes.nodes.insert(key, node);
        self.link(key);
    }

    fn note_orphans(&mut self) {
        let orphans = self.nodes.nodes.values().filter(|node| {
            node.is_changed()
                && self
                    .nodes
                    .parent_of(node)
                    .is_some_and(|parent| self.nodes.get(parent).is_none())
        });
        self.orphaned = orphans
            .map(|node| hash(&self.nodes.scopes[node.scope], node.state.parent_run_id()))
            .collect();
    }
}

/// Runs whose lineage a micro-batch may have changed.
#[derive(Debug, Default)]
struct Touched {
    frontier: KeySet,
    /// Those that named another parent before.
    rewired: KeySet,
}

/// How many runs were found where.
#[derive(Debug, Default)]
struct Loaded {
    hot: u64,
    cold: u64,
}

/// What was found of a run.
struct Found {
    scope: usize,
    run_id: Arc<str>,
    state: Box<RunState>,
    /// The same: more than the base's where an interrupted write left several rows.
    snapshot: Snapshot,
    base: Base,
    may_have_children: bool,
}

/// What of a run's state its lineage, and its descendants', depends on.
#[derive(PartialEq, Eq)]
struct Links {
    parent: String,
    agent: String,
    user_email: String,
}

impl Links {
    fn of(state: &RunState) -> Self {
        Self {
            parent: state.parent_run_id().to_owned(),
            agent: state.own_agent().to_owned(),
            user_email: state.own_user_email().to_owned(),
        }
    }
}

/// The rows of one run, usually one: joined, because each holds a part of the truth at least, and the join the whole.
fn joined(
    scope: usize,
    run_id: Arc<str>,
    mut rows: Vec<StoredRun>,
) -> Result<Found, ProcessorError> {
    rows.sort_by_key(|row| (row.version, row.is_deleted == 0));
    let mut state = Box::<RunState>::default();
    for row in &rows {
        state.join(snapshot(row).decode()?);
    }
    let newest = rows.last();
    let text = |pick: fn(&StoredRun) -> &String| {
        newest
            .map(pick)
            .map(|text| Arc::from(text.as_str()))
            .unwrap_or_default()
    };
    let base = Base {
        version: newest.map_or(0, |row| row.version),
        // What the newest row holds: if the join knows more, the run counts as changed.
        snapshot: newest.map(snapshot).unwrap_or_default(),
        resolved: Resolved {
            root: text(|row| &row.root_run_id),
            agent: text(|row| &row.agent),
            user_email: text(|row| &row.user_email),
        },
        keys: rows
            .iter()
            .filter(|row| row.is_deleted == 0)
            .map(|row| row.started_at)
            .collect(),
    };
    let snapshot = if rows.len() > 1 {
        Snapshot::of(&state)?
    } else {
        base.snapshot.clone()
    };
    Ok(Found {
        scope,
        run_id,
        state,
        snapshot,
        base,
        may_have_children: true,
    })
}

fn snapshot(row: &StoredRun) -> Snapshot {
    Snapshot {
        state: row.state.as_slice().into(),
        input_preview: row.input_preview.as_str().into(),
        output_preview: row.output_preview.as_str().into(),
    }
}

fn hash(scope: &Scope, run_id: &str) -> u64 {
    run_hash(scope.project.as_str(), scope.app.as_str(), run_id)
}
