//! What a step leaves to later ones; see [`crate::slices`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use eventlog::Record;
use schemas::reprice::{Slice, Way};

use super::loading::Wanted;
use super::{Sources, Touched, Working, hash};
use crate::ProcessorError;
use crate::batch::{KeySet, Node, Resumed, RunKey};
use crate::slices::{self, LEVELS_MAX};

/// Runs of one app whose children have to be resolved: those with ids greater than `after`.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) scope: usize,
    pub(super) runs: Vec<Arc<str>>,
    pub(super) after: String,
    pub(super) levels: u32,
}

/// A slice for a later step.
#[derive(Debug)]
pub(super) struct Rest {
    scope: usize,
    runs: Vec<Arc<str>>,
    slice: Slice,
}

impl Working {
    /// Takes up what earlier steps left. Runs that are gone meanwhile are left out.
    pub(super) async fn resume(
        &mut self,
        resumed: Vec<Resumed>,
        touched: &mut Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        self.is_resumed = !resumed.is_empty();
        if self.is_resumed {
            // The tree is known to be large, so its links are read soon.
            self.asks = self.asks.min(sources.limits.levels + 1);
        }
        touched.levels = resumed
            .iter()
            .map(|one| one.slice.levels)
            .min()
            .unwrap_or(0);
        for Resumed { scope, runs, slice } in resumed {
            let wanted = runs.iter().map(|run| Wanted::any(scope, run.clone()));
            self.load(wanted.collect(), sources).await?;
            let of = &self.nodes.scopes[scope];
            let known = runs.into_iter().map(|run| (of.key(&run), run));
            let known = known.filter(|(key, _)| self.nodes.get(*key).is_some());
            match slice.way {
                Way::Up => touched.resummed.extend(known.map(|(key, _)| key)),
                Way::Down => touched.below.push(Below {
                    scope,
                    runs: known.map(|(_, run)| run).collect(),
                    after: slice.after,
                    levels: slice.levels,
                }),
            }
        }
        Ok(())
    }

    /// Whether a deep change ends at this run if it did not change: at the root of a cycle of parents. It would go around
    /// the cycle again and again, a slice at a time.
    pub(super) fn ends_deep(&self, node: &Node) -> bool {
        let parent = self.nodes.parent_of(node);
        self.is_resumed
            && node.resolved.root == node.run_id
            && parent.is_some_and(|parent| self.nodes.get(parent).is_some())
    }

    /// Leaves the children of these runs to a later step.
    pub(super) fn put_off_below(&mut self, below: Below, sources: Sources<'_>) {
        let of = &self.nodes.scopes[below.scope];
        for key in below.runs.iter().map(|run| of.key(run)) {
            let Some(node) = self.nodes.nodes.get_mut(&key) else {
                continue;
            };
            node.may_have_children = true;
            if node.is_new() {
                self.crowded.insert(key);
            }
        }
        self.rest.push(Rest {
            scope: below.scope,
            runs: below.runs,
            slice: Slice {
                way: Way::Down,
                after: below.after,
                deep: sources.careful,
                levels: below.levels,
            },
        });
    }

    /// Leaves to a later step what stands above runs that changed and was not brought in.
    pub(super) fn put_off_above(&mut self, above: &KeySet, levels: u32, sources: Sources<'_>) {
        let mut missing: HashMap<usize, HashSet<Arc<str>>> = HashMap::new();
        for node in above.iter().filter_map(|key| self.nodes.get(*key)) {
            let is_carried_on = sources.careful
                || node.is_rewired(&self.nodes)
                || node
                    .stored_figures()
                    .is_none_or(|stored| stored.totals != node.totals);
            if is_carried_on {
                let parents = self.missing_above(node).map(Arc::from);
                let known = parents.filter(|parent: &Arc<str>| {
                    let hash = hash(&self.nodes.scopes[node.scope], parent);
                    sources.known.may_be_stored(hash)
                });
                missing.entry(node.scope).or_default().extend(known);
            }
        }
        let rest = missing.into_iter().filter(|(_, runs)| !runs.is_empty());
        self.rest.extend(rest.map(|(scope, runs)| Rest {
            scope,
            runs: runs.into_iter().collect(),
            slice: Slice {
                way: Way::Up,
                after: String::new(),
                deep: sources.careful,
                levels,
            },
        }));
    }

    /// Whether a parent of these runs, stored or new, has not been looked for.
    pub(super) fn is_any_missing_above(&self, runs: &[RunKey]) -> bool {
        let nodes = runs.iter().filter_map(|key| self.nodes.get(*key));
        nodes
            .into_iter()
            .any(|node| self.missing_above(node).next().is_some())
    }

    fn missing_above<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a str> {
        let parents = [node.state.parent_run_id(), node.stored_parent_id()];
        parents.into_iter().filter(|parent| {
            let key = self.nodes.sibling_of(node, parent);
            !parent.is_empty() && self.nodes.get(key).is_none() && !self.absent.contains(&key)
        })
    }

    /// The records that later steps go on with.
    pub fn rest(&self, now_ms: i64) -> Vec<Record> {
        let mut records = Vec::new();
        for Rest { scope, runs, slice } in &self.rest {
            if slice.levels > LEVELS_MAX {
                tracing::warn!(
                    run.levels = slice.levels,
                    "a change passed more levels of runs than are followed, so their parents go around a long cycle"
                );
                continue;
            }
            let scope = &self.nodes.scopes[*scope];
            let start = |run: &Arc<str>| {
                let node = self.nodes.get(scope.key(run));
                node.map_or(0, |node| node.state.started_at_ms())
            };
            let runs: Vec<_> = runs
                .iter()
                .map(|run| (run.to_string(), start(run)))
                .collect();
            let names = (&scope.project, &scope.app);
            records.extend(slices::records(names, &runs, slice, now_ms));
        }
        records
    }
}
