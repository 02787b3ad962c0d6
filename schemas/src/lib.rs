//! Wire formats, log formats and API types.
//!
//! This crate holds every type and rule that more than one tier depends on: how a reported event is parsed ([`event`],
//! [`batch`]), how events fold into a run ([`fold`]), what a log record carries ([`record`]), permissions
//! ([`credential`]), queries of runs ([`filter`]) and errors ([`api_error`]). It is pure: no socket, no clock, no task.
//! Time is an argument.
//!
//! It deliberately does not know where events are stored, how they travel, or which database holds runs.
//!
//! Start reading at [`event::Event`], then [`fold::RunState`].

pub mod api_error;
pub mod batch;
pub mod client_address;
pub mod compare;
pub mod control;
pub mod credential;
pub mod cursor;
pub mod digest;
pub mod event;
pub mod filter;
pub mod fold;
pub mod ids;
pub mod job;
pub mod limits;
pub mod money;
pub mod page;
pub mod price;
pub mod project_label;
pub mod record;
pub mod reprice;
pub mod run;
pub mod start;
pub mod thread;
pub mod timestamp;
pub mod turn_text;
pub mod usage;

#[cfg(test)]
#[path = "../../tests/golden/golden.rs"]
mod golden;
