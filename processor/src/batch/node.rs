//! A run in the working set: what is stored of it, and what it is now.

use std::sync::Arc;

use schemas::fold::{Previews, RunState, StateFault};
use store::rows::cost_status;
use store::states::{StoredRun, StoredTotals};

use super::{Nodes, RunKey, Scope, Sources};
use crate::ProcessorError;
use crate::hot::HotRun;
use crate::lineage;
use crate::rows;
use crate::totals::{OwnCost, Totals};

/// What a run has from its ancestors, or else of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The topmost known ancestor; the run itself when it has none.
    pub root: Arc<str>,
    /// The run's agent, else the nearest ancestor's, else empty.
    pub agent: Arc<str>,
    /// The run's user, else the nearest ancestor's, else empty.
    pub user_email: Arc<str>,
}

impl Resolved {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.root.len() + self.agent.len() + self.user_email.len()
    }
}

/// A run's state as the table keeps it: equal states are equal snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The fold's state without its previews.
    pub state: Arc<[u8]>,
    /// Beginning of the input.
    pub input_preview: Arc<str>,
    /// Beginning of the output.
    pub output_preview: Arc<str>,
}

impl Snapshot {
    /// Encodes a state.
    pub fn of(state: &RunState) -> Result<Self, StateFault> {
        let previews = state.previews();
        Ok(Self {
            state: state.encode()?.into(),
            input_preview: previews.input.into(),
            output_preview: previews.output.into(),
        })
    }

    /// Decodes it.
    pub fn decode(&self) -> Result<RunState, StateFault> {
        let previews = Previews {
            input: &self.input_preview,
            output: &self.output_preview,
        };
        RunState::decode(&self.state, previews)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.state.len() + self.input_preview.len() + self.output_preview.len()
    }
}

/// What is stored of a run.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) version: u64,
    snapshot: Snapshot,
    resolved: Resolved,
    /// Where it has rows that are not tombstones: one, unless something was interrupted, and none while it was
    /// never seen.
    keys: Vec<i64>,
    /// The parent it was stored with.
    parent: Option<RunKey>,
    parent_run_id: Arc<str>,
    cost: OwnCost,
    figures: Figures,
    /// Whether there were only marks on it.
    is_unseen: bool,
}

/// What adds up over a tree, as it is stored of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Its own.
    pub own: Totals,
    /// Its own and its descendants'.
    pub totals: Totals,
}

/// A run in the working set.
#[derive(Clone, Debug)]
pub struct Node {
    /// Which of the scopes it belongs to.
    pub scope: usize,
    /// Its id.
    pub run_id: Arc<str>,
    /// The fold of all that is known. Boxed like everywhere here: maps move their values when they grow.
    pub state: Box<RunState>,
    /// The same, as it is stored.
    pub snapshot: Snapshot,
    /// Root and what is inherited, as far as it is settled.
    pub resolved: Resolved,
    /// What it costs itself.
    pub cost: OwnCost,
    /// With all its descendants, as far as they are settled.
    pub totals: Totals,
    /// Whether any run may name this one as its parent.
    pub may_have_children: bool,
    pub(super) base: Option<Base>,
}

impl Node {
    /// Whether what is stored is not this.
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
                || base.figures.totals != self.totals
                || base.keys != keys
        })
    }

    /// Whether it is stored below another parent than it has now.
    pub fn is_rewired(&self, nodes: &Nodes) -> bool {
        self.stored_figures().is_some() && self.stored_parent() != nodes.parent_of(self)
    }

    /// Its own figures.
    pub fn own_figures(&self) -> Totals {
        Totals::own(&self.state, self.cost)
    }

    /// What is stored of its figures; `None` when it is new.
    pub fn stored_figures(&self) -> Option<Figures> {
        let base = self.base.as_ref().filter(|base| !base.is_unseen)?;
        Some(base.figures)
    }

    /// The parent it is stored with.
    pub fn stored_parent(&self) -> Option<RunKey> {
        self.base.as_ref().and_then(|base| base.parent)
    }

    /// The id of that parent; empty for none.
    pub fn stored_parent_id(&self) -> &str {
        let base = self.base.as_ref();
        base.map(|base| base.parent_run_id.as_ref())
            .unwrap_or_default()
    }

    /// The root it is stored with; empty when it is new.
    pub fn stored_root(&self) -> Arc<str> {
        let base = self.base.as_ref();
        base.map(|base| base.resolved.root.clone())
            .unwrap_or_default()
    }

    /// Computes what it costs by the prices in force.
    pub(super) fn price(&mut self, sources: Sources<'_>) {
        self.cost = rows::own_cost(&self.state, sources.prices);
        sources.metrics.priced(self.cost.status);
    }

    /// The keys at which it has rows that are not tombstones.
    pub fn keys(&self) -> impl Iterator<Item = i64> {
        self.base.iter().flat_map(|base| base.keys.iter().copied())
    }

    /// The version of what is to be written: the log's position, and above whatever is stored (P3).
    pub fn version(&self, scope: &Scope) -> u64 {
        let above_stored = self
            .base
            .as_ref()
            .map_or(0, |base| base.version.saturating_add(1));
        scope.next_offset.max(above_stored)
    }

    /// Whether no run of it is stored; marks on it may be.
    pub(super) fn is_new(&self) -> bool {
        self.base.as_ref().is_none_or(|base| base.is_unseen)
    }
}

impl Node {
    /// A run of which nothing is stored.
    pub(super) fn unknown(scope: usize, run_id: Arc<str>) -> Self {
        let resolved = Resolved {
            root: run_id.clone(),
            agent: lineage::nothing(),
            user_email: lineage::nothing(),
        };
        Self {
            scope,
            run_id,
            state: Box::default(),
            snapshot: Snapshot::default(),
            resolved,
            cost: OwnCost::default(),
            totals: Totals::default(),
            may_have_children: false,
            base: None,
        }
    }

    /// A run as the cache knows it.
    pub(super) fn of_hot(
        scope: usize,
        run_id: Arc<str>,
        (hot, of): (HotRun, &Scope),
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
            totals: hot.figures.totals,
        };
        let mut node = found.into_node((scope, run_id), of, state);
        node.may_have_children = hot.may_have_children;
        Ok(node)
    }

    /// A run of its rows, usually one. Several are joined, because each holds a part of the truth at least, and the
    /// join the whole.
    pub(super) fn of_rows(
        run_id: Arc<str>,
        mut rows: Vec<StoredRun>,
        (scope, of): (usize, &Scope),
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
            // What the newest row holds: if the join knows more, the run counts as changed.
            snapshot: snapshot(&newest),
            resolved: Resolved {
                root: newest.root_run_id.as_str().into(),
                agent: newest.agent.as_str().into(),
                user_email: newest.user_email.as_str().into(),
            },
            keys,
            cost: OwnCost {
                amount: newest.cost,
                status: cost_status(newest.cost_status),
                is_estimated: newest.cost_estimated != 0,
            },
            totals: Totals::from(newest.totals),
        };
        let mut node = found.into_node((scope, run_id), of, state);
        if !rows.is_empty() {
            node.state.join(older);
            node.snapshot = Snapshot::of(&node.state)?;
        }
        Ok(node)
    }
}

/// What is known of a stored run, wherever it was found.
struct Found {
    version: u64,
    snapshot: Snapshot,
    resolved: Resolved,
    keys: Vec<i64>,
    cost: OwnCost,
    totals: Totals,
}

impl Found {
    fn into_node(self, (scope, run_id): (usize, Arc<str>), of: &Scope, state: RunState) -> Node {
        let parent_run_id: Arc<str> = state.parent_run_id().into();
        let base = Base {
            version: self.version,
            snapshot: self.snapshot.clone(),
            resolved: self.resolved.clone(),
            keys: self.keys,
            parent: (!parent_run_id.is_empty()).then(|| of.key(&parent_run_id)),
            parent_run_id,
            cost: self.cost,
            figures: Figures {
                own: Totals::own(&state, self.cost),
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
            totals: self.totals,
            may_have_children: true,
            base: Some(base),
        }
    }
}

fn snapshot(row: &StoredRun) -> Snapshot {
    Snapshot {
        state: row.state.as_slice().into(),
        input_preview: row.input_preview.as_str().into(),
        output_preview: row.output_preview.as_str().into(),
    }
}

impl From<StoredTotals> for Totals {
    fn from(stored: StoredTotals) -> Self {
        Self {
            cost: stored.cost,
            prompt_tokens: stored.prompt_tokens,
            completion_tokens: stored.completion_tokens,
            tokens: stored.tokens,
            llm_calls: stored.llm_calls,
            errors: stored.errors,
        }
    }
}
