//! Tests against the real engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod builds;
mod changes;
mod clears;
mod credentials;
mod engine;
mod exports;
mod fence;
mod instances;
mod jobs;
mod lists;
mod losses;
mod prices;
mod replicas;
mod retention;
mod rows;
mod search;
mod tables;
mod threads;
mod usage;

pub(crate) use store::testing::database;

/// Generated histories in tests that compare with a plain model.
pub(crate) const CASES: u32 = 24;

store::engine_test_child!();
