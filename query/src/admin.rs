//! Projects, API keys, tokens, prices, jobs and dead letters: for tokens with the role `admin`.

pub(crate) mod dead_letters;
mod expiry;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod prices;
pub(crate) mod projects;
pub(crate) mod tokens;

use schemas::fault::Fault;
use schemas::limits::NAME_BYTES;
use schemas::run::Instant;
use serde::Serialize;
use store::StoreError;
use utoipa::ToSchema;

use crate::error::Refusal;

/// What was revoked.
#[derive(Serialize, ToSchema)]
pub(crate) struct Revoked {
    /// Public identifier.
    id: String,
    /// Always true: from now on the secret is refused.
    revoked: bool,
}

/// The answer to a revocation that found `id`, or did not.
fn revoked(id: String, was_found: bool) -> Result<axum::Json<Revoked>, Refusal> {
    if was_found {
        return Ok(axum::Json(Revoked { id, revoked: true }));
    }
    Err(Fault::not_found(format!("there is no active one with the id `{id}`")).into())
}

/// A failure of a change: what the store finds wrong with the values is the caller's to mend.
fn refused(error: StoreError) -> Refusal {
    match error {
        StoreError::Invalid(message) => Fault::bad_request("invalid_body", message).into(),
        StoreError::Conflict(message) => Fault::new(409, "conflict", message).into(),
        error => error.into(),
    }
}

/// A name people give: bounded, and may be empty.
fn check_name(name: &str) -> Result<(), Fault> {
    if name.len() > NAME_BYTES {
        return Err(Fault::bad_request(
            "invalid_body",
            format!("`name` has at most {NAME_BYTES} bytes"),
        ));
    }
    Ok(())
}

/// The 404 for a project nobody made.
fn no_project(project: &str) -> Fault {
    Fault::not_found(format!("there is no project `{project}`"))
}

fn instant(time_ms: i64) -> Instant {
    Instant(time_ms)
}
