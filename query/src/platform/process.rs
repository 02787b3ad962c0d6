//! Builds with their processes, process starts, and process instances.
//!
//! The body of a start is validated against the schema of its process; the answer is sent after the start is durable in
//! the log. Start reading at `start.rs`; the reasons are in docs/decisions/0019-process-start.md.

pub(crate) mod build;
mod checks;
pub(crate) mod definition;
pub mod headers;
mod idempotency;
pub(crate) mod instance;
mod key;
mod registry;
mod schema;
pub(crate) mod start;
mod start_memory;
mod starts;

use std::sync::Arc;

use schemas::api_error::{ApiError, ErrorCode};
use schemas::credential::Role;
use schemas::filter::Shape;
use schemas::limits::ID_BYTES;
use serde_json::json;
use store::Store;
use store::credentials::Credentials;
use store::platform::builds::Builds;
use store::platform::instances::Instances;
use utoipa::openapi::schema::Schema;

pub(crate) use registry::Registry;

use checks::Validations;
use starts::Starts;

use crate::access::Caller;
use crate::params::{Text, path_params, query_params, schema_of};
use crate::ports::Port;
use crate::ports::reporter::Reporter;

/// The project of registrations without `project_id` by tokens that reach several.
const DEFAULT_PROJECT: &str = "default";

/// Projects in the error of an ambiguous build.
const PROJECTS_NAMED: usize = 10;

path_params! {
    pub(crate) struct AppPath {
        /// Application, up to 256 bytes
        "appId" app_id: id_schema(),
    }
}

path_params! {
    pub(crate) struct BuildPath {
        /// Application, up to 256 bytes
        "appId" app_id: id_schema(),
        /// Build, up to 256 bytes
        "buildId" build_id: id_schema(),
    }
}

path_params! {
    pub(crate) struct ProcessPath {
        /// Application; it forms a pair with the build
        "appId" app_id: id_schema(),
        /// Build
        "buildId" build_id: id_schema(),
        /// Name of the process, any characters; `/` as `%2F`
        "processDefinitionName" process: schema_of(Shape::Text(definition::PROCESS_NAME_BYTES)),
    }
}

query_params! {
    pub(crate) struct BuildParams {
        /// One of the projects that the credential reaches; required if several of them have the build
        project_id: Text,
    }
}

fn id_schema() -> Schema {
    schema_of(Shape::Text(ID_BYTES))
}

fn build_not_found(app_id: &str, build_id: &str) -> ApiError {
    let message = format!("build `{build_id}` of app `{app_id}` not found");
    ApiError::not_found(message).with_details(json!({"unknown": "appId/buildId"}))
}

/// The 409 for a build of several projects.
fn ambiguous<'a>(
    app_id: &str,
    build_id: &str,
    projects: impl Iterator<Item = &'a str>,
) -> ApiError {
    let message = format!(
        "several projects have a build `{build_id}` of an app `{app_id}`; select one with `project_id`"
    );
    let projects: Vec<&str> = projects.take(PROJECTS_NAMED).collect();
    ApiError::new(ErrorCode::AmbiguousProject, message).with_details(json!({"projects": projects}))
}

#[derive(Clone)]
pub(crate) struct ProcessState {
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    pub(crate) reporter: Port<dyn Reporter>,
    pub(crate) runtime: ProcessRuntime,
}

/// State between requests. Clones share it.
#[derive(Clone)]
pub(crate) struct ProcessRuntime {
    pub(crate) registry: Arc<Registry>,
    validations: Validations,
    starts: Arc<Starts>,
}

impl ProcessRuntime {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            registry: Arc::new(Registry::new(Builds::new(store.clone()))),
            validations: Validations::new(),
            starts: Arc::new(Starts::new(Instances::new(store.clone()))),
        }
    }
}

/// # Errors
/// 400 unless `value` has 1 to `max` bytes.
fn check_text(field: &str, value: &str, max: usize) -> Result<(), ApiError> {
    if (1..=max).contains(&value.len()) {
        return Ok(());
    }
    let message = format!("`{field}` must have 1 to {max} bytes, got {}", value.len());
    Err(ApiError::new(ErrorCode::InvalidValue, message).with_details(json!({"field": field})))
}

/// Whether the caller may start a process with these allowed roles, built-in roles or roles of the identity provider. An
/// empty list allows every caller who may start processes, and an admin may start all.
fn may_start(caller: &Caller, roles: &[String]) -> bool {
    roles.is_empty()
        || caller.covers(Role::Admin)
        || roles.iter().any(|role| caller.holds_role_named(role))
}
