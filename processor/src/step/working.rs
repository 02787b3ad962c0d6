//! The runs that a micro-batch touches, and the runs whose lineage it affects.

use schemas::price::PriceTable;
use store::reads::states::run_hash;

use super::batch::Changes;
use super::lease::StepLease;
use super::slices::Continuations;
use crate::config::Limits;
use crate::error::ProcessorError;
use crate::hot::HotRuns;
use crate::known_runs::KnownRuns;
use crate::metrics::Metrics;
use crate::run::{HotRun, KeyMap, KeySet, Node, Nodes, RunKey, RunTotals, Scope};
use crate::tables::Tables;

mod above;
mod below;
mod counting;
mod loading;
mod request;
mod resolving;
mod rest;
mod totals;
mod touched;

use request::Wanted;
use rest::Rest;

/// What a step reads, and what it reports to.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub tables: &'a dyn Tables,
    /// Recently touched runs.
    pub hot: &'a HotRuns,
    pub known: &'a KnownRuns,
    pub prices: &'a PriceTable,
    pub metrics: &'a Metrics,
    pub lease: &'a dyn StepLease,
    /// Receives the rest of a change in a large tree.
    pub continuations: &'a dyn Continuations,
    /// Bounds on the work for runs that the records do not name.
    pub limits: Limits,
    /// Whether a process that was killed may have stored these records partially. Then the table may hold the cause of
    /// a change without all of its consequences, and finding nothing changed proves nothing: every touched run is
    /// related to its ancestors again, and every run below it. The same holds where relatives of runs were dropped.
    pub assume_partial_writes: bool,
}

#[derive(Debug, Default)]
pub struct Working {
    nodes: Nodes,
    /// Runs that have marks and no event. To all other runs they are absent.
    unseen: KeyMap<Node>,
    /// Runs that were looked up and have no row, or only marks.
    absent: KeySet,
    /// New runs with children that were not loaded.
    crowded: KeySet,
    /// Work for later steps.
    rest: Vec<Rest>,
    /// Descendants that may still be loaded.
    room: usize,
    /// Look-ups of children that may still be made.
    asks: usize,
    /// Whether the step continues changes of earlier steps.
    is_resumed: bool,
    /// Loaded children by parent.
    children: KeyMap<Vec<RunKey>>,
    /// Hashes of unknown parents that runs of this set name.
    orphaned: Vec<u64>,
}

impl Working {
    /// Joins a micro-batch with the stored runs, and resolves the lineage of every run that it affects.
    pub async fn resolve(
        scopes: &[Scope],
        changes: Changes,
        sources: Sources<'_>,
    ) -> Result<Self, ProcessorError> {
        let Changes {
            deltas,
            repriced,
            resumed,
        } = changes;
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
        working.resolve_lineage(&mut touched, sources).await?;
        working.count_once(&mut touched, sources).await?;
        working.recompute_totals(&touched, sources).await?;
        Ok(working)
    }

    /// The runs to write.
    pub fn changed(&self) -> impl Iterator<Item = (&Node, &Scope)> {
        let nodes = self.nodes.nodes.values().chain(self.unseen.values());
        nodes
            .filter(|node| node.is_changed())
            .map(|node| (node, &self.nodes.scopes[node.scope]))
    }

    /// Whether the run's stored row is needed to find other runs of this step again: it is stored below a parent that
    /// is not its current one, or with links that it no longer has.
    pub fn is_cause(&self, node: &Node) -> bool {
        node.is_rewired() || node.has_lost_links()
    }

    /// The rows may be stored from here on, even if the insert fails: a process that reads these records again has to
    /// look the runs up.
    pub fn storing(&self, sources: Sources<'_>) {
        let scopes = &self.nodes.scopes;
        let all = self.nodes.nodes.values().chain(self.unseen.values());
        sources.known.add_runs(
            all.filter(|node| node.is_new())
                .map(|node| hash(&scopes[node.scope], &node.run_id)),
        );
        sources.known.add_waiting(self.orphaned.iter().copied());
        let links = self.nodes.nodes.values().filter(|node| node.is_changed());
        sources
            .known
            .add_links(links.flat_map(|node| node.counting.links.iter().copied()));
    }

    /// The rows are stored: updates the cache of hot runs.
    pub fn stored(self, sources: Sources<'_>) {
        let Nodes { nodes, scopes } = self.nodes;
        let hot = nodes.into_iter().chain(self.unseen).map(|(key, node)| {
            let version = match &node.base {
                Some(base) if !node.is_changed() => base.version,
                _ => node.version(&scopes[node.scope]),
            };
            let run_totals = RunTotals {
                own: node.own_totals(),
                totals: node.totals,
            };
            let hot = HotRun {
                snapshot: node.snapshot,
                version,
                started_at_ms: node.state.started_at_ms(),
                resolved: node.resolved,
                cost: node.cost,
                counting: node.counting,
                run_totals,
                may_have_children: node.may_have_children,
            };
            (key, hot)
        });
        match self.is_resumed {
            false => sources.hot.put_all(hot),
            // A slice of a large tree must not evict the runs that receive events.
            true => {
                let hot: Vec<_> = hot.filter(|(key, _)| sources.hot.contains(*key)).collect();
                sources.hot.put_all(hot.into_iter());
            }
        }
    }
}

fn hash(scope: &Scope, run_id: &str) -> u64 {
    run_hash(scope.project.as_str(), scope.app.as_str(), run_id)
}
