//! The processor over a log in memory and tables in memory.

mod fold;
mod memory_tables;
mod reference;
mod worker;
