//! The routes of the query tier over a real engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod caches;
mod datasets;
mod exports;
mod jobs;
mod judge;
mod live;
mod lunary;
mod page;
mod pipeline;
mod prices;
mod process;
mod routes;
mod scans;
mod sessions;
mod threads;
mod usage;

store::engine_test_child!();
