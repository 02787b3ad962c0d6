//! Random ids of processes, runners and barriers.

/// Unique among all processes and calls.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = |salt: u32| u128::from(RandomState::new().hash_one((salt, std::process::id())));
    half(1) << 64 | half(2)
}
