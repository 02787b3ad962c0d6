//! Loads ancestors of runs in the working set.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use store::reads::states::Child;

use super::request::Wanted;
use super::{Sources, Working};
use crate::error::ProcessorError;
use crate::run::{KeyMap, KeySet, Node, RunKey};

/// Trees of one app, and the runs in them to climb from.
#[derive(Default)]
struct Trees {
    roots: HashSet<Arc<str>>,
    parents: Vec<Arc<str>>,
}

impl Working {
    /// Loads the stored and the current parents of these runs; `false` if none had to be looked up.
    pub(super) async fn load_above(
        &mut self,
        runs: &[RunKey],
        sources: Sources<'_>,
    ) -> Result<bool, ProcessorError> {
        let mut wanted = KeyMap::default();
        for node in runs.iter().filter_map(|key| self.nodes.get(*key)) {
            for parent in [node.state.parent_run_id(), node.stored_parent_id()] {
                let key = self.nodes.sibling_of(node, parent);
                if !parent.is_empty()
                    && self.nodes.get(key).is_none()
                    && !self.absent.contains(&key)
                {
                    wanted.entry(key).or_insert_with(|| {
                        Wanted::parent(node.scope, parent, node.state.started_at_ms())
                    });
                }
            }
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        self.load(wanted.into_values().collect(), sources).await?;
        Ok(true)
    }

    /// Loads all ancestors of some runs in deep trees. The links of the trees name them, so this takes few look-ups
    /// instead of one per level.
    pub(super) async fn load_far_above(
        &mut self,
        runs: &[RunKey],
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut trees: HashMap<usize, Trees> = HashMap::new();
        let mut room = sources.limits.above;
        for node in runs.iter().filter_map(|key| self.nodes.get(*key)) {
            let Trees { roots, parents } = trees.entry(node.scope).or_default();
            roots.insert(node.resolved.root.clone());
            roots.insert(node.stored_root());
            for parent in [node.state.parent_run_id(), node.stored_parent_id()] {
                if !parent.is_empty() {
                    parents.push(parent.into());
                }
            }
        }
        for (
            scope,
            Trees {
                roots,
                parents: mut above,
            },
        ) in trees
        {
            let roots: Vec<&str> = roots.iter().map(AsRef::as_ref).collect();
            let mut parents: HashMap<Arc<str>, HashSet<Arc<str>>> = HashMap::new();
            let mut each = |link: Child| {
                let links = parents.entry(link.run_id.into()).or_default();
                links.insert(link.parent_run_id.into());
            };
            let of = &self.nodes.scopes[scope];
            sources.tables.tree_links(of, &roots, &mut each).await?;
            let mut wanted: HashSet<Arc<str>> = HashSet::new();
            while let Some(run) = above.pop() {
                if !run.is_empty() && wanted.len() < room && wanted.insert(run.clone()) {
                    above.extend(parents.get(&run).into_iter().flatten().cloned());
                }
            }
            room -= wanted.len();
            let wanted = wanted.into_iter();
            let wanted = wanted.map(|run_id| Wanted::any(scope, run_id)).collect();
            self.load(wanted, sources).await?;
        }
        Ok(())
    }

    pub(super) async fn load_parents(
        &mut self,
        frontier: &KeySet,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut wanted = KeyMap::default();
        for key in frontier {
            let Some(node) = self.nodes.get(*key) else {
                continue;
            };
            let Some(parent) = node.parent() else {
                continue;
            };
            if self.nodes.get(parent).is_none() && !self.absent.contains(&parent) {
                wanted.entry(parent).or_insert_with(|| {
                    let parent = node.state.parent_run_id();
                    Wanted::parent(node.scope, parent, node.state.started_at_ms())
                });
            }
        }
        self.load(wanted.into_values().collect(), sources).await?;
        let parents: Vec<RunKey> = frontier
            .iter()
            .filter_map(|key| self.nodes.get(*key).and_then(Node::parent))
            .collect();
        for parent in parents {
            if let Some(node) = self.nodes.get_mut(parent) {
                node.may_have_children = true;
            }
        }
        Ok(())
    }
}
