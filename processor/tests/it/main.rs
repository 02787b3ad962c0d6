//! The processor over a log in memory and tables in memory.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fold;
mod memory_tables;
mod reference;
mod worker;
