//! The processes of a deployment: their messages on the control topic, which of them are alive, and the barrier that
//! pauses all processors.
//!
//! - [`ControlTopic`] carries [messages](schemas::control::ControlMessage) over a topic of one partition, so that all
//!   processes receive them in one order; [`LocalChannel`] does the same within a single process.
//! - [`Membership`] is the one record of who is alive, fed by heartbeats. [`Members`] shares it within a process.
//! - [`Barrier`] lets work on whole tables happen while no processor in the deployment has a step in progress.
//! - [`Driver`] is the one task of a process that receives control messages for the other parts and publishes
//!   heartbeats.
//!
//! Membership and the barrier's protocol are pure: messages and time in, answers out. Start with
//! `barrier/protocol.rs`, which has the proof that no step is under way while a coordinator works.
//!
//! This crate does not know the work behind a barrier, nor the content of a heartbeat.

mod barrier;
mod channel;
mod driver;
mod echoes;
mod members;
mod membership;
mod topic;

pub use barrier::{Barrier, BarrierDriver, BarrierGuard, Permit, PermitLapsed, is_replaced};
pub use channel::{ControlChannel, LocalChannel};
pub use driver::Driver;
pub use members::Members;
pub use membership::{ClearProgress, HEARTBEAT_INTERVAL, Membership, PROCESSOR_HEARTBEAT_INTERVAL};
pub use topic::ControlTopic;
