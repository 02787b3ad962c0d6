//! Loads descendants of runs in the working set, within the bounds of one step.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use store::reads::states::Child;

use super::request::{Below, Wanted};
use super::{Sources, Working, hash};
use crate::error::ProcessorError;
use crate::run::{KeySet, RunKey};

impl Working {
    /// Loads stored children of runs that changed, where there may be any, within the room left.
    pub(super) async fn load_children(
        &mut self,
        changed: &[RunKey],
        asked: &mut KeySet,
        levels: u32,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut parents: HashMap<usize, Vec<Arc<str>>> = HashMap::new();
        for key in changed.iter().filter(|key| asked.insert(**key)) {
            let Some(node) = self.nodes.get(*key) else {
                continue;
            };
            let may_have = if sources.assume_partial_writes {
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
        if parents.is_empty() {
            return Ok(());
        }
        let is_far = self.asks == sources.limits.levels;
        let may_ask = self.asks > 0;
        self.asks = self.asks.saturating_sub(1);
        for (scope, mut runs) in parents {
            let mut most = self.room;
            if is_far && most > 0 {
                let brought_in = self.load_far_below(scope, &runs, sources).await?;
                // The links may be incomplete, so the children of all of these runs are looked up at once.
                let known = brought_in.len().saturating_add(runs.len());
                most = known.saturating_add(self.room).saturating_add(1);
                let of = &self.nodes.scopes[scope];
                runs.extend(
                    brought_in
                        .into_iter()
                        .filter(|run| asked.insert(of.key(run))),
                );
            }
            let below = Below {
                scope,
                runs,
                after: String::new(),
                levels,
            };
            if may_ask && most > 0 {
                self.load_part_of_children(below, most, sources).await?;
            } else if !may_ask || self.has_children(&below, sources).await? {
                self.put_off_below(below, sources);
            }
        }
        Ok(())
    }

    /// Whether any of these runs has a stored child: thousands of leaves are not worth a slice.
    async fn has_children(
        &self,
        below: &Below,
        sources: Sources<'_>,
    ) -> Result<bool, ProcessorError> {
        let of = &self.nodes.scopes[below.scope];
        let ids: Vec<&str> = below.runs.iter().map(AsRef::as_ref).collect();
        let first = sources
            .tables
            .children_of(of, &ids, &below.after, 1)
            .await?;
        Ok(!first.is_empty())
    }

    /// Loads the first children of these runs, defers the others, and returns the loaded ones.
    pub(super) async fn load_part_of_children(
        &mut self,
        below: Below,
        most: usize,
        sources: Sources<'_>,
    ) -> Result<Vec<RunKey>, ProcessorError> {
        let of = self.nodes.scopes[below.scope].clone();
        let ids: Vec<&str> = below.runs.iter().map(AsRef::as_ref).collect();
        let most = most.max(1);
        let found = sources
            .tables
            .children_of(&of, &ids, &below.after, most)
            .await?;
        let keys: Vec<RunKey> = found.iter().map(|child| of.key(&child.run_id)).collect();
        let new = keys.iter().filter(|key| self.nodes.get(**key).is_none());
        self.room = self.room.saturating_sub(new.count());
        let last = found.last().map(|child| child.run_id.clone());
        let is_cut = found.len() >= most;
        let wanted = found
            .into_iter()
            .map(|child| Wanted::any(below.scope, child.run_id.into()))
            .collect();
        self.load(wanted, sources).await?;
        for parent in &below.runs {
            let key = of.key(parent);
            let has_children = self.children.contains_key(&key);
            if let Some(node) = self.nodes.get_mut(key) {
                node.may_have_children |= has_children;
            }
        }
        if let Some(after) = last.filter(|_| is_cut) {
            self.put_off_below(Below { after, ..below }, sources);
        }
        Ok(keys)
    }

    /// Loads the runs below these according to the links of their trees, nearest first, within the room left; returns
    /// their keys.
    async fn load_far_below(
        &mut self,
        scope: usize,
        runs: &[Arc<str>],
        sources: Sources<'_>,
    ) -> Result<Vec<Arc<str>>, ProcessorError> {
        let of = self.nodes.scopes[scope].clone();
        let nodes = runs.iter().filter_map(|run| self.nodes.get(of.key(run)));
        let roots: HashSet<Arc<str>> = nodes
            .map(|node| node.stored_root())
            .filter(|root| !root.is_empty())
            .collect();
        let roots: Vec<&str> = roots.iter().map(AsRef::as_ref).collect();
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let mut children: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let mut each = |link: Child| {
            let links = children.entry(link.parent_run_id.into()).or_default();
            links.push(link.run_id.into());
        };
        sources.tables.tree_links(&of, &roots, &mut each).await?;
        let mut seen: HashSet<Arc<str>> = runs.iter().cloned().collect();
        let mut wanted: Vec<Arc<str>> = Vec::new();
        let mut level: Vec<Arc<str>> = runs.to_vec();
        while !level.is_empty() && wanted.len() < self.room {
            let next = level
                .iter()
                .filter_map(|run| children.remove(run))
                .flatten();
            let next: Vec<Arc<str>> = next
                .filter(|run| seen.insert(run.clone()))
                .take(self.room - wanted.len())
                .collect();
            wanted.extend(next.iter().cloned());
            level = next;
        }
        self.room -= wanted.len();
        let load = wanted.iter().map(|run| Wanted::any(scope, run.clone()));
        self.load(load.collect(), sources).await?;
        Ok(wanted)
    }
}
