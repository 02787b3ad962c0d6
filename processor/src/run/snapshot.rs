//! What is kept of a run, in its row and in the cache of hot runs.

use std::sync::{Arc, LazyLock};

use schemas::fold::{Previews, RunState, StateFault, Totals};

use super::cost::OwnCost;

/// Values of a run that depend on its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The topmost known ancestor; the run itself if it has none.
    pub root: Arc<str>,
    /// The run's agent, else the nearest ancestor's, else empty.
    pub agent: Arc<str>,
    /// The run's user, else the nearest ancestor's, else empty.
    pub user_email: Arc<str>,
    /// The run's thread, else the nearest ancestor's, else empty.
    pub thread: Arc<str>,
    /// Whether it begins a turn of its thread.
    pub turn: Turn,
    /// The nearest run of type `llm` above it, else empty.
    pub enclosing_call: Arc<str>,
    /// Whether it is of type `llm` itself, and so encloses what is below it.
    pub is_call: bool,
}

impl Resolved {
    pub fn bytes(&self) -> usize {
        let inherited = self.agent.len() + self.user_email.len() + self.thread.len();
        self.root.len() + inherited + self.enclosing_call.len()
    }
}

/// Whether a run begins a turn of its thread: whether its parent is not in the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    No,
    Begins,
    /// Its row is of a version without threads of runs, and nothing has resolved it since.
    Unknown,
}

/// A run's state as the table stores it: equal states have equal snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The fold's state without its previews.
    pub state: Arc<[u8]>,
    pub input_preview: Arc<str>,
    pub output_preview: Arc<str>,
}

impl Snapshot {
    pub fn of(state: &RunState) -> Result<Self, StateFault> {
        let previews = state.previews();
        Ok(Self {
            state: state.encode()?.into(),
            input_preview: previews.input.into(),
            output_preview: previews.output.into(),
        })
    }

    pub fn decode(&self) -> Result<RunState, StateFault> {
        let previews = Previews {
            input: &self.input_preview,
            output: &self.output_preview,
        };
        RunState::decode(&self.state, previews)
    }

    pub fn bytes(&self) -> usize {
        self.state.len() + self.input_preview.len() + self.output_preview.len()
    }
}

/// Stored totals of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Without its descendants.
    pub own: Totals,
    /// With its descendants.
    pub totals: Totals,
}

/// Whether a model call counts, and what runs that may report the same call are found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counting {
    /// The run that counts the call instead; empty for none.
    pub counted_run_id: Arc<str>,
    /// Hashes of [`store::reads::states::CallLink`].
    pub links: Arc<[u64]>,
}

impl Counting {
    /// A run that counts for itself and has nothing in common with others.
    pub fn alone() -> Self {
        static NO_LINKS: LazyLock<Arc<[u64]>> = LazyLock::new(|| [].into());
        Self {
            counted_run_id: nothing(),
            links: NO_LINKS.clone(),
        }
    }

    /// Whether another run counts the call.
    pub fn is_elsewhere(&self) -> bool {
        !self.counted_run_id.is_empty()
    }
}

/// What a run's next event needs of the run.
#[derive(Clone, Debug)]
pub struct HotRun {
    pub snapshot: Snapshot,
    pub version: u64,
    /// When the run starts: the key of its row.
    pub started_at_ms: i64,
    pub resolved: Resolved,
    pub cost: OwnCost,
    pub counting: Counting,
    pub run_totals: RunTotals,
    /// Whether any run may name this one as its parent.
    pub may_have_children: bool,
}

/// The empty text, allocated once.
pub fn nothing() -> Arc<str> {
    static NOTHING: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
    NOTHING.clone()
}
