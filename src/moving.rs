//! Moving a deployment: writes everything that was accepted into one file, and appends it to another deployment's log.
//!
//! The file contains records of accepted events, which the other deployment processes like events of clients. Events
//! are identified, so repeating one changes nothing (P2), and both commands can be repeated.

mod export;
mod file;
mod replay;

pub(crate) use export::export;
pub(crate) use replay::{ReplayArgs, replay};
