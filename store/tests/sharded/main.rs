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
}

mod shards;

use it::rows;
pub(crate) use store::testing::sharded_database as database;

/// Generated histories in tests that compare with a plain model.
pub(crate) const CASES: u32 = 6;

store::engine_test_child!();
