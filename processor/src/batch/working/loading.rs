//! Brings runs into the working set: from the cache, or from the table, many at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use store::states::{Child, StoredRun};

use super::rest::Below;
use super::{Sources, Working, hash};
use crate::ProcessorError;
use crate::batch::{KeyMap, KeySet, Node, RunKey};
use crate::totals::{Anew, Totals};

/// A run to bring in.
pub(super) struct Wanted {
    pub(super) scope: usize,
    pub(super) run_id: Arc<str>,
    /// Where its row is, if that is known.
    pub(super) started_at_ms: Option<i64>,
}

impl Wanted {
    /// A run of which only the id is known.
    pub(super) fn any(scope: usize, run_id: Arc<str>) -> Self {
        Self {
            scope,
            run_id,
            started_at_ms: None,
        }
    }
}

/// Trees of one app, and runs in them from which to go up.
#[derive(Default)]
struct Trees {
    roots: HashSet<Arc<str>>,
    parents: Vec<Arc<str>>,
}

/// How many runs were found where.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) hot: u64,
    pub(super) cold: u64,
}

impl Working {
    /// Brings in the parents of these runs, those they are stored with and those they have now; `false` when none of
    /// them had to be looked for.
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
                    wanted
                        .entry(key)
                        .or_insert_with(|| Wanted::any(node.scope, parent.into()));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        self.load(wanted.into_values().collect(), sources).await?;
        Ok(true)
    }

    /// Adds up the stored children, outside of the working set, of runs whose totals are summed up anew.
    pub(super) async fn add_outside(
        &mut self,
        anew: &mut Anew,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut parents: HashMap<usize, Vec<Arc<str>>> = HashMap::new();
        for node in anew.runs.iter().filter_map(|key| self.nodes.get(*key)) {
            if sources.careful || node.may_have_children || !node.is_new() {
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
                // Rows that an interrupted write left may hang elsewhere than the newest one says.
                .filter(|node| {
                    let parent = node.stored_parent();
                    sources.careful || parent.is_some_and(|parent| anew.runs.contains(&parent))
                })
                .map(|node| node.run_id.as_ref())
                .collect();
            let scope = &self.nodes.scopes[scope];
            let tables = sources.tables;
            for sum in tables.child_sums(scope, &ids, None).await? {
                let outside = anew
                    .outside
                    .entry(scope.key(&sum.parent_run_id))
                    .or_default();
                outside.add(&Totals::from(sum.totals));
            }
            if inside.is_empty() {
                continue;
            }
            for sum in tables.child_sums(scope, &ids, Some(&inside)).await? {
                let outside = anew
                    .outside
                    .entry(scope.key(&sum.parent_run_id))
                    .or_default();
                outside.take(&Totals::from(sum.totals));
            }
        }
        Ok(())
    }

    /// Brings in all that stands above some runs of deep trees: whom that is, is read from the links of their trees,
    /// so that it takes few look-ups instead of one for each level.
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
            let Some(parent) = self.nodes.parent_of(node) else {
                continue;
            };
            if self.nodes.get(parent).is_none() && !self.absent.contains(&parent) {
                wanted
                    .entry(parent)
                    .or_insert_with(|| Wanted::any(node.scope, node.state.parent_run_id().into()));
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

    /// Loads the stored children of runs that changed, where there may be any, as far as there is room.
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
        if parents.is_empty() {
            return Ok(());
        }
        let is_far = self.asks == sources.limits.levels;
        let may_ask = self.asks > 0;
        self.asks = self.asks.saturating_sub(1);
        for (scope, mut runs) in parents {
            let mut most = self.room;
            if is_far && most > 0 {
                let brought_in = self.load_far_below((scope, &runs), sources).await?;
                // Links are nothing to rely on: the children of all of these are asked for at once.
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
            .children_of(of, &ids, (&below.after, 1))
            .await?;
        Ok(!first.is_empty())
    }

    /// Loads the first children of these runs, puts off the others, and returns those that were found.
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
            .children_of(&of, &ids, (&below.after, most))
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

    /// Brings in what the links of their trees say is below these runs, nearest first, as far as there is room; returns
    /// whom.
    async fn load_far_below(
        &mut self,
        (scope, runs): (usize, &[Arc<str>]),
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

    /// Brings runs into the set that are not in it, from the cache or the table; unknown ones become `absent`.
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
                let node = Node::of_hot(wanted.scope, wanted.run_id, (hot, scope))?;
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
                        let node = Node::of_rows(run_id, rows, (scope, &self.nodes.scopes[scope]))?;
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

    /// The stored rows of runs. A known start finds them by their key; where that fails, or rows may be left of an
    /// interrupted write, by their ids.
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
            .partition(|(_, start)| start.is_some() && !sources.careful);
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
        self.nodes.nodes.insert(key, node);
        self.link(key);
    }
}
