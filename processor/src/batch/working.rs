//! The runs a micro-batch touches, and those whose lineage it reaches.

use schemas::fold::RunState;
use schemas::price::PriceTable;
use store::states::run_hash;

use super::{
    Delta, Figures, KeyMap, KeySet, Node, Nodes, Repriced, Resumed, RunKey, Scope, Snapshot,
};
use crate::ProcessorError;
use crate::fence::Fence;
use crate::hot::{HotRun, HotRuns};
use crate::known::Known;
use crate::lineage::{self, Round};
use crate::metrics::Metrics;
use crate::slices::{Later, Limits};
use crate::tables::Tables;
use crate::totals::{self, Anew, Totals};

mod loading;
mod rest;

use loading::Wanted;
use rest::{Below, Rest};

/// Where what is known of a run comes from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The tables.
    pub tables: &'a dyn Tables,
    /// Runs touched lately.
    pub hot: &'a HotRuns,
    /// Which runs have rows at all.
    pub known: &'a Known,
    /// The prices in force.
    pub prices: &'a PriceTable,
    /// What is counted.
    pub metrics: &'a Metrics,
    /// Until when the step may store.
    pub fence: &'a dyn Fence,
    /// Where the rest of a change in a large tree goes.
    pub later: &'a dyn Later,
    /// What one step does for runs that its records do not name.
    pub limits: Limits,
    /// Whether these records may have been stored in part before, by a process that was killed half way. Then the
    /// cause of a change may be in the table without all of its consequences, so that finding nothing changed proves
    /// nothing: every touched run is related to its ancestors again, and every run below it. The same where relatives
    /// of runs were dropped.
    pub careful: bool,
}

/// The working set of one micro-batch.
#[derive(Debug, Default)]
pub struct Working {
    nodes: Nodes,
    /// Runs that were never seen, but marked. To everybody else they are absent.
    unseen: KeyMap<Node>,
    /// Runs that were looked for and have no row, or only marks.
    absent: KeySet,
    /// New runs of which not all children were brought in.
    crowded: KeySet,
    /// What is left for later steps.
    rest: Vec<Rest>,
    /// Descendants that may still be brought in.
    room: usize,
    /// How often children may still be asked for.
    asks: usize,
    /// Whether it goes on with changes of earlier steps.
    is_resumed: bool,
    /// Children by parent, as far as they are in the set.
    children: KeyMap<Vec<RunKey>>,
    /// Hashes of unknown parents that runs of this set name.
    orphaned: Vec<u64>,
}

impl Working {
    /// Brings together what a micro-batch says and what is known, and settles the lineage of all it reaches.
    pub async fn settle(
        scopes: &[Scope],
        (deltas, repriced, resumed): (KeyMap<Delta>, Vec<Repriced>, Vec<Resumed>),
        sources: Sources<'_>,
    ) -> Result<Self, ProcessorError> {
        let mut working = Self::default();
        working.nodes.scopes = scopes.to_vec();
        let limits = sources.limits;
        working.room = limits
            .below
            .max(deltas.len().saturating_mul(limits.below_each));
        working.asks = 2 * limits.levels;
        let wanted = deltas
            .values()
            .map(|delta| Wanted::any(delta.scope, delta.run_id.clone()))
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
        let mut touched = working.join(deltas, sources)?;
        working.reprice(repriced, &mut touched, sources).await?;
        working.resume(resumed, &mut touched, sources).await?;
        working.settle_lineage(&mut touched, sources).await?;
        working.settle_totals(&touched, sources).await?;
        Ok(working)
    }

    /// The runs to write, each with its scope.
    pub fn changed(&self) -> impl Iterator<Item = (&Node, &Scope)> {
        let nodes = self.nodes.nodes.values().chain(self.unseen.values());
        nodes
            .filter(|node| node.is_changed())
            .map(|node| (node, &self.nodes.scopes[node.scope]))
    }

    /// Whether the run is stored below another parent than it has now.
    pub fn is_rewired(&self, node: &Node) -> bool {
        node.is_rewired(&self.nodes)
    }

    /// What is written may be stored from now on, whatever the answer is: whoever reads these records again has to look.
    pub fn storing(&self, sources: Sources<'_>) {
        let scopes = &self.nodes.scopes;
        let all = self.nodes.nodes.values().chain(self.unseen.values());
        sources.known.add_runs(
            all.filter(|node| node.is_new())
                .map(|node| hash(&scopes[node.scope], &node.run_id)),
        );
        sources.known.add_waiting(self.orphaned.iter().copied());
    }

    /// What is written is stored: what is hot follows.
    pub fn stored(self, sources: Sources<'_>) {
        let scopes = &self.nodes.scopes;
        for (key, node) in self.nodes.nodes.into_iter().chain(self.unseen) {
            let version = match &node.base {
                Some(base) if !node.is_changed() => base.version,
                _ => node.version(&scopes[node.scope]),
            };
            let figures = Figures {
                own: node.own_figures(),
                totals: node.totals,
            };
            let hot = HotRun {
                snapshot: node.snapshot,
                version,
                started_at_ms: node.state.started_at_ms(),
                resolved: node.resolved,
                cost: node.cost,
                figures,
                may_have_children: node.may_have_children,
            };
            // A slice of a large tree must not push out the runs that go on.
            if !self.is_resumed || sources.hot.contains(key) {
                sources.hot.put(key, hot);
            }
        }
    }

    /// Folds the micro-batch into what was loaded; returns the runs whose lineage has to be looked at.
    fn join(
        &mut self,
        deltas: KeyMap<Delta>,
        sources: Sources<'_>,
    ) -> Result<Touched, ProcessorError> {
        let mut touched = Touched::default();
        for (key, delta) in deltas {
            touched.runs.insert(key);
            if let Some(node) = self.nodes.nodes.get_mut(&key) {
                let before = Links::of(&node.state);
                node.state.join(*delta.state);
                node.snapshot = Snapshot::of(&node.state)?;
                node.price(sources);
                let after = Links::of(&node.state);
                if sources.careful || before.parent != after.parent && !before.parent.is_empty() {
                    touched.rewired.insert(key);
                }
                if sources.careful || before != after {
                    touched.frontier.insert(key);
                }
            } else {
                let mut node = match self.unseen.remove(&key) {
                    Some(node) => node,
                    None => Node::unknown(delta.scope, delta.run_id),
                };
                node.state.join(*delta.state);
                node.snapshot = Snapshot::of(&node.state)?;
                if node.state.is_unseen() {
                    self.absent.insert(key);
                    self.unseen.insert(key, node);
                    continue;
                }
                node.price(sources);
                node.totals = node.own_figures();
                self.absent.remove(&key);
                touched.frontier.insert(key);
                self.nodes.nodes.insert(key, node);
            }
            self.link(key);
        }
        Ok(touched)
    }

    /// Prices runs again that somebody asked for. Those that are gone meanwhile are left out.
    async fn reprice(
        &mut self,
        mut repriced: Vec<Repriced>,
        touched: &mut Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        repriced.sort_by_key(|run| run.started_at_ms);
        let wanted = repriced.iter().map(|run| Wanted {
            scope: run.scope,
            run_id: run.run_id.clone(),
            started_at_ms: Some(run.started_at_ms),
        });
        self.load(wanted.collect(), sources).await?;
        for run in repriced {
            let key = self.nodes.scopes[run.scope].key(&run.run_id);
            if let Some(node) = self.nodes.nodes.get_mut(&key) {
                if run.is_priced {
                    node.price(sources);
                }
                touched.runs.insert(key);
                if sources.careful {
                    touched.rewired.insert(key);
                    touched.frontier.insert(key);
                }
            }
        }
        Ok(())
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

    /// Settles the totals of every run above one whose figures or place changed.
    async fn settle_totals(
        &mut self,
        touched: &Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let is_dirty = |key: RunKey, node: &Node| match node.stored_figures() {
            None => node.own_figures() != Totals::default() || self.children.contains_key(&key),
            Some(stored) => stored.own != node.own_figures() || node.is_rewired(&self.nodes),
        };
        let mut above: KeySet = self
            .nodes
            .iter()
            .filter(|(key, node)| {
                sources.careful && touched.runs.contains(key)
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
                .flat_map(|node| [self.nodes.parent_of(node), node.stored_parent()])
                .flatten()
                .filter(|parent| self.nodes.get(*parent).is_some())
                .collect();
            level = parents
                .into_iter()
                .filter(|parent| above.insert(*parent))
                .collect();
            levels = levels.saturating_add(1);
        }
        let mut anew = Anew {
            runs: totals::circles(&self.nodes),
            ..Anew::default()
        };
        let crowded = self.crowded.iter().copied();
        anew.runs.extend(crowded.filter(|key| above.contains(key)));
        let resummed = touched.resummed.iter().copied();
        anew.runs.extend(resummed);
        if sources.careful {
            anew.runs.extend(&above);
        }
        self.add_outside(&mut anew, sources).await?;
        totals::settle(&mut self.nodes, &anew);
        if asks > asks_max {
            self.put_off_above(&above, levels, sources);
        }
        Ok(())
    }

    async fn settle_lineage(
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
            let mut before = KeyMap::default();
            loop {
                for key in &frontier {
                    // A new run counts as changed the first time whatever comes out.
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
                // What is too far up is taken as it is: it may only matter to a cycle that is longer than is followed.
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
                        let is_forced = sources.careful && !self.ends_deep(node);
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

/// The runs a micro-batch touches, and those whose lineage it may have changed.
#[derive(Debug, Default)]
struct Touched {
    /// All that it says something about.
    runs: KeySet,
    frontier: KeySet,
    /// Those that named another parent before.
    rewired: KeySet,
    /// Runs whose children have to be resolved: they were themselves, in an earlier step.
    below: Vec<Below>,
    /// Runs whose totals may not count what is stored of their children.
    resummed: KeySet,
    /// Levels that the change passed in earlier steps.
    levels: u32,
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

fn hash(scope: &Scope, run_id: &str) -> u64 {
    run_hash(scope.project.as_str(), scope.app.as_str(), run_id)
}
