//! Folds a micro-batch into the loaded runs.

use super::request::{Below, Start, Wanted};
use super::{Sources, Working};
use crate::error::ProcessorError;
use crate::run::{KeyMap, KeySet, Node, Nodes, OwnCost, RunKey};
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
        touched.runs.reserve(deltas.len());
        touched.frontier.reserve(deltas.len());
        let Nodes { nodes, scopes } = &mut self.nodes;
        nodes.reserve(deltas.len());
        for (key, delta) in deltas {
            touched.runs.insert(key);
            let scope = &scopes[delta.scope];
            if let Some(node) = nodes.get_mut(&key) {
                let before = Links::of(node);
                node.join(delta.state, scope)?;
                price(node, sources);
                let is_moved = before.parent != node.parent();
                if sources.assume_partial_writes || is_moved && before.parent.is_some() {
                    touched.rewired.insert(key);
                }
                if sources.assume_partial_writes || before != Links::of(node) {
                    touched.frontier.insert(key);
                }
            } else {
                let mut node = match self.unseen.remove(&key) {
                    Some(node) => node,
                    None => Node::unknown(delta.scope, delta.run_id),
                };
                node.join(delta.state, scope)?;
                if node.state.is_unseen() {
                    self.absent.insert(key);
                    self.unseen.insert(key, node);
                    continue;
                }
                price(&mut node, sources);
                node.totals = node.own_totals();
                self.absent.remove(&key);
                touched.frontier.insert(key);
                nodes.insert(key, node);
            }
            // A run is added when it is loaded and again when it is touched; readers deduplicate.
            if let Some(parent) = nodes.get(&key).and_then(Node::parent) {
                self.children.entry(parent).or_default().push(key);
            }
        }
        Ok(touched)
    }

    /// Reprices runs on behalf of a job. Runs that no longer exist are skipped.
    pub(super) async fn reprice(
        &mut self,
        repriced: Vec<Repriced>,
        touched: &mut Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let wanted = repriced.iter().map(|run| Wanted {
            scope: run.scope,
            run_id: run.run_id.clone(),
            start: Start::At(run.started_at_ms),
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
}

pub(super) fn price(node: &mut Node, sources: Sources<'_>) {
    let cost = match node.counting.is_elsewhere() {
        true => OwnCost::counted_elsewhere(),
        false => OwnCost::of(&node.state, sources.prices),
    };
    node.set_cost(cost);
    sources.metrics.priced(node.cost.status);
}

/// The part of a run's state that its lineage and its descendants' lineage depend on.
#[derive(PartialEq, Eq)]
struct Links {
    parent: Option<RunKey>,
    agent: Box<str>,
    user_email: Box<str>,
    thread: Box<str>,
    is_llm: bool,
}

impl Links {
    fn of(node: &Node) -> Self {
        Self {
            parent: node.parent(),
            agent: node.state.own_agent().into(),
            user_email: node.state.own_user_email().into(),
            thread: node.state.thread_id().into(),
            is_llm: node.state.is_llm(),
        }
    }
}
