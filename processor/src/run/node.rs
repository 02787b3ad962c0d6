//! A run in the working set: its stored state and its current state.

use std::sync::Arc;

use schemas::fold::{RunState, Totals};
use store::reads::states::StoredRun;

use super::cost::OwnCost;
use super::key::{KeyMap, RunKey, Scope};
use super::snapshot::{Counting, HotRun, Resolved, RunTotals, Snapshot, Turn, nothing};
use crate::error::ProcessorError;

#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) version: u64,
    snapshot: Snapshot,
    resolved: Resolved,
    /// The keys of its rows that are not tombstones: one, unless a write was interrupted, and none if no event of it is
    /// stored.
    keys: Vec<i64>,
    parent: Option<RunKey>,
    parent_run_id: Arc<str>,
    cost: OwnCost,
    counting: Counting,
    run_totals: RunTotals,
    /// Whether only marks on it were stored.
    is_unseen: bool,
}

#[derive(Clone, Debug)]
pub struct Node {
    /// Index of its scope.
    pub scope: usize,
    pub run_id: Arc<str>,
    /// The fold of all known events. Boxed, because maps move their values when they grow.
    pub state: Box<RunState>,
    /// The encoded state.
    pub snapshot: Snapshot,
    /// Root and inherited values, as far as they are resolved.
    pub resolved: Resolved,
    /// Its own cost.
    pub cost: OwnCost,
    /// Whether its model call counts.
    pub counting: Counting,
    own_totals: Totals,
    /// Subtree totals, as far as they are computed.
    pub totals: Totals,
    /// The parent that its state names, whether it is stored or not.
    parent: Option<RunKey>,
    /// Whether any run may name this one as its parent.
    pub may_have_children: bool,
    /// What is stored of it. Boxed, because most runs are new and maps move their values when they grow.
    pub(crate) base: Option<Box<Base>>,
}

impl Node {
    /// Whether the stored row differs.
    pub fn is_changed(&self) -> bool {
        let started_at_ms = self.state.started_at_ms();
        let keys = if self.state.is_unseen() {
            &[][..]
        } else {
            std::slice::from_ref(&started_at_ms)
        };
        self.base.as_ref().is_none_or(|base| {
            base.snapshot != self.snapshot
                || base.resolved != self.resolved
                || base.cost != self.cost
                || base.counting != self.counting
                || base.run_totals.totals != self.totals
                || base.keys != keys
        })
    }

    /// Whether it is stored below a parent that is not its current one.
    pub fn is_rewired(&self) -> bool {
        self.stored_totals().is_some() && self.stored_parent() != self.parent
    }

    /// What its children inherit.
    pub fn handed_down(&self) -> Resolved {
        let mut resolved = self.resolved.clone();
        if resolved.is_call {
            resolved.enclosing_call = self.run_id.clone();
        }
        resolved
    }

    /// The links of its stored row; empty for a new run.
    pub fn stored_links(&self) -> &[u64] {
        let base = self.base.as_ref();
        base.map(|base| &*base.counting.links).unwrap_or_default()
    }

    /// Whether its row is what tells that other runs have to be decided again: once it is stored, they are no longer
    /// found by it.
    pub fn has_lost_links(&self) -> bool {
        let mut stored = self.stored_links().iter();
        stored.any(|link| !self.counting.links.contains(link))
    }

    /// Whether it, or what counts it, may differ from what is stored.
    pub fn is_call_changed(&self) -> bool {
        self.base
            .as_ref()
            .is_none_or(|base| base.snapshot != self.snapshot || base.resolved != self.resolved)
    }

    /// Without its descendants; zero before [`Node::set_cost`].
    pub fn own_totals(&self) -> Totals {
        self.own_totals
    }

    /// The parent that its state names, whether it is stored or not.
    pub fn parent(&self) -> Option<RunKey> {
        self.parent
    }

    /// `None` for a new run.
    pub fn stored_totals(&self) -> Option<RunTotals> {
        let base = self.base.as_ref().filter(|base| !base.is_unseen)?;
        Some(base.run_totals)
    }

    pub fn stored_parent(&self) -> Option<RunKey> {
        self.base.as_ref().and_then(|base| base.parent)
    }

    /// Empty for none.
    pub fn stored_parent_id(&self) -> &str {
        let base = self.base.as_ref();
        base.map(|base| base.parent_run_id.as_ref())
            .unwrap_or_default()
    }

    /// Empty for a new run.
    pub fn stored_root(&self) -> Arc<str> {
        let base = self.base.as_ref();
        base.map(|base| base.resolved.root.clone())
            .unwrap_or_default()
    }

    /// The keys of its rows that are not tombstones.
    pub fn keys(&self) -> impl Iterator<Item = i64> {
        self.base.iter().flat_map(|base| base.keys.iter().copied())
    }

    /// The version of the row to write: the log's position, and above every stored version (P3).
    pub fn version(&self, scope: &Scope) -> u64 {
        let above_stored = self
            .base
            .as_ref()
            .map_or(0, |base| base.version.saturating_add(1));
        scope.next_offset.max(above_stored)
    }

    /// Whether no event of it is stored; marks on it may be.
    pub(crate) fn is_new(&self) -> bool {
        self.base.as_ref().is_none_or(|base| base.is_unseen)
    }
}

impl Node {
    pub(crate) fn unknown(scope: usize, run_id: Arc<str>) -> Self {
        let resolved = Resolved {
            root: run_id.clone(),
            agent: nothing(),
            user_email: nothing(),
            thread: nothing(),
            turn: Turn::No,
            enclosing_call: nothing(),
            is_call: false,
        };
        Self {
            scope,
            run_id,
            state: Box::default(),
            snapshot: Snapshot::default(),
            resolved,
            cost: OwnCost::default(),
            counting: Counting::alone(),
            own_totals: Totals::default(),
            totals: Totals::default(),
            parent: None,
            may_have_children: false,
            base: None,
        }
    }

    /// Adds events. The cost is as before.
    pub(crate) fn join(&mut self, events: Box<RunState>, of: &Scope) -> Result<(), ProcessorError> {
        match self.base {
            // Moving the state costs less than joining it with an empty one.
            None if self.state.is_unseen() && !self.state.has_marks() => self.state = events,
            _ => self.state.join(*events),
        }
        self.snapshot = Snapshot::of(&self.state)?;
        self.parent = parent_of(&self.state, of);
        Ok(())
    }

    /// Sets the cost of its current state.
    pub(crate) fn set_cost(&mut self, cost: OwnCost) {
        self.cost = cost;
        self.own_totals = own_totals(&self.state, cost, &self.counting);
    }

    /// A run from the cache.
    pub(crate) fn of_hot(
        scope: usize,
        run_id: Arc<str>,
        hot: HotRun,
        of: &Scope,
    ) -> Result<Self, ProcessorError> {
        let state = hot.snapshot.decode()?;
        let keys = if state.is_unseen() {
            Vec::new()
        } else {
            vec![hot.started_at_ms]
        };
        let found = Found {
            version: hot.version,
            snapshot: hot.snapshot,
            resolved: hot.resolved,
            keys,
            cost: hot.cost,
            counting: hot.counting,
            totals: hot.run_totals.totals,
        };
        let mut node = found.into_node(scope, run_id, of, state);
        node.may_have_children = hot.may_have_children;
        Ok(node)
    }

    /// A run from its rows, usually one. Several are joined: each may lack events, the join has all of them.
    pub(crate) fn of_rows(
        scope: usize,
        run_id: Arc<str>,
        mut rows: Vec<StoredRun>,
        of: &Scope,
    ) -> Result<Self, ProcessorError> {
        rows.sort_by_key(|row| (row.version, row.is_deleted == 0));
        let keys = rows
            .iter()
            .filter(|row| row.is_deleted == 0)
            .map(|row| row.started_at)
            .collect();
        let mut older = RunState::default();
        let Some(newest) = rows.pop() else {
            return Ok(Self::unknown(scope, run_id));
        };
        for row in &rows {
            older.join(snapshot(row).decode()?);
        }
        let state = snapshot(&newest).decode()?;
        let found = Found {
            version: newest.version,
            // The state of the newest row: if the join contains more, the run counts as changed.
            snapshot: snapshot(&newest),
            resolved: Resolved {
                root: newest.root_run_id.as_str().into(),
                agent: newest.agent.as_str().into(),
                user_email: newest.user_email.as_str().into(),
                thread: newest.thread_id.as_str().into(),
                turn: match newest.turn_at {
                    ..0 => Turn::Unknown,
                    0 => Turn::No,
                    1.. => Turn::Begins,
                },
                enclosing_call: newest.enclosing_call.as_str().into(),
                is_call: state.is_llm(),
            },
            keys,
            cost: OwnCost {
                amount: newest.cost,
                status: newest.cost_status,
                is_estimated: newest.cost_estimated != 0,
            },
            counting: Counting {
                counted_run_id: newest.counted_run_id.as_str().into(),
                links: newest.call_links.as_slice().into(),
            },
            totals: newest.totals,
        };
        let mut node = found.into_node(scope, run_id, of, state);
        if !rows.is_empty() {
            node.join(Box::new(older), of)?;
            node.set_cost(node.cost);
        }
        Ok(node)
    }
}

/// The stored values of a run, from the cache or the table.
struct Found {
    version: u64,
    snapshot: Snapshot,
    resolved: Resolved,
    keys: Vec<i64>,
    cost: OwnCost,
    counting: Counting,
    totals: Totals,
}

impl Found {
    fn into_node(self, scope: usize, run_id: Arc<str>, of: &Scope, state: RunState) -> Node {
        let parent_run_id: Arc<str> = state.parent_run_id().into();
        let parent = parent_of(&state, of);
        let own_totals = own_totals(&state, self.cost, &self.counting);
        let base = Base {
            version: self.version,
            snapshot: self.snapshot.clone(),
            resolved: self.resolved.clone(),
            keys: self.keys,
            parent,
            parent_run_id,
            cost: self.cost,
            counting: self.counting.clone(),
            run_totals: RunTotals {
                own: own_totals,
                totals: self.totals,
            },
            is_unseen: state.is_unseen(),
        };
        Node {
            scope,
            run_id,
            state: Box::new(state),
            snapshot: self.snapshot,
            resolved: self.resolved,
            cost: self.cost,
            counting: self.counting,
            own_totals,
            totals: self.totals,
            parent,
            may_have_children: true,
            base: Some(Box::new(base)),
        }
    }
}

/// What a run adds to its own subtree totals and to those above it. A call that another run counts adds no usage.
fn own_totals(state: &RunState, cost: OwnCost, counting: &Counting) -> Totals {
    let totals = Totals::own(state, cost.amount);
    match counting.is_elsewhere() {
        true => Totals {
            errors: totals.errors,
            ..Totals::default()
        },
        false => totals,
    }
}

fn parent_of(state: &RunState, of: &Scope) -> Option<RunKey> {
    let parent = state.parent_run_id();
    (!parent.is_empty()).then(|| of.key(parent))
}

fn snapshot(row: &StoredRun) -> Snapshot {
    Snapshot {
        state: row.state.as_slice().into(),
        input_preview: row.input_preview.as_str().into(),
        output_preview: row.output_preview.as_str().into(),
    }
}

/// The runs of a working set.
#[derive(Debug, Default)]
pub struct Nodes {
    pub(crate) nodes: KeyMap<Node>,
    pub(crate) scopes: Vec<Scope>,
}

impl Nodes {
    pub fn get(&self, key: RunKey) -> Option<&Node> {
        self.nodes.get(&key)
    }

    pub fn get_mut(&mut self, key: RunKey) -> Option<&mut Node> {
        self.nodes.get_mut(&key)
    }

    /// In no order.
    pub fn iter(&self) -> impl Iterator<Item = (RunKey, &Node)> {
        self.nodes.iter().map(|(key, node)| (*key, node))
    }

    pub fn sibling_of(&self, node: &Node, run_id: &str) -> RunKey {
        self.scopes[node.scope].key(run_id)
    }
}
