//! Requests to load runs into the working set.

use std::sync::Arc;

pub(super) struct Wanted {
    pub(super) scope: usize,
    pub(super) run_id: Arc<str>,
    pub(super) start: Start,
}

/// What is known of the start in a run's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Unknown,
    /// About this time, Unix milliseconds: where the start of a child is.
    Near(i64),
    At(i64),
}

impl Wanted {
    pub(super) fn any(scope: usize, run_id: Arc<str>) -> Self {
        Self {
            scope,
            run_id,
            start: Start::Unknown,
        }
    }

    /// The parent of a run that started then.
    pub(super) fn parent(scope: usize, run_id: &str, child_started_ms: i64) -> Self {
        Self {
            scope,
            run_id: run_id.into(),
            start: Start::Near(child_started_ms),
        }
    }
}

/// Runs of one app whose children, those with ids greater than `after`, have to be resolved.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) scope: usize,
    pub(super) runs: Vec<Arc<str>>,
    pub(super) after: String,
    pub(super) levels: u32,
}
