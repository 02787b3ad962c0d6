//! Requests to load runs into the working set.

use std::sync::Arc;

pub(super) struct Wanted {
    pub(super) scope: usize,
    pub(super) run_id: Arc<str>,
    /// The start in its row, if known.
    pub(super) started_at_ms: Option<i64>,
}

impl Wanted {
    pub(super) fn any(scope: usize, run_id: Arc<str>) -> Self {
        Self {
            scope,
            run_id,
            started_at_ms: None,
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
