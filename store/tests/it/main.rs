//! Tests against the real engine.

mod rows;
mod tables;

store::engine_test_child!();
