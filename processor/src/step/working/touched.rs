//! Folds a micro-batch into the loaded runs.

use schemas::fold::RunState;

use super::request::{Below, Wanted};
use super::{Sources, Working};
use crate::error::ProcessorError;
use crate::run::{KeyMap, KeySet, Node, OwnCost, RunKey, Snapshot};
use crate::step::batch::{Delta, Repriced};

/// The runs that a micro-batch touches, and the runs whose lineage it may have changed.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) runs: KeySet,
    pub(super) frontier: KeySet,
    /// Runs that named another parent before.
    pub(super) rewired: KeySet,
    /// Runs whose children have to be resolved: the runs themselves were, in an earlier step.
    pub(super) below: Vec<Below>,
    /// Runs whose stored totals may not include the stored totals of their children.
    pub(super) resummed: KeySet,
    /// Levels that the change has passed in earlier steps.
    pub(super) levels: u32,
}

impl Working {
    /// Folds the micro-batch into the loaded runs; returns the runs whose lineage has to be resolved.
    pub(super) fn join(
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
                price(node, sources);
                let after = Links::of(&node.state);
                if sources.assume_partial_writes
                    || before.parent != after.parent && !before.parent.is_empty()
                {
                    touched.rewired.insert(key);
                }
                if sources.assume_partial_writes || before != after {
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
                price(&mut node, sources);
                node.totals = node.own_totals();
                self.absent.remove(&key);
                touched.frontier.insert(key);
                self.nodes.nodes.insert(key, node);
            }
            self.link(key);
        }
        Ok(touched)
    }

    /// Reprices runs on behalf of a job. Runs that no longer exist are skipped.
    pub(super) async fn reprice(
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
                    price(node, sources);
                }
                touched.runs.insert(key);
                if sources.assume_partial_writes {
                    touched.rewired.insert(key);
                    touched.frontier.insert(key);
                }
            }
        }
        Ok(())
    }

    pub(super) fn link(&mut self, key: RunKey) {
        let Some(parent) = self
            .nodes
            .get(key)
            .and_then(|node| self.nodes.parent_of(node))
        else {
            return;
        };
        // A run is added when it is loaded and again when it is touched; readers deduplicate.
        self.children.entry(parent).or_default().push(key);
    }
}

fn price(node: &mut Node, sources: Sources<'_>) {
    node.cost = OwnCost::of(&node.state, sources.prices);
    sources.metrics.priced(node.cost.status);
}

/// The part of a run's state that its lineage and its descendants' lineage depend on.
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
