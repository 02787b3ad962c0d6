//! `/api/internal`: projects, API keys, tokens, prices, jobs, dead letters, caches and the pipeline.

pub(crate) mod cache;
pub(crate) mod dead_letters;
mod expiry;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod pipeline;
pub(crate) mod prices;
pub(crate) mod projects;
pub(crate) mod tokens;

use api::ErrorResponse;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::ids::ProjectId;
use schemas::limits::NAME_BYTES;
use serde::Serialize;
use store::StoreError;
use store::credentials::Credentials;
use utoipa::ToSchema;

/// A revocation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Revoked {
    /// Public identifier.
    id: String,
    /// Always true: the secret is rejected from now on.
    revoked: bool,
}

/// The response to a revocation.
fn revoked(id: String, was_found: bool) -> Result<axum::Json<Revoked>, ErrorResponse> {
    if was_found {
        return Ok(axum::Json(Revoked { id, revoked: true }));
    }
    Err(ApiError::not_found(format!("`{id}` not found, or revoked before")).into())
}

/// The error of a failed change: values that the store rejects are a 400, conflicts a 409.
fn change_error(error: StoreError) -> ErrorResponse {
    match error {
        StoreError::Invalid(message) => ApiError::new(ErrorCode::InvalidBody, message).into(),
        StoreError::Conflict(message) => ApiError::new(ErrorCode::Conflict, message).into(),
        error => error.into(),
    }
}

/// A display name: bounded, and may be empty.
fn check_name(name: &str) -> Result<(), ApiError> {
    if name.len() > NAME_BYTES {
        return Err(ApiError::new(
            ErrorCode::InvalidBody,
            format!(
                "`name` must have at most {NAME_BYTES} bytes, got {}",
                name.len()
            ),
        ));
    }
    Ok(())
}

/// # Errors
/// 404 for a project that does not exist.
pub(crate) async fn check_exists(
    credentials: &Credentials,
    project: &str,
) -> Result<(), ErrorResponse> {
    let projects = credentials.projects().await?;
    match projects.iter().any(|known| known.project_id == project) {
        true => Ok(()),
        false => Err(no_project(project).into()),
    }
}

fn no_project(project: &str) -> ApiError {
    ApiError::not_found(format!("project `{project}` not found"))
}

/// # Errors
/// 400 for an id that no project can have.
fn check_project_id(project_id: &str) -> Result<(), ApiError> {
    if ProjectId::is_valid(project_id) {
        return Ok(());
    }
    let message = "`project_id` must be 1 to 64 characters of a-z, 0-9 and -";
    Err(ApiError::new(ErrorCode::InvalidBody, message))
}
