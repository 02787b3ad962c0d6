//! Jobs: create, follow and cancel them. The processor runs them; see `store::jobs`.

mod body;

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::{instant_ms, invalid_parameter};
use schemas::job;
use schemas::limits::{ID_BYTES, NAME_BYTES};
use store::Store;
use store::credentials::Credentials;
use store::jobs::{Asked, JOBS_LISTED_MAX, JobKind, NewJob, QUEUED_MAX};
use store::prices::Prices;
use store::reads::filter_sql::Projects;

use super::check_exists;
use crate::access::{Caller, check_reached};
use crate::clock::now_ms;
use crate::params::{IdPath, JsonBody, Limit, Pairs, query_params};
pub(crate) use body::{Job, JobList, RebuildBody, RecalculateBody, RetentionBody};

#[derive(Clone)]
pub(crate) struct JobState {
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    pub(crate) prices: Prices,
}

/// Default length of the list.
const JOBS_LISTED: usize = 50;
/// Seconds after which a client can retry when the queue is full.
const QUEUE_RETRY_S: u32 = 60;

query_params! {
    pub(crate) struct JobListParams {
        /// Largest number of jobs, default 50
        limit: Limit<{ JOBS_LISTED_MAX as usize }>,
    }
}

/// Recalculate costs
///
/// For use after a change of the price table. Costs that clients reported do not change; totals of ancestors are
/// recomputed. Safe to repeat, and while events are reported.
#[utoipa::path(post, path = "/api/internal/cost/recalculate", operation_id = "recalculate_cost", tag = "jobs",
    request_body = Option<RecalculateBody>,
    responses(
        (status = 202, description = "The job, queued; an equal request that waits is the same job", body = Job),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound, errors::JobQueue, errors::JobFilter)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn recalculate(
    State(state): State<JobState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<RecalculateBody>>,
) -> Result<(StatusCode, Json<Job>), ErrorResponse> {
    let reached = caller.administered()?;
    pairs.only([])?;
    let body = body.unwrap_or_default();
    let project = match (&body.project_id, &reached) {
        (Some(project), _) => {
            check_project(&state, &reached, project).await?;
            Some(project.clone())
        }
        (None, Projects::All) => None,
        (None, Projects::Only(projects)) => match &projects[..] {
            [project] => Some(project.clone()),
            _ => {
                let message =
                    "`project_id` is required: this token reaches several projects, but not all";
                return Err(ApiError::new(ErrorCode::InvalidBody, message).into());
            }
        },
    };
    let time = |name: &str, value: &Option<String>| match value {
        None => Ok(None),
        Some(text) => instant_ms(text).map(Some).ok_or_else(|| {
            invalid_parameter(
                name,
                text,
                "an ISO 8601 time, for example 2026-11-20T10:00:00Z",
            )
        }),
    };
    let (from_ms, to_ms) = (time("from", &body.from)?, time("to", &body.to)?);
    if from_ms.zip(to_ms).is_some_and(|(from, to)| from > to) {
        let message = "`from` must not be later than `to`";
        return Err(ApiError::new(ErrorCode::InvalidBody, message).into());
    }
    check_text("app_id", &body.app_id, ID_BYTES)?;
    check_text("model", &body.model, NAME_BYTES)?;
    check_known(&state, &reached, project.as_deref(), &body).await?;
    let parameters = job::Recalculate {
        from_ms,
        to_ms,
        app_id: body.app_id,
        model: body.model,
        dry_run: body.dry_run,
    };
    create(&state, JobKind::Recalculate, project, &parameters).await
}

/// Run retention
///
/// Drops data that is older than its project's retention. Saved runs are kept, with their descendants and ancestors. It
/// also runs on a schedule; see the settings of `[retention]`. When the server's clock jumps forward, the time from
/// which ages are computed follows by at most one day per day; the report contains that time, and `trust_clock` uses
/// the clock instead.
#[utoipa::path(post, path = "/api/internal/retention", operation_id = "run_retention", tag = "jobs",
    request_body = Option<RetentionBody>,
    responses(
        (status = 202, description = "The job, queued; an equal request that waits is the same job", body = Job),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::JobQueue)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn retention(
    State(state): State<JobState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<RetentionBody>>,
) -> Result<(StatusCode, Json<Job>), ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let body = body.unwrap_or_default();
    let parameters = job::Retention {
        dry_run: body.dry_run,
        trust_clock: body.trust_clock,
    };
    create(&state, JobKind::Retention, None, &parameters).await
}

/// Rebuild the runs
///
/// Folds the stored events into a second table of runs while reporting goes on, compares the two, and replaces the old
/// table unless `check_only` is set.
#[utoipa::path(post, path = "/api/internal/rebuild", operation_id = "rebuild", tag = "jobs",
    request_body = Option<RebuildBody>,
    responses(
        (status = 202, description = "The job, queued; an equal request that waits is the same job", body = Job),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound, errors::JobQueue)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn rebuild(
    State(state): State<JobState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<RebuildBody>>,
) -> Result<(StatusCode, Json<Job>), ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let body = body.unwrap_or_default();
    if let Some(project) = &body.project {
        if !body.check_only {
            let message =
                "`project` requires `check_only`: the table of runs is replaced as a whole";
            return Err(ApiError::new(ErrorCode::InvalidBody, message).into());
        }
        check_project(&state, &Projects::All, project).await?;
    }
    let kind = match body.check_only {
        true => JobKind::Check,
        false => JobKind::Rebuild,
    };
    let parameters = job::Rebuild {
        project_id: body.project,
    };
    // The deployment has one second table, so these jobs have no project.
    create(&state, kind, None, &parameters).await
}

/// List jobs
#[utoipa::path(get, path = "/api/internal/jobs", operation_id = "list_jobs", tag = "jobs",
    params(JobListParams),
    responses(
        (status = 200, description = "Jobs of the projects that the token reaches, newest first", body = JobList),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<JobState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<JobList>, ErrorResponse> {
    let reached = caller.administered()?;
    let params = JobListParams::read(&pairs)?;
    let limit = params.limit.unwrap_or(JOBS_LISTED) as u64;
    let projects = match &reached {
        Projects::All => None,
        Projects::Only(projects) => Some(&projects[..]),
    };
    let jobs = state.store.jobs();
    let queue = jobs.queue().await?;
    let found = jobs.list(projects, limit).await?;
    let job = |job: store::jobs::Job| {
        let place = queue.place(&job.job_id);
        Job::of(job, place)
    };
    let data = found.into_iter().map(job).collect();
    Ok(Json(JobList { data }))
}

/// Get a job
#[utoipa::path(get, path = "/api/internal/jobs/{id}", operation_id = "get_job", tag = "jobs",
    params(IdPath),
    responses(
        (status = 200, description = "The job", body = Job),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn one(
    State(state): State<JobState>,
    caller: Caller,
    IdPath { id }: IdPath,
    pairs: Pairs,
) -> Result<Json<Job>, ErrorResponse> {
    let reached = caller.administered()?;
    pairs.only([])?;
    let queue = state.store.jobs().queue().await?;
    let found = find(&state, &reached, &id).await?;
    Ok(Json(Job::of(found, queue.place(&id))))
}

/// Cancel a job
///
/// A queued job never starts. A running job stops after its current piece of work; earlier changes stay. A job that has
/// ended does not change.
#[utoipa::path(post, path = "/api/internal/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs",
    params(IdPath),
    responses(
        (status = 200, description = "The job after the request", body = Job),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn cancel(
    State(state): State<JobState>,
    caller: Caller,
    IdPath { id }: IdPath,
    pairs: Pairs,
) -> Result<Json<Job>, ErrorResponse> {
    let reached = caller.administered()?;
    pairs.only([])?;
    find(&state, &reached, &id).await?;
    let cancelled = state.store.jobs().cancel(&id, now_ms()).await?;
    Ok(Json(Job::over(cancelled.ok_or_else(|| no_job(&id))?)))
}

/// # Errors
/// 429 when the queue is full.
async fn create(
    state: &JobState,
    kind: JobKind,
    project_id: Option<String>,
    parameters: &impl serde::Serialize,
) -> Result<(StatusCode, Json<Job>), ErrorResponse> {
    let new = NewJob {
        kind,
        project_id,
        parameters: serde_json::to_string(parameters).map_err(|_| ApiError::internal())?,
    };
    match state.store.jobs().create(new, now_ms()).await? {
        Asked::Made(job, place) | Asked::Same(job, place) => {
            Ok((StatusCode::ACCEPTED, Json(Job::of(job, place))))
        }
        Asked::Full => {
            let message = format!(
                "too many jobs are queued, at most {QUEUED_MAX} of a project; wait for one or cancel it"
            );
            Err(ApiError::new(ErrorCode::TooManyJobs, message)
                .with_retry_after(QUEUE_RETRY_S)
                .into())
        }
    }
}

async fn find(
    state: &JobState,
    reached: &Projects,
    id: &str,
) -> Result<store::jobs::Job, ErrorResponse> {
    let found = state.store.jobs().get(id).await?;
    Ok(found
        .filter(|job| reached.has(&job.project_id))
        .ok_or_else(|| no_job(id))?)
}

fn no_job(id: &str) -> ApiError {
    ApiError::not_found(format!("job `{id}` not found"))
}

async fn check_project(
    state: &JobState,
    reached: &Projects,
    project: &str,
) -> Result<(), ErrorResponse> {
    check_reached(reached, project)?;
    check_exists(&state.credentials, project).await
}

fn check_text(name: &str, value: &Option<String>, bytes: usize) -> Result<(), ApiError> {
    match value {
        Some(text) if text.is_empty() || text.len() > bytes => Err(invalid_parameter(
            name,
            text,
            &format!("text of 1 to {bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

/// Rejects unknown apps and models: they are nearly always typing errors, and the job would silently do nothing.
async fn check_known(
    state: &JobState,
    reached: &Projects,
    project: Option<&str>,
    body: &RecalculateBody,
) -> Result<(), ErrorResponse> {
    let app = body.app_id.as_deref();
    let model = body.model.as_deref();
    if let Some(app) = app
        && !state.store.is_app_used(project, app).await?
    {
        let known = state.credentials.projects().await?;
        // Only in the projects of the job, and never in one that the token does not reach (T1).
        let is_known = known.iter().any(|known| {
            known.default_app == app
                && reached.has(&known.project_id)
                && project.is_none_or(|project| project == known.project_id)
        });
        if !is_known {
            let message = format!("`app_id` is `{app}`, but no run has this app");
            return Err(ApiError::new(ErrorCode::UnknownApp, message).into());
        }
    }
    if let Some(model) = model
        && state.prices.current().rates(model, now_ms()).is_none()
        && !state.store.is_model_used(project, model).await?
    {
        let message = format!("`model` is `{model}`, but no run and no price has this model");
        return Err(ApiError::new(ErrorCode::UnknownModel, message).into());
    }
    Ok(())
}
