//! Totals over the tree: a run's own figures and those of all its descendants (P6).
//!
//! A stored run's totals are its own plus its children's totals, so a change is carried from child to parent as a
//! difference, and only the runs above it are touched. That is exact as long as what is stored of a parent counts
//! what is stored of its children. Where it may not (after a takeover, in circles of parents, below a parent that
//! appeared late with more children than are followed), the totals are summed up anew from all children: [`settle`]
//! is told which runs those are, and what their children outside of the working set add up to.
//!
//! The descendants of a run in a circle are all runs of the circle and all below it: each is counted once.

use schemas::fold::{CostStatus, RunState, Status};

use crate::batch::{KeyMap, KeySet, Node, Nodes, RunKey};

/// Figures that add up over a tree. They wrap instead of saturating, so that what is added can be taken away again;
/// single amounts are bounded far below where a sum could reach the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// USD times 10^18.
    pub cost: i128,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Tokens in all.
    pub tokens: u64,
    /// Runs of type `llm`.
    pub llm_calls: u64,
    /// Runs that failed.
    pub errors: u64,
}

macro_rules! each_field {
    ($operation:ident) => {
        fn $operation(&mut self, other: &Totals) {
            self.cost = self.cost.$operation(other.cost);
            self.prompt_tokens = self.prompt_tokens.$operation(other.prompt_tokens);
            self.completion_tokens = self.completion_tokens.$operation(other.completion_tokens);
            self.tokens = self.tokens.$operation(other.tokens);
            self.llm_calls = self.llm_calls.$operation(other.llm_calls);
            self.errors = self.errors.$operation(other.errors);
        }
    };
}

/// The arithmetic of [`Totals`], under the names of the integers' own methods.
trait Wrapping {
    fn wrapping_add(&mut self, other: &Totals);
    fn wrapping_sub(&mut self, other: &Totals);
}

impl Wrapping for Totals {
    each_field!(wrapping_add);
    each_field!(wrapping_sub);
}

impl Totals {
    /// A run's own figures.
    pub fn own(state: &RunState, cost: OwnCost) -> Self {
        Self {
            cost: cost.amount,
            prompt_tokens: state.prompt_tokens().unwrap_or(0),
            completion_tokens: state.completion_tokens().unwrap_or(0),
            tokens: state.total_tokens().unwrap_or(0),
            llm_calls: u64::from(state.kind() == "llm"),
            errors: u64::from(state.status() == Status::Error),
        }
    }

    /// Adds.
    pub fn add(&mut self, other: &Totals) {
        self.wrapping_add(other);
    }

    /// Takes away.
    pub fn take(&mut self, other: &Totals) {
        self.wrapping_sub(other);
    }
}

/// What a run itself costs, as its row says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnCost {
    /// USD times 10^18.
    pub amount: i128,
    /// Why it is that.
    pub status: CostStatus,
    /// Whether the split of the tokens had to be guessed.
    pub is_estimated: bool,
}

impl Default for OwnCost {
    fn default() -> Self {
        Self {
            amount: 0,
            status: CostStatus::NotLlm,
            is_estimated: false,
        }
    }
}

/// What must be summed up anew, and what lies outside of the working set.
#[derive(Debug, Default)]
pub struct Anew {
    /// Runs whose totals are not carried on from what is stored. With a run of a circle, all of the circle.
    pub runs: KeySet,
    /// For each of them the sum of the stored totals of those of its children that are not in the working set.
    pub outside: KeyMap<Totals>,
}

/// Settles the totals of all runs in the working set. Every run above one that changed has to be in it.
pub fn settle(nodes: &mut Nodes, anew: &Anew) {
    let inside = Children::of(nodes);
    let order = inside.bottom_up(nodes);
    let mut settled: KeyMap<Totals> = KeyMap::default();
    for group in order {
        let circle: KeySet = group.iter().copied().collect();
        // A circle is settled as one: whoever is in it has all of the others below.
        let is_circle = is_circle(&group, nodes);
        let mut sum = Totals::default();
        for key in &group {
            let Some(node) = nodes.get(*key) else {
                continue;
            };
            let below = inside
                .of_parent(*key)
                .filter(|child| !circle.contains(child));
            let carried = (!is_circle && !anew.runs.contains(key))
                .then(|| node.stored_figures())
                .flatten();
            let mut totals = node.own_figures();
            match carried {
                Some(stored) => {
                    totals.add(&stored.totals);
                    totals.take(&stored.own);
                    for child in below {
                        totals.add(&settled.get(&child).copied().unwrap_or_default());
                    }
                    for counted in inside.counted_by(*key) {
                        totals.take(
                            &nodes
                                .get(counted)
                                .and_then(Node::stored_figures)
                                .map(|stored| stored.totals)
                                .unwrap_or_default(),
                        );
                    }
                }
                None => {
                    for child in below {
                        totals.add(&settled.get(&child).copied().unwrap_or_default());
                    }
                    totals.add(&anew.outside.get(key).copied().unwrap_or_default());
                }
            }
            sum.add(&totals);
        }
        for key in group {
            settled.insert(key, sum);
        }
    }
    for (key, totals) in settled {
        if let Some(node) = nodes.get_mut(key) {
            node.totals = totals;
        }
    }
}

/// Runs of the working set by their parents.
struct Children {
    now: KeyMap<Vec<RunKey>>,
    /// By the stored parent, where that parent's stored totals count them.
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
            if node.stored_figures().is_some()
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

    /// All runs, children before parents; the runs of a circle together.
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
        // What is left goes round: every run has one parent at most, so circles have nothing above them.
        while let Some(start) = waiting.keys().next().copied() {
            let mut circle = Vec::new();
            let mut cursor = Some(start);
            while let Some(key) = cursor.filter(|key| waiting.remove(key).is_some()) {
                circle.push(key);
                cursor = nodes.get(key).and_then(|node| nodes.parent_of(node));
            }
            order.push(circle);
        }
        order
    }
}

/// Whether the runs of a group go round: a run may also name itself as its parent.
fn is_circle(group: &[RunKey], nodes: &Nodes) -> bool {
    let first = group.first().and_then(|key| nodes.get(*key));
    group.len() > 1 || first.and_then(|node| nodes.parent_of(node)) == group.first().copied()
}

/// The runs of circles: those whose parents go round now, and those whose stored parents do.
pub fn circles(nodes: &Nodes) -> KeySet {
    let mut found = circles_of(nodes, |node| nodes.parent_of(node));
    found.extend(circles_of(nodes, Node::stored_parent));
    found
}

fn circles_of(nodes: &Nodes, parent_of: impl Fn(&Node) -> Option<RunKey>) -> KeySet {
    let parent_of = |key: RunKey| nodes.get(key).and_then(&parent_of);
    let mut found = KeySet::default();
    let mut seen: KeyMap<usize> = KeyMap::default();
    for (walk, (start, _)) in nodes.iter().enumerate() {
        let mut cursor = Some(start).filter(|start| parent_of(*start).is_some());
        while let Some(key) = cursor {
            match seen.insert(key, walk) {
                None => cursor = parent_of(key),
                Some(by) => {
                    // Back where this walk has been: once more round collects the circle. Each is met only once.
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
