//! `/api/analytics`.

mod unpriced;
pub(crate) mod usage;
