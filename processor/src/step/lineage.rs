//! Roots, and values inherited from ancestors.
//!
//! A run's root is its topmost known ancestor: a run whose parent was never seen is a root. Its agent, its user and its
//! thread are its own, else the nearest ancestor's. A run begins a turn of its thread if its parent is not in it, or if it
//! is the root. Runs whose parents form a cycle (real clients send such) all have the smallest
//! of their ids as root. All of this is a function of the known runs, not of their order of arrival: [`resolve`] does
//! one round, and the caller loads further runs into the working set until nothing changes any more.

use std::sync::Arc;

use crate::run::{KeyMap, KeySet, Node, Nodes, Resolved, RunKey, Turn, nothing};

#[derive(Debug, PartialEq, Eq)]
pub enum Round {
    /// Every run of the frontier is resolved.
    Resolved,
    /// These ancestors may be part of a cycle, or below a run that changed: they have to join the frontier.
    Widen(Vec<RunKey>),
}

/// Resolves the runs of the frontier from the top down. The parents of all of them are in `nodes`, or unknown.
///
/// A run outside of the frontier is taken as it is, unless the frontier reaches above it: its root is being resolved
/// here, or a run here moved from one parent to another (`rewired`).
pub fn resolve(nodes: &mut Nodes, frontier: &KeySet, rewired: &KeySet) -> Round {
    let mut done = KeySet::with_capacity_and_hasher(frontier.len(), Default::default());
    let mut widen = KeySet::default();
    // Moved runs first: the runs above them have to be visited with them below.
    let moved = rewired.iter().filter(|key| frontier.contains(*key));
    for start in moved.chain(frontier) {
        if done.contains(start) {
            continue;
        }
        let mut climb = Climb {
            widen: std::mem::take(&mut widen),
            ..Climb::default()
        };
        let above = climb.climb_from(
            *start,
            nodes,
            &Reached {
                frontier,
                rewired,
                done: &done,
            },
        );
        widen = climb.widen;
        done.extend(climb.cycle);
        let mut above = above;
        for key in climb.chain.into_iter().rev() {
            if let Some(node) = nodes.get_mut(key) {
                node.resolved = inherit(node, above.as_ref());
                above = Some(node.handed_down());
            }
            done.insert(key);
        }
    }
    if widen.is_empty() {
        Round::Resolved
    } else {
        Round::Widen(widen.into_iter().collect())
    }
}

/// What a climb has to know of the other runs.
struct Reached<'a> {
    frontier: &'a KeySet,
    rewired: &'a KeySet,
    done: &'a KeySet,
}

/// The path from a run up to where its ancestors are known.
#[derive(Default)]
struct Climb {
    /// Runs to resolve, child before parent.
    chain: Vec<RunKey>,
    /// Runs that form a cycle, already resolved.
    cycle: Vec<RunKey>,
    widen: KeySet,
}

impl Climb {
    /// Returns what the last run of the chain inherits.
    fn climb_from(
        &mut self,
        start: RunKey,
        nodes: &mut Nodes,
        reached: &Reached<'_>,
    ) -> Option<Resolved> {
        let mut place = KeyMap::default();
        let mut cursor = start;
        loop {
            let node = nodes.get(cursor)?;
            if reached.done.contains(&cursor) {
                return Some(node.handed_down());
            }
            if !reached.frontier.contains(&cursor) {
                let resolved = node.handed_down();
                self.widen_from(cursor, nodes, reached);
                return Some(resolved);
            }
            if let Some(at) = place.get(&cursor) {
                self.cycle = self.chain.split_off(*at);
                resolve_cycle(nodes, &self.cycle);
                return nodes.get(cursor).map(Node::handed_down);
            }
            place.insert(cursor, self.chain.len());
            self.chain.push(cursor);
            cursor = node.parent()?;
        }
    }

    /// Adds a run and all its ancestors in the set to the frontier: one at a time would take a round for each.
    fn widen_from(&mut self, start: RunKey, nodes: &Nodes, reached: &Reached<'_>) {
        let mut cursor = Some(start).filter(|key| !reached.frontier.contains(key));
        while let Some((key, node)) = cursor.and_then(|key| Some((key, nodes.get(key)?))) {
            if !self.reaches_above(node, nodes, reached) || !self.widen.insert(key) {
                break;
            }
            let parent = node.parent();
            cursor = parent.filter(|key| !reached.frontier.contains(key));
        }
    }

    fn reaches_above(&self, node: &Node, nodes: &Nodes, reached: &Reached<'_>) -> bool {
        let root = nodes.sibling_of(node, &node.resolved.root);
        !node.state.parent_run_id().is_empty()
            && (reached.frontier.contains(&root)
                || self.chain.iter().any(|key| reached.rewired.contains(key)))
    }
}

fn inherit(node: &Node, above: Option<&Resolved>) -> Resolved {
    let own_or = |own: &str, inherited: Option<&Arc<str>>| match inherited {
        Some(inherited) if own.is_empty() => inherited.clone(),
        None if own.is_empty() => nothing(),
        _ => own.into(),
    };
    let root = above.map_or_else(|| node.run_id.clone(), |above| above.root.clone());
    let thread = own_or(node.state.thread_id(), above.map(|above| &above.thread));
    // In a cycle of one thread the root begins the turn.
    let is_first = root == node.run_id || above.is_none_or(|above| above.thread != thread);
    let turn = match !thread.is_empty() && is_first {
        true => Turn::Begins,
        false => Turn::No,
    };
    Resolved {
        root,
        agent: own_or(node.state.own_agent(), above.map(|above| &above.agent)),
        user_email: own_or(
            node.state.own_user_email(),
            above.map(|above| &above.user_email),
        ),
        thread,
        turn,
        enclosing_call: above.map_or_else(nothing, |above| above.enclosing_call.clone()),
        is_call: node.state.is_llm(),
    }
}

/// Resolves the runs of a cycle; `members` lists them child before parent.
fn resolve_cycle(nodes: &mut Nodes, members: &[RunKey]) {
    let ids = members
        .iter()
        .filter_map(|key| nodes.get(*key).map(|node| node.run_id.clone()));
    let Some(root) = ids.min() else { return };
    let mut above = Resolved {
        root,
        agent: nothing(),
        user_email: nothing(),
        thread: nothing(),
        turn: Turn::No,
        // In a cycle no call encloses another: each would enclose itself.
        enclosing_call: nothing(),
        is_call: false,
    };
    // Two rounds: after the first one the carried values are right, no matter where it began.
    for key in members.iter().rev().chain(members.iter().rev()) {
        if let Some(node) = nodes.get_mut(*key) {
            node.resolved = inherit(node, Some(&above));
            above = node.resolved.clone();
        }
    }
}
