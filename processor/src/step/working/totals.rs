//! Recomputes the totals above the runs that changed.

use std::collections::HashMap;
use std::sync::Arc;

use schemas::fold::Totals;

use super::touched::Touched;
use super::{Sources, Working};
use crate::error::ProcessorError;
use crate::run::{KeySet, Node, RunKey};
use crate::step::subtree_totals::{self, Links, Recompute};

impl Working {
    /// Recomputes the totals of every run above a run whose own totals or parent changed.
    pub(super) async fn recompute_totals(
        &mut self,
        touched: &Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let is_dirty = |key: RunKey, node: &Node| match node.stored_totals() {
            None => node.own_totals() != Totals::default() || self.children.contains_key(&key),
            Some(stored) => stored.own != node.own_totals() || node.is_rewired(),
        };
        let mut above: KeySet = self
            .nodes
            .iter()
            .filter(|(key, node)| {
                sources.assume_partial_writes && touched.runs.contains(key)
                    || self.crowded.contains(key)
                    || is_dirty(*key, node)
            })
            .map(|(key, _)| key)
            .collect();
        above.extend(&touched.resummed);
        let mut level: Vec<RunKey> = above.iter().copied().collect();
        let mut asks = match self.is_resumed {
            true => sources.limits.levels,
            false => 0,
        };
        let asks_max = 2 * sources.limits.levels;
        let mut levels = touched.levels;
        while !level.is_empty() {
            if asks == sources.limits.levels && self.is_any_missing_above(&level) {
                self.load_far_above(&level, sources).await?;
                asks += 1;
            }
            if asks <= asks_max {
                asks += usize::from(self.load_above(&level, sources).await?);
            }
            let parents = level.iter().filter_map(|key| self.nodes.get(*key));
            let parents: Vec<RunKey> = parents
                .flat_map(|node| [node.parent(), node.stored_parent()])
                .flatten()
                .filter(|parent| self.nodes.get(*parent).is_some())
                .collect();
            level = parents
                .into_iter()
                .filter(|parent| above.insert(*parent))
                .collect();
            levels = levels.saturating_add(1);
        }
        let links = Links::of(&self.nodes);
        let mut recompute = Recompute {
            runs: links.cycles(),
            ..Recompute::default()
        };
        let crowded = self.crowded.iter().copied();
        recompute
            .runs
            .extend(crowded.filter(|key| above.contains(key)));
        let resummed = touched.resummed.iter().copied();
        recompute.runs.extend(resummed);
        if sources.assume_partial_writes {
            recompute.runs.extend(&above);
        }
        self.add_outside(&mut recompute, sources).await?;
        subtree_totals::recompute(&mut self.nodes, &links, &recompute);
        if asks > asks_max {
            self.put_off_above(&above, levels, sources);
        }
        Ok(())
    }

    /// Adds up the stored children outside of the working set of runs whose totals are recomputed.
    async fn add_outside(
        &mut self,
        recompute: &mut Recompute,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut parents: HashMap<usize, Vec<Arc<str>>> = HashMap::new();
        for node in recompute.runs.iter().filter_map(|key| self.nodes.get(*key)) {
            if sources.assume_partial_writes || node.may_have_children || !node.is_new() {
                let of_scope = parents.entry(node.scope).or_default();
                of_scope.push(node.run_id.clone());
            }
        }
        for (scope, parents) in parents {
            let ids: Vec<&str> = parents.iter().map(AsRef::as_ref).collect();
            let inside: Vec<&str> = self
                .nodes
                .iter()
                .map(|(_, node)| node)
                .filter(|node| node.scope == scope && !node.is_new())
                // Rows of an interrupted write may name another parent than the newest row.
                .filter(|node| {
                    let parent = node.stored_parent();
                    sources.assume_partial_writes
                        || parent.is_some_and(|parent| recompute.runs.contains(&parent))
                })
                .map(|node| node.run_id.as_ref())
                .collect();
            let scope = &self.nodes.scopes[scope];
            let tables = sources.tables;
            for sum in tables.child_sums(scope, &ids, None).await? {
                let outside = recompute
                    .outside
                    .entry(scope.key(&sum.parent_run_id))
                    .or_default();
                outside.add(&sum.totals);
            }
            if inside.is_empty() {
                continue;
            }
            for sum in tables.child_sums(scope, &ids, Some(&inside)).await? {
                let outside = recompute
                    .outside
                    .entry(scope.key(&sum.parent_run_id))
                    .or_default();
                outside.subtract(&sum.totals);
            }
        }
        Ok(())
    }
}
