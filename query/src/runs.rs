//! The run list, one run, and its tree.

use axum::Json;
use axum::extract::State;
use schemas::cursor::Cursor;
use schemas::fault::Fault;
use schemas::filter::RunQuery;
use schemas::run::{Run, RunDetail, RunPage, RunTree};
use store::filter_sql::Projects;
use store::runs_read::RunRecord;

use crate::access::{Caller, is_one};
use crate::detail;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathId, RunFilterParams};
use crate::state::{QueryState, now_ms};

/// List runs
///
/// Every condition that is given must hold. Pages go on with `cursor`: no run twice and none left out while new ones arrive.
#[utoipa::path(
    get,
    path = "/api/run",
    operation_id = "list_runs",
    tag = "runs",
    params(
        RunFilterParams,
        ("sort" = Option<String>, Query, description = "`-started_at` (default), `started_at`, `-latency_s`, `-total_cost`, `-total_tokens`",
            pattern = "^(-started_at|started_at|-latency_s|-total_cost|-total_tokens)$"),
        ("limit" = Option<u32>, Query, description = "Runs on the page, 50 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with the same filter and sort", min_length = 1, max_length = 1024),
        ("count" = Option<bool>, Query, description = "Whether to count all matching runs, up to 10,000"),
    ),
    responses(
        (status = 200, description = "A page", body = RunPage),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant; the message names both and what is allowed", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or the question took too long", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<RunPage>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let query = RunQuery::from_pairs(pairs.iter())?;
    page(&state, &caller, &query).await
}

/// A page of the runs that the caller may read.
pub(crate) async fn page(
    state: &QueryState,
    caller: &Caller,
    query: &RunQuery,
) -> Result<Json<RunPage>, Refusal> {
    let projects = caller.readable(query.project_id.as_deref())?;
    let cursor = query
        .cursor
        .as_deref()
        .map(|text| Cursor::decode(text, query))
        .transpose()?;
    let (store, now_ms) = (state.store(), now_ms());
    let count = async {
        match query.count {
            true => store.count_runs(&projects, query, now_ms).await.map(Some),
            false => Ok(None),
        }
    };
    let (page, count) = tokio::try_join!(
        store.list_runs(&projects, query, cursor.as_ref(), now_ms),
        count
    )?;
    Ok(Json(RunPage {
        data: page
            .runs
            .into_iter()
            .map(|run| shown(run, &projects, now_ms))
            .collect(),
        has_more: page.next.is_some(),
        next_cursor: page.next.map(|cursor| cursor.encode()),
        count: count.map(|count| count.count),
        count_capped: count.map(|count| count.is_capped),
    }))
}

/// One run
///
/// The whole run with input, output, metadata and its events. An id that several apps use means the newest run of it
/// unless `app_id` says which.
#[utoipa::path(
    get,
    path = "/api/run/{run_id}",
    operation_id = "get_run",
    tag = "runs",
    params(
        ("run_id" = String, Path, description = "The run"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The run", body = RunDetail),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There is no such run, or none that the credential reaches", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
) -> Result<Json<RunDetail>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [app_id, project_id] = pairs.only(["app_id", "project_id"])?;
    let projects = caller.readable(project_id)?;
    let found = whole(&state, &projects, app_id, &run_id).await?;
    Ok(Json(found.ok_or_else(no_such_run)?))
}

/// A run and everything below it
#[utoipa::path(
    get,
    path = "/api/run/{run_id}/tree",
    operation_id = "get_run_tree",
    tag = "runs",
    params(
        ("run_id" = String, Path, description = "The run"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The run and its descendants, at most 10,000", body = RunTree),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There is no such run, or none that the credential reaches", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn tree(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
) -> Result<Json<RunTree>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [app_id, project_id] = pairs.only(["app_id", "project_id"])?;
    let projects = caller.readable(project_id)?;
    let found = state.store().runs_by_id(&projects, app_id, &run_id).await?;
    let run = found.into_iter().next().ok_or_else(no_such_run)?;
    let tree = state.store().tree(run).await?;
    let now_ms = now_ms();
    Ok(Json(RunTree {
        run_id,
        data: tree
            .runs
            .into_iter()
            .map(|run| shown(run, &projects, now_ms))
            .collect(),
        truncated: tree.truncated,
    }))
}

/// The whole run of an id, if there is one in these projects.
pub(crate) async fn whole(
    state: &QueryState,
    projects: &Projects,
    app_id: Option<&str>,
    run_id: &str,
) -> Result<Option<RunDetail>, Refusal> {
    let mut found = state
        .store()
        .runs_by_id(projects, app_id, run_id)
        .await?
        .into_iter();
    let Some(run) = found.next() else {
        return Ok(None);
    };
    let also_in_apps = found
        .filter(|other| other.project_id == run.project_id)
        .map(|other| other.app_id)
        .collect();
    let at = (run.project_id.as_str(), run.app_id.as_str());
    let (events, feedback) = tokio::try_join!(
        detail::events(state.store(), &run),
        state.store().feedback_history(at, &run.run_id)
    )?;
    let mut detail = detail::assemble(run, events, feedback, now_ms());
    detail.run = with_project(detail.run, projects);
    detail.also_in_apps = also_in_apps;
    Ok(Some(detail))
}

fn no_such_run() -> Refusal {
    Fault::not_found("there is no such run, or it is not yours to see").into()
}

pub(crate) fn shown(run: RunRecord, projects: &Projects, now_ms: i64) -> Run {
    with_project(run.into_run(now_ms), projects)
}

/// Names the project only where the caller reaches more than one.
pub(crate) fn with_project(mut run: Run, projects: &Projects) -> Run {
    if is_one(projects) {
        run.project_id = None;
    }
    run
}
