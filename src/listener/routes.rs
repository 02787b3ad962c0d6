//! The current router: an early one until the process is ready, then the full one.

use std::sync::{Arc, OnceLock};

use axum::Router;

/// Clones share them.
#[derive(Clone)]
pub(crate) struct Routes {
    early: Router,
    full: Arc<OnceLock<Router>>,
}

impl Routes {
    /// `early` is used until [`Routes::open`] is called, which is optional.
    pub(crate) fn new(early: Router) -> Self {
        Self {
            early,
            full: Arc::default(),
        }
    }

    /// Later requests get this router. Only the first call has an effect.
    pub(crate) fn open(&self, full: Router) {
        let _ = self.full.set(full);
    }

    pub(crate) fn current(&self) -> Router {
        self.full.get().unwrap_or(&self.early).clone()
    }
}
