//! Subtree totals: a run's own totals and the totals of all its descendants (P6).
//!
//! A stored run's totals are its own plus its children's totals, so a change is carried from child to parent as a
//! difference, and only the runs above it are touched. That is exact as long as the stored totals of a parent include
//! the stored totals of its children. Where they may not (after a takeover, in cycles of parents, below a parent that
//! appeared late with more children than are followed), [`recompute`] computes the totals from all children:
//! [`Recompute`] names these runs, and holds the sum of their children outside of the working set.
//!
//! The descendants of a run in a cycle are all runs of the cycle and all below it: each is counted once.

use schemas::fold::Totals;

use crate::run::{KeyMap, KeySet, Nodes, RunKey};

#[derive(Debug, Default)]
pub struct Recompute {
    /// Runs whose totals are computed from their children instead of from the stored value; of a cycle, all runs.
    pub runs: KeySet,
    /// For each of them, the sum of the stored totals of its children outside of the working set.
    pub outside: KeyMap<Totals>,
}

/// The runs of a working set by number, with the numbers of their parents in it: what follows looks up no keys.
#[derive(Debug)]
pub struct Links {
    keys: Vec<RunKey>,
    parents: Vec<Option<usize>>,
    stored_parents: Vec<Option<usize>>,
}

impl Links {
    pub fn of(nodes: &Nodes) -> Self {
        let keys: Vec<RunKey> = nodes.iter().map(|(key, _)| key).collect();
        let numbers: KeyMap<usize> = keys.iter().copied().zip(0..).collect();
        let number = |parent: Option<RunKey>| numbers.get(&parent?).copied();
        Self {
            parents: nodes
                .iter()
                .map(|(_, node)| number(node.parent()))
                .collect(),
            stored_parents: nodes
                .iter()
                .map(|(_, node)| number(node.stored_parent()))
                .collect(),
            keys,
        }
    }

    /// The runs of cycles, by the current parents and by the stored ones.
    pub fn cycles(&self) -> KeySet {
        let mut found = KeySet::default();
        for parents in [&self.parents, &self.stored_parents] {
            let members = cycles_of(parents).into_iter().flatten();
            found.extend(members.map(|run| self.keys[run]));
        }
        found
    }

    /// All runs outside of cycles, children before parents.
    fn bottom_up(&self) -> Vec<usize> {
        let mut waiting_for = vec![0_usize; self.keys.len()];
        for parent in self.parents.iter().flatten() {
            waiting_for[*parent] += 1;
        }
        let runs = 0..self.keys.len();
        let mut order: Vec<usize> = runs.filter(|run| waiting_for[*run] == 0).collect();
        let mut next = 0;
        while let Some(run) = order.get(next).copied() {
            next += 1;
            if let Some(parent) = self.parents[run] {
                waiting_for[parent] -= 1;
                if waiting_for[parent] == 0 {
                    order.push(parent);
                }
            }
        }
        order
    }
}

/// The cycles that these parents form, each once. A run may also name itself as its parent.
fn cycles_of(parents: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    let mut seen: Vec<Option<usize>> = vec![None; parents.len()];
    for walk in 0..parents.len() {
        let mut cursor = Some(walk).filter(|run| parents[*run].is_some());
        while let Some(run) = cursor {
            match seen[run] {
                None => {
                    seen[run] = Some(walk);
                    cursor = parents[run];
                }
                Some(by) => {
                    // The walk has reached its own path, or a path that was followed before.
                    if by == walk {
                        let after = |member: &usize| parents[*member].filter(|next| *next != run);
                        cycles.push(std::iter::successors(Some(run), after).collect());
                    }
                    break;
                }
            }
        }
    }
    cycles
}

/// Computes the totals of all runs in the working set. Every run above one that changed has to be in it.
pub fn recompute(nodes: &mut Nodes, links: &Links, recompute: &Recompute) {
    let Links {
        keys,
        parents,
        stored_parents,
    } = links;
    // Of each run: its own totals and the stored ones; the sum of its children so far, and of what its own stored
    // totals include of their stored totals.
    let values: Vec<_> = nodes
        .iter()
        .map(|(_, node)| (node.own_totals(), node.stored_totals()))
        .collect();
    let mut below = vec![Totals::default(); keys.len()];
    let mut included = vec![Totals::default(); keys.len()];
    for ((_, stored), parent) in values.iter().zip(stored_parents) {
        if let (Some(stored), Some(parent)) = (stored, parent) {
            included[*parent].add(&stored.totals);
        }
    }
    let from_children = |run: usize, below: &Totals| {
        let (mut totals, _) = values[run];
        totals.add(below);
        if let Some(outside) = recompute.outside.get(&keys[run]) {
            totals.add(outside);
        }
        totals
    };
    let mut computed = vec![Totals::default(); keys.len()];
    for run in links.bottom_up() {
        let (own, stored) = values[run];
        let totals = match stored {
            Some(stored) if !recompute.runs.contains(&keys[run]) => {
                let mut totals = own;
                totals.add(&stored.totals);
                totals.subtract(&stored.own);
                totals.add(&below[run]);
                totals.subtract(&included[run]);
                totals
            }
            _ => from_children(run, &below[run]),
        };
        computed[run] = totals;
        if let Some(parent) = parents[run] {
            below[parent].add(&totals);
        }
    }
    // A cycle is computed as a whole: each of its runs has all others below it. Nothing is above a cycle, because every
    // run has at most one parent.
    for cycle in cycles_of(parents) {
        let mut sum = Totals::default();
        for run in &cycle {
            sum.add(&from_children(*run, &below[*run]));
        }
        for run in cycle {
            computed[run] = sum;
        }
    }
    for (key, totals) in keys.iter().zip(computed) {
        if let Some(node) = nodes.get_mut(*key) {
            node.totals = totals;
        }
    }
}
