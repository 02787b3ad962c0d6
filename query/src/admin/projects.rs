//! Projects: the tenants.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::{ProjectChange, ProjectRecord};
use utoipa::ToSchema;

use super::{instant, refused};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs};
use crate::state::QueryState;

/// A hundred years: more is a slip, and 0 says for ever.
const RETENTION_DAYS_MAX: u32 = 36_500;
/// Apps of one project that are accepted without a key.
const KEYLESS_APPS: usize = 1000;

/// A project.
#[derive(Serialize, ToSchema)]
pub(crate) struct Project {
    /// Its id.
    project_id: String,
    /// App of events that name none.
    default_app: String,
    /// Apps whose events are accepted without a key.
    keyless_app_ids: Vec<String>,
    /// Days after which its data is dropped; 0 keeps it for ever.
    retention_days: u32,
    /// When it was made.
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
            created_at: instant(record.created_at),
        }
    }
}

/// All projects.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProjectList {
    /// By id.
    data: Vec<Project>,
}

/// A project to make or to change. What is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutProject {
    /// Its id.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    project_id: String,
    /// App of events that name none; `default` for a new project.
    #[schema(min_length = 1, max_length = 256)]
    default_app: Option<String>,
    /// Apps whose events are accepted without a key, for old clients that can send none. An app belongs to one
    /// project in this.
    #[schema(value_type = Option<Vec<AppIdText>>, max_items = 1000)]
    keyless_app_ids: Option<Vec<String>>,
    /// Days after which its data is dropped, saved runs apart; 0 keeps it for ever, 30 for a new project.
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
        (status = 200, description = "Those the token reaches", body = ProjectList),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ProjectList>, Refusal> {
    let projects = caller.administered()?;
    pairs.only([])?;
    let found = state.credentials().projects().await?.into_iter();
    let data = found
        .filter(|project| projects.has(&project.project_id))
        .map(Project::from)
        .collect();
    Ok(Json(ProjectList { data }))
}

/// Make or change a project
#[utoipa::path(post, path = "/api/internal/projects", operation_id = "put_project", tag = "administration",
    request_body = PutProject,
    responses(
        (status = 200, description = "The project as it is now", body = Project),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`, or one that does not reach the project", body = FaultBody),
        (status = 409, description = "An app is accepted without a key by another project already", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn put(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<PutProject>,
) -> Result<Json<Project>, Refusal> {
    let projects = caller.administered()?;
    pairs.only([])?;
    check(&body)?;
    if !projects.has(&body.project_id) {
        return Err(Fault::forbidden("this token does not reach that project").into());
    }
    let project = ProjectId::new(body.project_id);
    let change = ProjectChange {
        default_app: body.default_app,
        keyless_app_ids: body.keyless_app_ids,
        retention_days: body.retention_days,
    };
    let changed = state.credentials().change_project(&project, change);
    Ok(Json(Project::from(changed.await.map_err(refused)?)))
}

fn check(body: &PutProject) -> Result<(), Fault> {
    let invalid = |message: String| Err(Fault::bad_request("invalid_body", message));
    if !ProjectId::is_valid(&body.project_id) {
        return invalid("`project_id` has to be 1 to 64 of a-z, 0-9 and -".to_owned());
    }
    let keyless = body.keyless_app_ids.iter().flatten();
    if body
        .default_app
        .iter()
        .chain(keyless)
        .any(|app| app.is_empty() || app.len() > ID_BYTES)
    {
        return invalid(format!("an app id has 1 to {ID_BYTES} bytes"));
    }
    if body
        .retention_days
        .is_some_and(|days| days > RETENTION_DAYS_MAX)
    {
        return invalid(format!(
            "`retention_days` has to be a whole number from 0 to {RETENTION_DAYS_MAX}"
        ));
    }
    if body
        .keyless_app_ids
        .as_ref()
        .is_some_and(|apps| apps.len() > KEYLESS_APPS)
    {
        return invalid(format!("`keyless_app_ids` has at most {KEYLESS_APPS} apps"));
    }
    Ok(())
}
