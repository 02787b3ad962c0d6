//! The processor over a log in memory, with tables in memory and with the real engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod counting;
mod deployment;
mod flaky_log;
mod fold;
mod forgetting;
mod held_tables;
mod memory_tables;
mod poison;
mod processes;
mod rebuild;
mod recalculate;
mod reference;
mod retention;
mod several;
mod several_jobs;
mod starts;
mod worker;
mod zombie;

store::engine_test_child!();
