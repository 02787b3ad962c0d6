//! Tests against the real engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod changes;
mod credentials;
mod engine;
mod exports;
mod fence;
mod jobs;
mod lists;
mod prices;
mod retention;
mod rows;
mod search;
mod tables;
mod threads;
mod usage;

store::engine_test_child!();
