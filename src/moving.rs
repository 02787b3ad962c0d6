//! Moving a deployment: everything that was accepted into one file, and out of it into another deployment's log.
//!
//! The file holds what the log held: records of accepted events, which the other deployment processes as if they came
//! from clients. Events are identified, so that taking one twice changes nothing (P2), and both commands can be
//! repeated.

mod export;
mod file;
mod replay;

pub(crate) use export::export;
pub(crate) use replay::{ReplayArgs, replay};
