//! What is on the wire, in the log and on the API.
//!
//! This crate holds every shape and every rule that more than one tier must agree on: how a reported
//! event is read ([`event`], [`batch`]), how events fold into a run ([`fold`]), what a log record carries
//! ([`record`]), who may do what ([`credential`]), what can be asked of runs ([`filter`]) and how an error
//! looks ([`fault`]). It is pure: no socket, no clock, no task. Time comes in as an argument.
//!
//! It deliberately does not know where events are kept, how they travel, or which database holds runs.
//!
//! Start reading at [`event::Event`], then [`fold::RunState`].

pub mod batch;
pub mod client_address;
pub mod compare;
pub mod control;
pub mod credential;
pub mod cursor;
pub mod digest;
pub mod event;
pub mod fault;
pub mod filter;
pub mod fold;
pub mod ids;
pub mod job;
pub mod limits;
pub mod price;
pub mod project_label;
pub mod record;
pub mod reprice;
pub mod run;
pub mod start;
pub mod thread;
pub mod timestamp;
pub mod usage;
