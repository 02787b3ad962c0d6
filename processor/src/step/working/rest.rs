//! Work that a step leaves to later steps; see [`crate::step::slices`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use eventlog::Record;
use schemas::reprice::{Slice, Way};

use super::request::{Below, Wanted};
use super::touched::Touched;
use super::{Sources, Working, hash};
use crate::error::ProcessorError;
use crate::run::{KeySet, Node, RunKey};
use crate::step::batch::Resumed;
use crate::step::slices::{self, LEVELS_MAX};

#[derive(Debug)]
pub(super) struct Rest {
    scope: usize,
    runs: Vec<Arc<str>>,
    slice: Slice,
}

impl Working {
    /// Continues what earlier steps left. Runs that no longer exist are skipped.
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

    /// Whether a deep change ends at this run if the run did not change: at the root of a cycle of parents. Otherwise
    /// it would go around the cycle for ever, a slice at a time.
    pub(super) fn ends_deep(&self, node: &Node) -> bool {
        let parent = node.parent();
        self.is_resumed
            && node.resolved.root == node.run_id
            && parent.is_some_and(|parent| self.nodes.get(parent).is_some())
    }

    /// Defers the children of these runs to a later step.
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
                deep: sources.assume_partial_writes,
                levels: below.levels,
            },
        });
    }

    /// Defers the ancestors of changed runs that were not loaded.
    pub(super) fn put_off_above(&mut self, above: &KeySet, levels: u32, sources: Sources<'_>) {
        let mut missing: HashMap<usize, HashSet<Arc<str>>> = HashMap::new();
        for node in above.iter().filter_map(|key| self.nodes.get(*key)) {
            let is_carried_on = sources.assume_partial_writes
                || node.is_rewired()
                || node
                    .stored_totals()
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
                deep: sources.assume_partial_writes,
                levels,
            },
        }));
    }

    /// Whether a parent of these runs, stored or current, has not been looked up.
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

    /// The records that later steps continue from.
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
            records.extend(slices::records(
                &scope.project,
                &scope.app,
                &runs,
                slice,
                now_ms,
            ));
        }
        records
    }
}
