//! Tests against the real engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use store::StoreError;
use store::testing::TestDatabase;

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
mod waiting_marks;
mod words;

pub(crate) async fn database() -> Result<TestDatabase, StoreError> {
    words::show();
    store::testing::database().await
}

/// Generated histories in tests that compare with a plain model.
pub(crate) const CASES: u32 = 24;

store::engine_test_child!();
