//! Processes: the builds they are registered in, their starts, and the instances that were started.
//!
//! A start is checked against the schema of its process, stored and reported as a run, and only then answered. Start
//! reading at `start.rs`; why it is done this way is in docs/decisions/0019-process-start.md.

pub(crate) mod build;
mod checks;
pub(crate) mod cursor;
pub(crate) mod definition;
pub mod headers;
pub(crate) mod instance;
mod key;
mod registry;
mod schema;
pub(crate) mod start;
mod starts;

pub(crate) use checks::Checks;
pub(crate) use registry::Registry;
pub(crate) use starts::Starts;

use schemas::credential::Role;
use schemas::fault::Fault;
use serde_json::json;

use crate::access::Caller;

/// A field of a body or path that is text of 1 to `most` bytes.
fn check_text(field: &str, value: &str, most: usize) -> Result<(), Fault> {
    if (1..=most).contains(&value.len()) {
        return Ok(());
    }
    let message = format!("`{field}` has to be text of 1 to {most} bytes");
    Err(Fault::bad_request("invalid_value", message).with_details(json!({"field": field})))
}

/// Whether the caller may start a process that asks for one of these roles: ours, or those of the identity provider.
/// Whoever may start processes at all may start one that asks for none, and an admin any.
fn may_start(caller: &Caller, roles: &[String]) -> bool {
    roles.is_empty()
        || caller.covers(Role::Admin)
        || roles.iter().any(|role| caller.holds_role_named(role))
}
