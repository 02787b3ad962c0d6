//! Traits that the binary implements for this tier, which has access to neither the log nor other processes.

pub(crate) mod dead_letters;
pub(crate) mod infrastructure;
pub(crate) mod processes;
pub(crate) mod reporter;

use std::sync::Arc;

use schemas::api_error::ApiError;

/// Seconds after which a client can retry where a port has no implementation: another server can have one.
const NOT_CONNECTED_RETRY_S: u32 = 30;

/// An implementation of a port, where the binary connects one. Clones share it.
pub(crate) struct Port<T: ?Sized>(Option<Arc<T>>);

/// A port that requests depend on.
pub(crate) trait Required {
    /// Message of the 503 where it has no implementation.
    const NOT_CONNECTED: &'static str;
}

impl<T: ?Sized> Port<T> {
    pub(crate) fn to(implementation: Arc<T>) -> Self {
        Self(Some(implementation))
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: Required + ?Sized> Port<T> {
    /// # Errors
    /// 503 without an implementation.
    pub(crate) fn required(&self) -> Result<&T, ApiError> {
        self.get()
            .ok_or_else(|| ApiError::unavailable(T::NOT_CONNECTED, NOT_CONNECTED_RETRY_S))
    }
}

impl<T: ?Sized> Clone for Port<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Default for Port<T> {
    fn default() -> Self {
        Self(None)
    }
}
