//! The routes of the query tier over a real engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod api;
mod compat;
mod pages;
mod tier;

store::engine_test_child!();
