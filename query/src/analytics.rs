//! `/api/analytics`: tokens, cost, errors and latencies by group and by time.

pub(crate) mod unpriced;
pub(crate) mod usage;
