//! Long work: asking for it, following it, ending it. The processor does it; see `store::jobs`.

mod body;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::fault::Fault;
use schemas::filter::{instant_ms, invalid_parameter};
use schemas::job;
use schemas::limits::{ID_BYTES, NAME_BYTES};
use store::filter_sql::Projects;
use store::jobs::{Asked, JOBS_LISTED_MAX, JobKind, NewJob};

use super::no_project;
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::{QueryState, now_ms};
pub(crate) use body::{AskRebuild, AskRecalculate, AskRetention, Job, JobList};

/// Jobs in a list that asks for no other number.
const JOBS_LISTED: u64 = 50;

/// Price runs again
///
/// After a change of the price table. Runs whose cost the client gave stay as they are; totals of ancestors follow.
/// Safe to repeat, and while events are reported.
#[utoipa::path(post, path = "/api/internal/cost/recalculate", operation_id = "recalculate_cost", tag = "jobs",
    request_body = Option<AskRecalculate>,
    responses(
        (status = 202, description = "The job, which waits for its turn", body = Job),
        (status = 400, description = "The body does not fit, or names an app or a model that nobody knows", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`, or one that does not reach the project", body = FaultBody),
        (status = 404, description = "There is no such project", body = FaultBody),
        (status = 409, description = "Another job works on the same data; `details.job_id` names it", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn recalculate(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<AskRecalculate>>,
) -> Result<(StatusCode, Json<Job>), Refusal> {
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
                    "`project_id` is needed: this token reaches several projects, but not all";
                return Err(Fault::bad_request("invalid_body", message).into());
            }
        },
    };
    let time = |name: &str, value: &Option<String>| match value {
        None => Ok(None),
        Some(text) => instant_ms(text).map(Some).ok_or_else(|| {
            invalid_parameter(name, text, "an ISO 8601 time, such as 2026-11-20T10:00:00Z")
        }),
    };
    let (from_ms, to_ms) = (time("from", &body.from)?, time("to", &body.to)?);
    if from_ms.zip(to_ms).is_some_and(|(from, to)| from > to) {
        let message = "`from` is after `to`: no run starts in between";
        return Err(Fault::bad_request("invalid_body", message).into());
    }
    check_text("app_id", &body.app_id, ID_BYTES)?;
    check_text("model", &body.model, NAME_BYTES)?;
    check_known(&state, &reached, project.as_deref(), &body).await?;
    let asked = job::Recalculate {
        from_ms,
        to_ms,
        app_id: body.app_id,
        model: body.model,
        dry_run: body.dry_run,
    };
    ask(&state, JobKind::Recalculate, project, &asked).await
}

/// Drop what is older than its project keeps
///
/// Saved runs stay, with their descendants and ancestors. It also runs by itself; see the settings of `[retention]`.
/// Ages are counted from a time that a jump of the server's clock moves by at most one day for each day that it lasts;
/// the report says which, and `trust_clock` ends that.
#[utoipa::path(post, path = "/api/internal/retention", operation_id = "run_retention", tag = "jobs",
    request_body = Option<AskRetention>,
    responses(
        (status = 202, description = "The job, which waits for its turn", body = Job),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin` for all projects", body = FaultBody),
        (status = 409, description = "Another job works on the same data; `details.job_id` names it", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn retention(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<AskRetention>>,
) -> Result<(StatusCode, Json<Job>), Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let body = body.unwrap_or_default();
    let asked = job::Retention {
        dry_run: body.dry_run,
        trust_clock: body.trust_clock,
    };
    ask(&state, JobKind::Retention, None, &asked).await
}

/// Fold the stored events again
///
/// Into a second table of runs, while reporting goes on; the two are compared, and the new one takes the old one's
/// place unless `check_only` is given.
#[utoipa::path(post, path = "/api/internal/rebuild", operation_id = "rebuild", tag = "jobs",
    request_body = Option<AskRebuild>,
    responses(
        (status = 202, description = "The job, which waits for its turn", body = Job),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin` for all projects", body = FaultBody),
        (status = 404, description = "There is no such project", body = FaultBody),
        (status = 409, description = "Another job works on the same data; `details.job_id` names it", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn rebuild(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<AskRebuild>>,
) -> Result<(StatusCode, Json<Job>), Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let body = body.unwrap_or_default();
    if let Some(project) = &body.project {
        if !body.check_only {
            let message =
                "`project` goes with `check_only`: the table of runs is exchanged as a whole";
            return Err(Fault::bad_request("invalid_body", message).into());
        }
        check_project(&state, &Projects::All, project).await?;
    }
    let kind = match body.check_only {
        true => JobKind::Check,
        false => JobKind::Rebuild,
    };
    let asked = job::Rebuild {
        project_id: body.project,
    };
    // The second table is one for the deployment, so these jobs are too.
    ask(&state, kind, None, &asked).await
}

/// List jobs
#[utoipa::path(get, path = "/api/internal/jobs", operation_id = "list_jobs", tag = "jobs",
    params(("limit" = Option<u32>, Query, description = "Jobs in the list, 50 unless given", minimum = 1, maximum = 1000)),
    responses(
        (status = 200, description = "The newest first, of those the token reaches", body = JobList),
        (status = 400, description = "An unknown parameter, or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<JobList>, Refusal> {
    let reached = caller.administered()?;
    let [limit] = pairs.only(["limit"])?;
    let limit = match limit {
        None => JOBS_LISTED,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=JOBS_LISTED_MAX).contains(limit))
            .ok_or_else(|| {
                let allowed = format!("a whole number from 1 to {JOBS_LISTED_MAX}");
                invalid_parameter("limit", text, &allowed)
            })?,
    };
    let projects = match &reached {
        Projects::All => None,
        Projects::Only(projects) => Some(&projects[..]),
    };
    let found = state.store().jobs().list(projects, limit).await?;
    let data = found.into_iter().map(Job::from).collect();
    Ok(Json(JobList { data }))
}

/// One job
#[utoipa::path(get, path = "/api/internal/jobs/{id}", operation_id = "get_job", tag = "jobs",
    params(("id" = String, Path, description = "Identifier of the job")),
    responses(
        (status = 200, description = "The job as it stands", body = Job),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 404, description = "There is no such job within the token's reach", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(id): PathId,
    pairs: Pairs,
) -> Result<Json<Job>, Refusal> {
    let reached = caller.administered()?;
    pairs.only([])?;
    Ok(Json(find(&state, &reached, &id).await?.into()))
}

/// End a job
///
/// Its runner stops after the piece of work in hand; what it changed until then stays. A job that is over is left
/// as it is.
#[utoipa::path(post, path = "/api/internal/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs",
    params(("id" = String, Path, description = "Identifier of the job")),
    responses(
        (status = 200, description = "The job as it is now", body = Job),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 404, description = "There is no such job within the token's reach", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn cancel(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(id): PathId,
    pairs: Pairs,
) -> Result<Json<Job>, Refusal> {
    let reached = caller.administered()?;
    pairs.only([])?;
    find(&state, &reached, &id).await?;
    let cancelled = state.store().jobs().cancel(&id, now_ms()).await?;
    Ok(Json(cancelled.ok_or_else(|| no_job(&id))?.into()))
}

/// Makes the job, or says which one is in the way.
async fn ask(
    state: &QueryState,
    kind: JobKind,
    project_id: Option<String>,
    asked: &impl serde::Serialize,
) -> Result<(StatusCode, Json<Job>), Refusal> {
    let new = NewJob {
        kind,
        project_id,
        parameters: serde_json::to_string(asked).map_err(|_| Fault::internal())?,
    };
    match state.store().jobs().create(new, now_ms()).await? {
        Asked::Made(job) => Ok((StatusCode::ACCEPTED, Json(job.into()))),
        Asked::Busy(busy) => {
            let (id, kind, stand) = (&busy.job_id, busy.kind.as_str(), busy.state.as_str());
            let message = format!(
                "job `{id}` ({kind}) is {stand} and works on the same data; wait for it or cancel it"
            );
            let details = serde_json::json!({"job_id": id, "kind": kind, "state": stand});
            Err(Fault::new(409, "job_in_the_way", message)
                .with_details(details)
                .into())
        }
    }
}

async fn find(
    state: &QueryState,
    reached: &Projects,
    id: &str,
) -> Result<store::jobs::Job, Refusal> {
    let found = state.store().jobs().get(id).await?;
    Ok(found
        .filter(|job| reached.has(&job.project_id))
        .ok_or_else(|| no_job(id))?)
}

fn no_job(id: &str) -> Fault {
    Fault::not_found(format!("there is no job `{id}`"))
}

async fn check_project(
    state: &QueryState,
    reached: &Projects,
    project: &str,
) -> Result<(), Refusal> {
    if !reached.has(project) {
        return Err(Fault::forbidden("this token does not reach that project").into());
    }
    let mut known = state.credentials().projects().await?.into_iter();
    match known.any(|known| known.project_id == project) {
        true => Ok(()),
        false => Err(no_project(project).into()),
    }
}

fn check_text(name: &str, value: &Option<String>, bytes: usize) -> Result<(), Fault> {
    match value {
        Some(text) if text.is_empty() || text.len() > bytes => Err(invalid_parameter(
            name,
            text,
            &format!("text of 1 to {bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

/// Apps and models that nobody knows are nearly always misspelt: nothing would be done, in silence.
async fn check_known(
    state: &QueryState,
    reached: &Projects,
    project: Option<&str>,
    body: &AskRecalculate,
) -> Result<(), Refusal> {
    let app = body.app_id.as_deref();
    let model = body.model.as_deref();
    if let Some(app) = app
        && !state.store().is_app_used(project, app).await?
    {
        let known = state.credentials().projects().await?;
        // Of the projects it is about, and never of one that the token does not reach (T1).
        let is_known = known.iter().any(|known| {
            known.default_app == app
                && reached.has(&known.project_id)
                && project.is_none_or(|project| project == known.project_id)
        });
        if !is_known {
            let message = format!("`app_id` is `{app}`, but no run is of such an app");
            return Err(Fault::bad_request("unknown_app", message).into());
        }
    }
    if let Some(model) = model
        && state.prices().current().rates(model, now_ms()).is_none()
        && !state.store().is_model_used(project, model).await?
    {
        let message =
            format!("`model` is `{model}`, but no run is of such a model and no price is for it");
        return Err(Fault::bad_request("unknown_model", message).into());
    }
    Ok(())
}
