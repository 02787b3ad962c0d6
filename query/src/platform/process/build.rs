//! `/api/platform/app/{appId}/build`: register and read builds.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::Serialize;
use serde_json::json;
use store::StoreError;
use store::platform::builds::{BUILDS_LISTED_MAX, BuildRecord, BuildSummary, NewBuild};
use store::reads::filter_sql::Projects;
use utoipa::ToSchema;

use super::definition::{CHECK_TIME, Definition, Process, PutBuild};
use super::{
    AppPath, BuildParams, BuildPath, DEFAULT_PROJECT, ProcessState, ambiguous, build_not_found,
    check_text,
};
use crate::access::{Caller, check_reached, is_one};
use crate::admin::check_exists;
use crate::clock::now_ms;
use crate::params::{JsonBody, LARGE_BODY_BYTES, Pairs, ProjectParams, Text, query_params};

query_params! {
    pub(crate) struct PutBuildParams {
        /// Project of the build; by default the only one that the token reaches, or `default`
        project_id: Text,
    }
}

/// A registered build.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Build {
    project_id: String,
    app_id: String,
    build_id: String,
    status: String,
    #[schema(required)]
    workspace_id: Option<String>,
    #[schema(required)]
    parent_application_id: Option<String>,
    #[schema(required)]
    root_application_id: Option<String>,
    processes: Vec<Process>,
    /// Time of the last registration.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Instant,
    /// Public identifier of the token of the last registration.
    changed_by: String,
}

/// A build in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildInList {
    project_id: String,
    app_id: String,
    build_id: String,
    status: String,
    /// Names of the processes.
    processes: Vec<String>,
    /// Time of the last registration.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Instant,
    /// Public identifier of the token of the last registration.
    changed_by: String,
}

/// The builds of an app.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BuildList {
    /// Latest registration first.
    data: Vec<BuildInList>,
    /// Whether more than these 200 exist.
    truncated: bool,
}

impl Build {
    fn of(record: BuildRecord) -> Result<Self, ErrorResponse> {
        let definition: Definition = serde_json::from_str(&record.definition)
            .map_err(|error| StoreError::Shape(format!("a build: {error}")))?;
        Ok(Self {
            project_id: record.project_id,
            app_id: record.app_id,
            build_id: record.build_id,
            status: record.status,
            workspace_id: definition.workspace_id,
            parent_application_id: definition.parent_application_id,
            root_application_id: definition.root_application_id,
            processes: definition.processes,
            changed_at: Instant(record.changed_at),
            changed_by: record.changed_by,
        })
    }
}

/// Register a build
///
/// Registers or replaces a build with its processes. It applies to starts after the answer, on other servers of the
/// deployment within a second. Started instances do not change.
#[utoipa::path(
    put,
    path = "/api/platform/app/{appId}/build/{buildId}",
    operation_id = "put_build",
    tag = "platform",
    params(
                BuildPath, PutBuildParams,
    ),
    request_body = PutBuild,
    responses(
        (status = 200, description = "The registered build", body = Build),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound, errors::Registration)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn put(
    State(state): State<ProcessState>,
    caller: Caller,
    BuildPath { app_id, build_id }: BuildPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<PutBuild, LARGE_BODY_BYTES>,
) -> Result<Json<Build>, ErrorResponse> {
    let administered = caller.administered()?;
    let PutBuildParams { project_id } = PutBuildParams::read(&pairs)?;
    check_text("appId", &app_id, ID_BYTES)?;
    check_text("buildId", &build_id, ID_BYTES)?;
    let project_id = project_of(&administered, project_id)?;
    check_exists(&state.credentials, &project_id).await?;
    let status = body.status.clone();
    let (project, app) = (project_id.clone(), app_id.clone());
    let check = move |deadline| Definition::of(body, &project, &app, deadline);
    let definition = state
        .runtime
        .validations
        .run(&project_id, CHECK_TIME, check)
        .await??;
    let definition = json!(definition).to_string();
    let id = caller.credential().id();
    let build = NewBuild {
        project_id: &project_id,
        app_id: &app_id,
        build_id: &build_id,
        status: &status,
        definition: &definition,
        changed_by: id,
        now_ms: now_ms(),
    };
    let builds = &state.runtime.registry.stored;
    builds.put(build).await.map_err(|error| match error {
        StoreError::Invalid(message) => ApiError::new(ErrorCode::TooManyBuilds, message).into(),
        error => ErrorResponse::from(error),
    })?;
    tracing::info!(
        project.id = project_id,
        app.id = app_id,
        build.id = build_id,
        credential.id = id,
        "a build was registered"
    );
    let projects = Projects::Only(vec![project_id]);
    registered(&state, &app_id, &build_id, &projects).await
}

/// Get a build
#[utoipa::path(
    get,
    path = "/api/platform/app/{appId}/build/{buildId}",
    operation_id = "get_build",
    tag = "platform",
    params(
                BuildPath, BuildParams,
    ),
    responses(
        (status = 200, description = "The build with its processes and schemas", body = Build),
        errors::AnyOf<(errors::Common, errors::NotFound, errors::Ambiguous)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<ProcessState>,
    caller: Caller,
    BuildPath { app_id, build_id }: BuildPath,
    pairs: Pairs,
) -> Result<Json<Build>, ErrorResponse> {
    let BuildParams { project_id } = BuildParams::read(&pairs)?;
    let projects = caller.reachable(project_id.as_deref())?;
    registered(&state, &app_id, &build_id, &projects).await
}

/// List the builds of an app
#[utoipa::path(
    get,
    path = "/api/platform/app/{appId}/build",
    operation_id = "list_builds",
    tag = "platform",
    params(
                AppPath, ProjectParams,
    ),
    responses(
        (status = 200, description = "The 200 latest registrations, without schemas", body = BuildList),
        errors::Common,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<ProcessState>,
    caller: Caller,
    AppPath { app_id }: AppPath,
    pairs: Pairs,
) -> Result<Json<BuildList>, ErrorResponse> {
    check_text("appId", &app_id, ID_BYTES)?;
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.reachable(project_id.as_deref())?;
    let found = state
        .runtime
        .registry
        .stored
        .of_app(&app_id, &projects)
        .await?;
    let truncated = found.len() > BUILDS_LISTED_MAX;
    let entry = |build: BuildSummary| BuildInList {
        project_id: build.project_id,
        app_id: app_id.clone(),
        build_id: build.build_id,
        status: build.status,
        processes: build.processes,
        changed_at: Instant(build.changed_at),
        changed_by: build.changed_by,
    };
    Ok(Json(BuildList {
        data: found
            .into_iter()
            .take(BUILDS_LISTED_MAX)
            .map(entry)
            .collect(),
        truncated,
    }))
}

async fn registered(
    state: &ProcessState,
    app_id: &str,
    build_id: &str,
    projects: &Projects,
) -> Result<Json<Build>, ErrorResponse> {
    let builds = &state.runtime.registry.stored;
    let mut found = builds.of_pair(app_id, build_id, projects).await?;
    match (found.pop(), &found[..]) {
        (Some(build), []) => Ok(Json(Build::of(build)?)),
        (None, _) => Err(build_not_found(app_id, build_id).into()),
        (Some(last), others) => {
            let projects = others.iter().chain([&last]);
            let projects = projects.map(|build| build.project_id.as_str());
            Err(ambiguous(app_id, build_id, projects).into())
        }
    }
}

/// The project in which a build is registered.
fn project_of(administered: &Projects, chosen: Option<String>) -> Result<String, ApiError> {
    match (chosen, administered) {
        (Some(chosen), all) => {
            check_reached(all, &chosen)?;
            Ok(chosen)
        }
        (None, Projects::Only(projects)) if is_one(administered) => Ok(projects.concat()),
        (None, all) if all.has(DEFAULT_PROJECT) => Ok(DEFAULT_PROJECT.to_owned()),
        (None, _) => Err(ApiError::new(
            ErrorCode::MissingParameter,
            "`project_id` is required: this token reaches several projects",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_belongs_to_the_selected_project_or_the_only_one_or_the_default_one() {
        let only = |projects: &[&str]| {
            Projects::Only(projects.iter().map(|one| (*one).to_owned()).collect())
        };
        let of = |all: &Projects, chosen: Option<&str>| {
            project_of(all, chosen.map(str::to_owned)).map_err(|error| error.status)
        };
        assert_eq!(of(&Projects::All, None), Ok("default".to_owned()));
        assert_eq!(of(&Projects::All, Some("a")), Ok("a".to_owned()));
        assert_eq!(of(&only(&["a"]), None), Ok("a".to_owned()));
        assert_eq!(of(&only(&["a", "default"]), None), Ok("default".to_owned()));
        assert_eq!(of(&only(&["a", "b"]), None), Err(400));
        assert_eq!(of(&only(&["a", "b"]), Some("b")), Ok("b".to_owned()));
        assert_eq!(of(&only(&["a"]), Some("default")), Err(403));
    }
}
