//! Registering builds with their processes, and looking at what is registered.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::Serialize;
use serde_json::json;
use store::StoreError;
use store::builds::{BUILDS_LISTED_MAX, BuildRecord, BuildSummary, NewBuild};
use store::filter_sql::Projects;
use utoipa::ToSchema;

use super::check_text;
use super::definition::{Definition, Process, PutBuild};
use crate::access::{Caller, is_one};
use crate::error::{FaultBody, Refusal};
use crate::params::{LargeJsonBody, Pairs, PathId, PathIds};
use crate::state::{QueryState, now_ms};

/// The project that is meant where a token reaches them all and none is given.
pub(super) const USUAL_PROJECT: &str = "default";

/// How long the schemas of one build are checked and compiled: 4 MiB of them take some seconds.
pub(super) const CHECK_TIME: Duration = Duration::from_secs(10);

/// A build as it is registered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Build {
    /// Its project.
    project_id: String,
    /// Its application.
    app_id: String,
    /// Its id.
    build_id: String,
    /// Its status.
    status: String,
    /// The workspace it was made in.
    #[schema(required)]
    workspace_id: Option<String>,
    /// The parent application.
    #[schema(required)]
    parent_application_id: Option<String>,
    /// The root application.
    #[schema(required)]
    root_application_id: Option<String>,
    /// The processes that can be started in it.
    processes: Vec<Process>,
    /// When it was registered last.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Instant,
    /// Public identifier of the token it was registered with.
    changed_by: String,
}

/// A build in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildInList {
    /// Its project.
    project_id: String,
    /// Its application.
    app_id: String,
    /// Its id.
    build_id: String,
    /// Its status.
    status: String,
    /// Names of its processes.
    processes: Vec<String>,
    /// When it was registered last.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Instant,
    /// Public identifier of the token it was registered with.
    changed_by: String,
}

/// Builds of an app.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BuildList {
    /// Those registered last first.
    data: Vec<BuildInList>,
    /// Whether there are more than these 200.
    truncated: bool,
}

impl Build {
    fn of(record: BuildRecord) -> Result<Self, Refusal> {
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
/// With the processes that can be started in it. Starts that begin after the answer go by it; on other servers of a
/// deployment they do within a second. Instances that were started stay as they are.
#[utoipa::path(
    put,
    path = "/api/platform/app/{appId}/build/{buildId}",
    operation_id = "put_build",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application, up to 256 bytes", min_length = 1, max_length = 256),
        ("buildId" = String, Path, description = "Build, up to 256 bytes", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "Its project; the only one the token reaches, or `default`, unless given", min_length = 1, max_length = 256),
    ),
    request_body = PutBuild,
    responses(
        (status = 200, description = "The build as it is registered", body = Build),
        (status = 400, description = "The body does not fit; the message names the place", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`, or one that does not reach the project", body = FaultBody),
        (status = 404, description = "There is no such project", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 429, description = "The project has too many schemas being checked", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The schemas took too long to check, or the database is away", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn put(
    State(state): State<QueryState>,
    caller: Caller,
    PathIds([app_id, build_id]): PathIds<2>,
    pairs: Pairs,
    LargeJsonBody(body): LargeJsonBody<PutBuild>,
) -> Result<Json<Build>, Refusal> {
    let administered = caller.administered()?;
    let [project_id] = pairs.only(["project_id"])?;
    check_text("appId", &app_id, ID_BYTES)?;
    check_text("buildId", &build_id, ID_BYTES)?;
    let project_id = project_of(&administered, project_id)?;
    let mut known = state.credentials().projects().await?.into_iter();
    if !known.any(|project| project.project_id == project_id) {
        return Err(Fault::not_found(format!("there is no project `{project_id}`")).into());
    }
    let status = body.status.clone();
    let of = (project_id.clone(), app_id.clone());
    let checked = move |deadline| Definition::of(body, (&of.0, &of.1), deadline);
    let definition = state
        .checks()
        .run(&project_id, CHECK_TIME, checked)
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
    let builds = &state.registry().builds;
    builds.put(build).await.map_err(|error| match error {
        StoreError::Invalid(message) => Fault::bad_request("too_many_builds", message).into(),
        error => Refusal::from(error),
    })?;
    tracing::info!(
        project.id = project_id,
        app.id = app_id,
        build.id = build_id,
        credential.id = id,
        "a build was registered"
    );
    registered(
        &state,
        (&app_id, &build_id),
        &Projects::Only(vec![project_id]),
    )
    .await
}

/// One build
#[utoipa::path(
    get,
    path = "/api/platform/app/{appId}/build/{buildId}",
    operation_id = "get_build",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application"),
        ("buildId" = String, Path, description = "Build"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches; needed where several have the pair", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The build with its processes and their schemas", body = Build),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The API key lacks the scope `read`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such build, or none that the credential reaches", body = FaultBody),
        (status = 409, description = "Several projects have the pair: give `project_id`", body = FaultBody),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathIds([app_id, build_id]): PathIds<2>,
    pairs: Pairs,
) -> Result<Json<Build>, Refusal> {
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.reached(project_id)?;
    registered(&state, (&app_id, &build_id), &projects).await
}

/// List builds of an app
#[utoipa::path(
    get,
    path = "/api/platform/app/{appId}/build",
    operation_id = "list_builds",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The 200 that were registered last, without schemas", body = BuildList),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The API key lacks the scope `read`, or the project is another", body = FaultBody),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(app_id): PathId,
    pairs: Pairs,
) -> Result<Json<BuildList>, Refusal> {
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.reached(project_id)?;
    let found = state.registry().builds.of_app(&app_id, &projects).await?;
    let truncated = found.len() > BUILDS_LISTED_MAX;
    let shown = |build: BuildSummary| BuildInList {
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
            .map(shown)
            .collect(),
        truncated,
    }))
}

async fn registered(
    state: &QueryState,
    (app_id, build_id): (&str, &str),
    projects: &Projects,
) -> Result<Json<Build>, Refusal> {
    let builds = &state.registry().builds;
    let mut found = builds.of_pair(app_id, build_id, projects).await?;
    match (found.pop(), found.is_empty()) {
        (Some(build), true) => Ok(Json(Build::of(build)?)),
        (None, _) => {
            let message = format!("there is no build `{build_id}` of an app `{app_id}`");
            Err(Fault::not_found(message).into())
        }
        (Some(_), false) => {
            let message = format!(
                "several projects have a build `{build_id}` of an app `{app_id}`; say which is meant by `project_id`"
            );
            Err(Fault::new(409, "ambiguous_project", message).into())
        }
    }
}

/// The project that a build is registered in.
fn project_of(administered: &Projects, given: Option<&str>) -> Result<String, Fault> {
    match (given, administered) {
        (Some(given), all) if all.has(given) => Ok(given.to_owned()),
        (Some(_), _) => Err(Fault::forbidden("this token does not reach that project")),
        (None, Projects::Only(projects)) if is_one(administered) => Ok(projects.concat()),
        (None, all) if all.has(USUAL_PROJECT) => Ok(USUAL_PROJECT.to_owned()),
        (None, _) => Err(Fault::bad_request(
            "missing_parameter",
            "this token reaches several projects; say which is meant by `project_id`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_belongs_to_the_project_that_is_given_or_the_only_one_or_the_usual_one() {
        let only = |projects: &[&str]| {
            Projects::Only(projects.iter().map(|one| (*one).to_owned()).collect())
        };
        let of = |all: &Projects, given| project_of(all, given).map_err(|fault| fault.status);
        assert_eq!(of(&Projects::All, None), Ok("default".to_owned()));
        assert_eq!(of(&Projects::All, Some("a")), Ok("a".to_owned()));
        assert_eq!(of(&only(&["a"]), None), Ok("a".to_owned()));
        assert_eq!(of(&only(&["a", "default"]), None), Ok("default".to_owned()));
        assert_eq!(of(&only(&["a", "b"]), None), Err(400));
        assert_eq!(of(&only(&["a", "b"]), Some("b")), Ok("b".to_owned()));
        assert_eq!(of(&only(&["a"]), Some("default")), Err(403));
    }
}
