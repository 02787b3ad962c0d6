//! `/api/internal/projects`: the tenants.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::ids::ProjectId;
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::Credentials;
use store::credentials::{ProjectChange, ProjectRecord};
use utoipa::ToSchema;

use super::{change_error, check_project_id};
use crate::access::{Caller, check_reached};
use crate::params::{JsonBody, Pairs};

/// A hundred years; 0 keeps data for ever.
const RETENTION_DAYS_MAX: u32 = 36_500;
/// Most keyless apps of one project (X1).
const KEYLESS_APPS: usize = 1000;

/// A project.
#[derive(Serialize, ToSchema)]
pub(crate) struct Project {
    project_id: String,
    /// App of events that do not name one.
    default_app: String,
    /// Apps whose events are accepted without a key.
    keyless_app_ids: Vec<String>,
    /// Days after which its data is dropped; 0 keeps it for ever.
    retention_days: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
}

impl From<ProjectRecord> for Project {
    fn from(record: ProjectRecord) -> Self {
        Self {
            project_id: record.project_id,
            default_app: record.default_app,
            keyless_app_ids: record.keyless_app_ids,
            retention_days: record.retention_days,
            created_at: Instant(record.created_at),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ProjectList {
    /// By id.
    data: Vec<Project>,
}

/// A project to create or change. Fields that are left out keep their value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutProject {
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    project_id: String,
    /// App of events that do not name one; `default` for a new project.
    #[schema(min_length = 1, max_length = 256)]
    default_app: Option<String>,
    /// Apps whose events are accepted without a key, for old clients that send none. Each app can be keyless in one
    /// project only.
    #[schema(value_type = Option<Vec<AppIdText>>, max_items = 1000)]
    keyless_app_ids: Option<Vec<String>>,
    /// Days after which data is dropped, except saved runs; 0 keeps it for ever. Default 30.
    #[schema(maximum = 36500)]
    retention_days: Option<u32>,
}

/// An app id.
#[derive(ToSchema)]
#[schema(min_length = 1, max_length = 256)]
#[allow(
    dead_code,
    reason = "documents the items of a list, which an attribute on the list cannot"
)]
pub(crate) struct AppIdText(String);

/// List projects
#[utoipa::path(get, path = "/api/internal/projects", operation_id = "list_projects", tag = "administration",
    responses(
        (status = 200, description = "Projects that the token reaches", body = ProjectList),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ProjectList>, ErrorResponse> {
    let projects = caller.administered()?;
    pairs.only([])?;
    let found = credentials.projects().await?.into_iter();
    let data = found
        .filter(|project| projects.has(&project.project_id))
        .map(Project::from)
        .collect();
    Ok(Json(ProjectList { data }))
}

/// Create or change a project
#[utoipa::path(post, path = "/api/internal/projects", operation_id = "put_project", tag = "administration",
    request_body = PutProject,
    responses(
        (status = 200, description = "The project after the change", body = Project),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::Conflict)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn put(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<PutProject>,
) -> Result<Json<Project>, ErrorResponse> {
    let projects = caller.administered()?;
    pairs.only([])?;
    check(&body)?;
    check_reached(&projects, &body.project_id)?;
    let project = ProjectId::new(body.project_id);
    let change = ProjectChange {
        default_app: body.default_app,
        keyless_app_ids: body.keyless_app_ids,
        retention_days: body.retention_days,
    };
    let changed = credentials.change_project(&project, change);
    Ok(Json(Project::from(changed.await.map_err(change_error)?)))
}

fn check(body: &PutProject) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidBody, message));
    check_project_id(&body.project_id)?;
    let keyless = body.keyless_app_ids.iter().flatten();
    if body
        .default_app
        .iter()
        .chain(keyless)
        .any(|app| app.is_empty() || app.len() > ID_BYTES)
    {
        return invalid(format!("app ids must have 1 to {ID_BYTES} bytes"));
    }
    if body
        .retention_days
        .is_some_and(|days| days > RETENTION_DAYS_MAX)
    {
        return invalid(format!(
            "`retention_days` must be a whole number from 0 to {RETENTION_DAYS_MAX}"
        ));
    }
    if body
        .keyless_app_ids
        .as_ref()
        .is_some_and(|apps| apps.len() > KEYLESS_APPS)
    {
        return invalid(format!(
            "`keyless_app_ids` must have at most {KEYLESS_APPS} apps"
        ));
    }
    Ok(())
}
