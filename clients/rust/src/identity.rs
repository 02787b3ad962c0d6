//! Ids of runs and events, and how this library names itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// This library and its version: in the metadata of runs without a parent, and in the header `User-Agent`.
#[cfg(feature = "transport")]
pub(crate) const NAME: &str = concat!("spindle-client-rust/", env!("CARGO_PKG_VERSION"));
/// The key of that metadata. With it the server shows which versions an app reports with.
#[cfg(feature = "transport")]
pub(crate) const CLIENT_KEY: &str = "spindle_client";

/// A new id for a run or a message: a random UUID.
pub fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// The identity of the next event: random per process, then a counter.
pub fn event_id() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| Uuid::new_v4().as_u64_pair().0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{process:016x}-{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_alike() {
        let ids: Vec<String> = (0..1000).map(|_| event_id()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_ne!(new_id(), new_id());
    }
}
