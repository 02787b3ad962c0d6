//! What the events of a span or a record depend on besides itself.

use crate::config::ClientCost;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// When the body was read, Unix milliseconds.
    pub(crate) now_ms: i64,
    pub(crate) client_cost: ClientCost,
}
