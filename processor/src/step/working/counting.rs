//! Finds the runs that may report one model call, and decides which of them counts.
//!
//! Such runs have links in common: the identifier of the response, or that one encloses the other. Links are hashes in
//! the runs' rows. A Bloom filter over the links of all stored runs says for nearly every call that there is no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use schemas::event::response_id;
use store::reads::states::CallLink;

use super::request::Wanted;
use super::touched::{Touched, price};
use super::{Sources, Working};
use crate::error::ProcessorError;
use crate::run::{Counting, KeyMap, KeySet, Node, Nodes, RunKey};
use crate::step::counting::{Seen, counted};

/// Runs with one link. What more runs than that have in common is no call: a server for tests gives one identifier to
/// all responses, and an agent that is reported as a model call encloses all calls that it makes.
const RUNS_OF_A_LINK: usize = 64;
/// Runs in one step that are looked at because they may report the calls of the step's own runs (X1).
const RELATED_MAX: usize = 20_000;

/// The runs in hand that may report one call, and how they were found.
#[derive(Default)]
struct Related {
    /// Runs with links, by link.
    by_link: HashMap<u64, Vec<RunKey>>,
    /// Links with more than [`RUNS_OF_A_LINK`] runs.
    crowded: HashSet<u64>,
    /// Links whose runs are in the working set.
    asked: HashSet<u64>,
    /// Runs that were found by a link, or that have some in common with others.
    members: KeySet,
}

impl Working {
    /// Decides which runs count the model calls that this step may have changed.
    pub(super) async fn count_once(
        &mut self,
        touched: &mut Touched,
        sources: Sources<'_>,
    ) -> Result<(), ProcessorError> {
        let mut related = Related::default();
        let mut frontier: Vec<RunKey> = Vec::new();
        let Nodes { nodes, scopes } = &mut self.nodes;
        for (key, node) in nodes.iter_mut() {
            let was_linked = !node.counting.links.is_empty() || node.counting.is_elsewhere();
            if !(node.resolved.is_call || was_linked)
                || !(sources.assume_partial_writes || node.is_call_changed())
            {
                continue;
            }
            let links = links(node, scopes);
            if *node.counting.links != *links {
                node.counting.links = links.into();
            }
            frontier.push(*key);
        }
        for key in &frontier {
            if let Some(node) = self.nodes.get(*key) {
                related.add(*key, node);
            }
        }
        while !frontier.is_empty() && related.members.len() < RELATED_MAX {
            frontier = self.load_related(&frontier, &mut related, sources).await?;
        }
        self.decide(&related, sources);
        if sources.assume_partial_writes {
            touched.runs.extend(related.members);
        }
        Ok(())
    }

    /// Loads the runs that have links in common with these; returns those that were not known to be related before.
    async fn load_related(
        &mut self,
        frontier: &[RunKey],
        related: &mut Related,
        sources: Sources<'_>,
    ) -> Result<Vec<RunKey>, ProcessorError> {
        let mut new: Vec<RunKey> = Vec::new();
        let mut wanted: KeyMap<Wanted> = KeyMap::default();
        let mut links: HashMap<usize, Vec<u64>> = HashMap::new();
        for key in frontier {
            let Some(node) = self.nodes.get(*key) else {
                continue;
            };
            let scope = &self.nodes.scopes[node.scope];
            if node.counting.is_elsewhere() || !node.resolved.enclosing_call.is_empty() {
                new.push(*key);
            }
            let started_at_ms = node.state.started_at_ms();
            for run_id in [&node.resolved.enclosing_call, &node.counting.counted_run_id] {
                if !run_id.is_empty() {
                    let wanted = wanted.entry(scope.key(run_id));
                    wanted.or_insert_with(|| Wanted::parent(node.scope, run_id, started_at_ms));
                }
            }
            let (project, app) = (scope.project.as_str(), scope.app.as_str());
            let encloses = CallLink::Enclosed(&node.run_id).hash(project, app);
            let own = node.counting.links.iter().chain(node.stored_links());
            for link in own.copied().chain([encloses]) {
                let in_hand = related.by_link.get(&link).map_or(&[][..], Vec::as_slice);
                if in_hand.iter().any(|other| other != key) {
                    new.extend(in_hand);
                    new.push(*key);
                }
                if related.asked.insert(link) && sources.known.may_be_linked(link) {
                    links.entry(node.scope).or_default().push(link);
                }
            }
        }
        for (scope, links) in links {
            let of = &self.nodes.scopes[scope];
            let most = RUNS_OF_A_LINK + 1;
            let found = sources.tables.linked_runs(of, &links, most).await?;
            let mut counts: HashMap<u64, usize> = HashMap::new();
            for run in found {
                let count = counts.entry(run.link).or_default();
                *count += 1;
                if *count == most {
                    related.crowded.insert(run.link);
                }
                let run_id: Arc<str> = run.run_id.into();
                wanted
                    .entry(of.key(&run_id))
                    .or_insert_with(|| Wanted::any(scope, run_id));
            }
        }
        let found: Vec<RunKey> = wanted.keys().copied().collect();
        let missing = wanted.into_iter();
        let missing = missing.filter(|(key, _)| self.nodes.get(*key).is_none());
        let missing: Vec<Wanted> = missing.map(|(_, wanted)| wanted).collect();
        self.load(missing, sources).await?;
        for key in &found {
            if let Some(node) = self.nodes.get(*key) {
                related.add(*key, node);
            }
        }
        // A run may be found by a link that only itself has.
        new.extend(found);
        new.retain(|key| self.nodes.get(*key).is_some() && related.members.insert(*key));
        Ok(new)
    }

    /// Decides among all related runs, and prices those whose answer changed.
    fn decide(&mut self, related: &Related, sources: Sources<'_>) {
        let mut by_scope: HashMap<usize, Vec<RunKey>> = HashMap::new();
        for key in &related.members {
            if let Some(node) = self.nodes.get(*key) {
                by_scope.entry(node.scope).or_default().push(*key);
            }
        }
        for members in by_scope.into_values() {
            let answers = self.answers(&members, related);
            for (key, counted_run_id) in answers {
                let Some(node) = self.nodes.get_mut(key) else {
                    continue;
                };
                if node.counting.counted_run_id != counted_run_id {
                    node.counting.counted_run_id = counted_run_id;
                    price(node, sources);
                }
            }
        }
    }

    /// For each of these runs of one app, the run that counts its call; empty where it does so itself.
    fn answers(&self, members: &[RunKey], related: &Related) -> Vec<(RunKey, Arc<str>)> {
        let nodes: Vec<(RunKey, &Node)> = members
            .iter()
            .filter_map(|key| Some((*key, self.nodes.get(*key)?)))
            .collect();
        let calls = nodes
            .iter()
            .filter_map(|(key, node)| Some((*key, *node, node.state.one_call()?)));
        let calls: Vec<_> = calls.collect();
        let numbers: KeyMap<usize> = calls.iter().map(|(key, ..)| *key).zip(0..).collect();
        let is_crowded = |node: &Node, link: CallLink<'_>| {
            let scope = &self.nodes.scopes[node.scope];
            let link = link.hash(scope.project.as_str(), scope.app.as_str());
            let in_hand = related.by_link.get(&link).map_or(0, Vec::len);
            related.crowded.contains(&link) || in_hand > RUNS_OF_A_LINK
        };
        let seen: Vec<Seen<'_>> = calls
            .iter()
            .map(|(_, node, call)| Seen {
                run_id: &node.run_id,
                response_id: match is_crowded(node, response_link(call.response_id)) {
                    true => "",
                    false => call.response_id,
                },
                model: call.model,
                tokens: call.tokens,
                has_usage: call.has_usage,
                started_at_ms: call.started_at_ms,
                ended_at_ms: call.ended_at_ms,
                fingerprint: call
                    .fingerprint
                    .filter(|of| !is_crowded(node, CallLink::Fingerprint(of.said))),
                above: self.call_above(node, &numbers),
                compares: !is_crowded(node, CallLink::Enclosed(&node.run_id)),
                is_root: *node.resolved.root == *node.run_id,
            })
            .collect();
        let counted = counted(&seen);
        let alone = Counting::alone().counted_run_id;
        let mut answers: Vec<(RunKey, Arc<str>)> = nodes
            .iter()
            .filter(|(key, _)| !numbers.contains_key(key))
            .map(|(key, _)| (*key, alone.clone()))
            .collect();
        answers.extend(
            calls
                .iter()
                .zip(counted)
                .enumerate()
                .map(|(at, ((key, ..), counts))| match counts == at {
                    true => (*key, alone.clone()),
                    false => (*key, calls[counts].1.run_id.clone()),
                }),
        );
        answers
    }

    /// The nearest run above that is one of the numbered ones. Runs of type `llm` with several calls are passed.
    fn call_above(&self, node: &Node, numbers: &KeyMap<usize>) -> Option<usize> {
        let mut passed = KeySet::default();
        let mut node = node;
        loop {
            let enclosing = &node.resolved.enclosing_call;
            let key = self.nodes.sibling_of(node, enclosing);
            if enclosing.is_empty() || !passed.insert(key) {
                return None;
            }
            if let Some(number) = numbers.get(&key) {
                return Some(*number);
            }
            node = self.nodes.get(key)?;
        }
    }
}

impl Related {
    /// Notes the links of a run in hand.
    fn add(&mut self, key: RunKey, node: &Node) {
        for link in node.counting.links.iter() {
            let runs = self.by_link.entry(*link).or_default();
            if !runs.contains(&key) {
                runs.push(key);
            }
        }
    }
}

/// The links of a run by its current state and its current place.
fn response_link(response_id: &str) -> CallLink<'_> {
    CallLink::Response(response_id::shared(response_id))
}

fn links(node: &Node, scopes: &[crate::run::Scope]) -> Vec<u64> {
    let scope = &scopes[node.scope];
    let (project, app) = (scope.project.as_str(), scope.app.as_str());
    let mut links = Vec::new();
    if !node.resolved.is_call {
        return links;
    }
    if let Some(call) = node.state.one_call() {
        if !call.response_id.is_empty() {
            links.push(response_link(call.response_id).hash(project, app));
        }
        let fingerprint = call.fingerprint.map(|of| CallLink::Fingerprint(of.said));
        links.extend(fingerprint.map(|link| link.hash(project, app)));
    }
    if !node.resolved.enclosing_call.is_empty() {
        links.push(CallLink::Enclosed(&node.resolved.enclosing_call).hash(project, app));
    }
    links
}
