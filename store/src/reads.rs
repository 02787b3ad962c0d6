//! Reads of events, runs, messages and feedback: lists, details, sums, and the look-ups of processing.
//!
//! [`filter_sql`] renders queries as SQL with bound parameters; [`current`] is the current row of every run (P3), which
//! all lists and sums begin with.

pub mod changes;
pub mod costs;
pub mod current;
pub mod events;
pub mod facets;
pub mod feedback;
pub mod filter_sql;
mod messages;
pub mod run_apps;
pub mod runs;
pub mod states;
pub mod threads;
pub mod unpriced;
pub mod usage;
pub mod waiting_marks;
