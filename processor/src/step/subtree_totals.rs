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

use crate::run::{KeyMap, KeySet, Node, Nodes, RunKey};

#[derive(Debug, Default)]
pub struct Recompute {
    /// Runs whose totals are computed from their children instead of from the stored value; of a cycle, all runs.
    pub runs: KeySet,
    /// For each of them, the sum of the stored totals of its children outside of the working set.
    pub outside: KeyMap<Totals>,
}

/// Computes the totals of all runs in the working set. Every run above one that changed has to be in it.
pub fn recompute(nodes: &mut Nodes, recompute: &Recompute) {
    let inside = Children::of(nodes);
    let order = inside.bottom_up(nodes);
    let mut computed: KeyMap<Totals> = KeyMap::default();
    for group in order {
        let cycle: KeySet = group.iter().copied().collect();
        // A cycle is computed as a whole: each of its runs has all others below it.
        let is_cycle = is_cycle(&group, nodes);
        let mut sum = Totals::default();
        for key in &group {
            let Some(node) = nodes.get(*key) else {
                continue;
            };
            let below = inside
                .of_parent(*key)
                .filter(|child| !cycle.contains(child));
            let carried = (!is_cycle && !recompute.runs.contains(key))
                .then(|| node.stored_totals())
                .flatten();
            let mut totals = node.own_totals();
            match carried {
                Some(stored) => {
                    totals.add(&stored.totals);
                    totals.subtract(&stored.own);
                    for child in below {
                        totals.add(&computed.get(&child).copied().unwrap_or_default());
                    }
                    for counted in inside.counted_by(*key) {
                        totals.subtract(
                            &nodes
                                .get(counted)
                                .and_then(Node::stored_totals)
                                .map(|stored| stored.totals)
                                .unwrap_or_default(),
                        );
                    }
                }
                None => {
                    for child in below {
                        totals.add(&computed.get(&child).copied().unwrap_or_default());
                    }
                    totals.add(&recompute.outside.get(key).copied().unwrap_or_default());
                }
            }
            sum.add(&totals);
        }
        for key in group {
            computed.insert(key, sum);
        }
    }
    for (key, totals) in computed {
        if let Some(node) = nodes.get_mut(key) {
            node.totals = totals;
        }
    }
}

/// Runs of the working set by their parents.
struct Children {
    now: KeyMap<Vec<RunKey>>,
    /// By the stored parent, where that parent's stored totals include them.
    stored: KeyMap<Vec<RunKey>>,
}

impl Children {
    fn of(nodes: &Nodes) -> Self {
        let mut children = Self {
            now: KeyMap::default(),
            stored: KeyMap::default(),
        };
        for (key, node) in nodes.iter() {
            if let Some(parent) = nodes.parent_of(node) {
                children.now.entry(parent).or_default().push(key);
            }
            if node.stored_totals().is_some()
                && let Some(parent) = node.stored_parent()
            {
                children.stored.entry(parent).or_default().push(key);
            }
        }
        children
    }

    fn of_parent(&self, key: RunKey) -> impl Iterator<Item = RunKey> {
        self.now.get(&key).into_iter().flatten().copied()
    }

    fn counted_by(&self, key: RunKey) -> impl Iterator<Item = RunKey> {
        self.stored.get(&key).into_iter().flatten().copied()
    }

    /// All runs, children before parents; the runs of a cycle as one group.
    fn bottom_up(&self, nodes: &Nodes) -> Vec<Vec<RunKey>> {
        let mut waiting: KeyMap<usize> = nodes
            .iter()
            .map(|(key, _)| (key, self.now.get(&key).map_or(0, Vec::len)))
            .collect();
        let mut ready: Vec<RunKey> = waiting
            .iter()
            .filter_map(|(key, count)| (*count == 0).then_some(*key))
            .collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(key) = ready.pop() {
            waiting.remove(&key);
            order.push(vec![key]);
            let parent = nodes.get(key).and_then(|node| nodes.parent_of(node));
            if let Some((parent, count)) =
                parent.and_then(|parent| Some((parent, waiting.get_mut(&parent)?)))
            {
                *count -= 1;
                if *count == 0 {
                    ready.push(parent);
                }
            }
        }
        // The remaining runs form cycles: every run has at most one parent, so nothing is above a cycle.
        while let Some(start) = waiting.keys().next().copied() {
            let mut cycle = Vec::new();
            let mut cursor = Some(start);
            while let Some(key) = cursor.filter(|key| waiting.remove(key).is_some()) {
                cycle.push(key);
                cursor = nodes.get(key).and_then(|node| nodes.parent_of(node));
            }
            order.push(cycle);
        }
        order
    }
}

/// A run may also name itself as its parent.
fn is_cycle(group: &[RunKey], nodes: &Nodes) -> bool {
    let first = group.first().and_then(|key| nodes.get(*key));
    group.len() > 1 || first.and_then(|node| nodes.parent_of(node)) == group.first().copied()
}

/// The runs of cycles, by the current parents and by the stored ones.
pub fn cycles(nodes: &Nodes) -> KeySet {
    let mut found = cycles_of(nodes, |node| nodes.parent_of(node));
    found.extend(cycles_of(nodes, Node::stored_parent));
    found
}

fn cycles_of(nodes: &Nodes, parent_of: impl Fn(&Node) -> Option<RunKey>) -> KeySet {
    let parent_of = |key: RunKey| nodes.get(key).and_then(&parent_of);
    let mut found = KeySet::default();
    let mut seen: KeyMap<usize> = KeyMap::default();
    for (walk, (start, _)) in nodes.iter().enumerate() {
        let mut cursor = Some(start).filter(|start| parent_of(*start).is_some());
        while let Some(key) = cursor {
            match seen.insert(key, walk) {
                None => cursor = parent_of(key),
                Some(by) => {
                    // The walk has reached its own path: one more round collects the cycle. Each cycle is found once.
                    let mut member = Some(key).filter(|_| by == walk);
                    while let Some(key) = member.filter(|key| found.insert(*key)) {
                        member = parent_of(key);
                    }
                    break;
                }
            }
        }
    }
    found
}
