//! Resolves the lineage of the runs that a micro-batch affects, from the top of their trees down.

use super::touched::Touched;
use super::{Sources, Working, hash};
use crate::error::ProcessorError;
use crate::run::{KeyMap, KeySet, Node, RunKey};
use crate::step::lineage::{self, Round};

impl Working {
    pub(super) async fn resolve_lineage(
        &mut self,
        touched: &mut Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut frontier = std::mem::take(&mut touched.frontier);
        let rewired = &touched.rewired;
        let mut asked = KeySet::default();
        let mut visited = KeySet::default();
        let (mut climbs, mut levels) = (0, touched.levels);
        let mut is_far_read = false;
        for below in std::mem::take(&mut touched.below) {
            let most = self.room;
            frontier.extend(self.load_part_of_children(below, most, sources).await?);
        }
        while !frontier.is_empty() {
            // What is added to the frontier below is above these runs. In a later step of a deep change, the children
            // of those ancestors are left to the records that name them: otherwise a cycle of parents would be followed
            // for ever.
            let reached = match self.is_resumed {
                true => Some(frontier.clone()),
                false => None,
            };
            let mut before = KeyMap::default();
            loop {
                for key in &frontier {
                    // A new run counts as changed the first time, whatever its result.
                    let is_first = |node: &Node| node.is_new() && !visited.contains(key);
                    if let Some(node) = self.nodes.get(*key).filter(|node| !is_first(node)) {
                        before.entry(*key).or_insert_with(|| node.resolved.clone());
                    }
                }
                if climbs >= sources.limits.levels && !is_far_read {
                    is_far_read = true;
                    let runs: Vec<RunKey> = frontier.iter().copied().collect();
                    self.load_far_above(&runs, sources).await?;
                }
                self.load_parents(&frontier, sources).await?;
                let Round::Widen(keys) = lineage::resolve(&mut self.nodes, &frontier, rewired)
                else {
                    break;
                };
                climbs += 1;
                let size = frontier.len();
                // Ancestors too far up are taken as they are: they can only matter to a cycle longer than is followed.
                let is_near = climbs <= 2 * sources.limits.levels;
                let keys = keys.into_iter();
                frontier.extend(keys.filter(|key| is_near || !self.is_any_missing_above(&[*key])));
                if frontier.len() == size {
                    break;
                }
            }
            let changed: Vec<RunKey> = frontier
                .iter()
                .copied()
                .filter(|key| {
                    self.nodes.get(*key).is_some_and(|node| {
                        let is_reached = reached.as_ref().is_none_or(|runs| runs.contains(key));
                        let is_forced =
                            sources.assume_partial_writes && is_reached && !self.ends_deep(node);
                        (node.is_new() || is_forced) && !visited.contains(key)
                            || before
                                .get(key)
                                .is_some_and(|before| *before != node.resolved)
                    })
                })
                .collect();
            visited.extend(&frontier);
            levels = levels.saturating_add(1);
            self.load_children(&changed, &mut asked, levels, sources)
                .await?;
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

    fn note_orphans(&mut self) {
        let orphans = self.nodes.nodes.values().filter(|node| {
            node.is_changed()
                && node
                    .parent()
                    .is_some_and(|parent| self.nodes.get(parent).is_none())
        });
        self.orphaned = orphans
            .map(|node| hash(&self.nodes.scopes[node.scope], node.state.parent_run_id()))
            .collect();
    }
}
