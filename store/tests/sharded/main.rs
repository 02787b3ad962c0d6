//! The tests of one server, on a cluster of two shards.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../it"]
mod it {
    mod builds;
    mod changes;
    mod credentials;
    mod exports;
    mod fence;
    mod instances;
    mod jobs;
    mod lists;
    mod prices;
    pub(crate) mod rows;
    mod tables;
    mod threads;
    mod usage;
    pub(crate) mod words;
}

mod shards;

use it::{rows, words};
use store::StoreError;
use store::testing::TestDatabase;

pub(crate) async fn database() -> Result<TestDatabase, StoreError> {
    words::show();
    store::testing::sharded_database().await
}

/// Generated histories in tests that compare with a plain model.
pub(crate) const CASES: u32 = 6;

store::engine_test_child!();
