//! Analytics: what runs used and how they went, by group and by time; and the values that filters can choose from.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::run::Instant;
use schemas::usage::{Activity, Facets, Failures, GroupBy, Question, Report, Spend};
use store::current::Scope;
use store::filter_sql::Projects;
use store::usage::{Breakdown, Grouping};

use crate::access::{Caller, is_one};
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, RunFilterParams};
use crate::state::{QueryState, now_ms};

/// A question with whose runs it is about.
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) projects: Projects,
    pub(crate) now_ms: i64,
}

impl Asked {
    pub(crate) fn read(caller: &Caller, pairs: &Pairs, extra: &[&str]) -> Result<Self, Fault> {
        let now_ms = now_ms();
        let question = Question::from_pairs(pairs.iter(), extra, now_ms)?;
        let projects = caller.readable(question.project_id.as_deref())?;
        Ok(Self {
            question,
            projects,
            now_ms,
        })
    }

    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            projects: &self.projects,
            filter: &self.question.filter,
            now_ms: self.now_ms,
        }
    }

    fn grouping(&self, default: GroupBy) -> Grouping {
        Grouping {
            by: self.question.group_by.unwrap_or(default),
            interval: self.question.interval,
        }
    }

    fn report<F>(self, by: GroupBy, found: Breakdown<F>) -> Json<Report<F>> {
        Json(Report {
            from: Instant(self.question.from_ms),
            to: self.question.filter.to_ms.map(Instant),
            interval: self.question.interval,
            group_by: by,
            totals: found.totals,
            groups: found.groups,
            other: found.other,
            series: self.question.interval.map(|_| found.buckets),
        })
    }
}

/// Tokens and cost by model or agent
///
/// Each run's own, so that nothing is counted twice, and exact: the sums are those over the runs of the list with the same
/// filter. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/costs",
    operation_id = "usage_costs",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
        ("group_by" = Option<String>, Query, description = "`model` (default) or `agent`", pattern = "^(model|agent)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Spend>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn costs(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Spend>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let asked = Asked::read(&caller, &pairs, &["interval", "group_by"])?;
    let grouping = asked.grouping(GroupBy::Model);
    let found = state.store().spend(asked.scope(), grouping).await?;
    Ok(asked.report(grouping.by, found))
}

/// How runs went, in these groups.
async fn activity_by(
    by: GroupBy,
    state: &QueryState,
    caller: &Caller,
    pairs: &Pairs,
) -> Result<Json<Report<Activity>>, Refusal> {
    let asked = Asked::read(caller, pairs, &["interval"])?;
    let grouping = asked.grouping(by);
    let found = state.store().activity(asked.scope(), grouping).await?;
    Ok(asked.report(grouping.by, found))
}

/// Model calls by model
///
/// Runs of the type `llm`: calls, errors, latencies, tokens, cost. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/models",
    operation_id = "usage_models",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Activity>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn models(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    activity_by(GroupBy::Model, &state, &caller, &pairs).await
}

/// Runs by agent
///
/// Every run by its own agent or the nearest ancestor's, with its own cost. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/agents",
    operation_id = "usage_agents",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Activity>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn agents(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    activity_by(GroupBy::Agent, &state, &caller, &pairs).await
}

/// Runs by user
///
/// Every run by its own user or the nearest ancestor's, with its own cost. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/users",
    operation_id = "usage_users",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Activity>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn users(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    activity_by(GroupBy::UserEmail, &state, &caller, &pairs).await
}

/// Runs by app
///
/// Every run by its app, with its own cost. An app is a name inside its project: apps of one name in several projects
/// that are within reach are one here; `project_id` tells them apart. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/apps",
    operation_id = "usage_apps",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Activity>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn apps(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    activity_by(GroupBy::AppId, &state, &caller, &pairs).await
}

/// Failed runs by reason
///
/// The reason is the name of the error, or the first 120 characters of its message where it has no name.
/// Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/errors",
    operation_id = "usage_errors",
    tag = "analytics",
    params(
        RunFilterParams,
        ("interval" = Option<String>, Query, description = "Also a series by `hour` or `day`, UTC; at most 1000 buckets", pattern = "^(hour|day)$"),
    ),
    responses(
        (status = 200, description = "The figures", body = Report<Failures>),
        (status = 400, description = "An unknown parameter, a value that cannot be meant, or too many buckets", body = FaultBody),
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
pub(crate) async fn errors(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Failures>>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let asked = Asked::read(&caller, &pairs, &["interval"])?;
    let grouping = asked.grouping(GroupBy::Reason);
    let mut found = state.store().failures(asked.scope(), grouping).await?;
    if is_one(&asked.projects) {
        found.each_mut(&mut |failures| {
            if let Some(example) = &mut failures.example {
                example.project_id = None;
            }
        });
    }
    Ok(asked.report(grouping.by, found))
}

/// Facets
///
/// The values of each field and how many runs have each, for the boxes of a filter: at most 100 of a field, most
/// frequent first. What is filtered by a field itself does not count for that field, so that its alternatives are
/// there; `tags_all` counts for every field. Without `from` it looks at the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/run/facets",
    operation_id = "run_facets",
    tag = "runs",
    params(RunFilterParams),
    responses(
        (status = 200, description = "The values", body = Facets),
        (status = 400, description = "An unknown parameter or a value that cannot be meant", body = FaultBody),
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
pub(crate) async fn facets(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Facets>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let asked = Asked::read(&caller, &pairs, &[])?;
    let found = state.store().facets(asked.scope()).await?;
    Ok(Json(Facets {
        from: Instant(asked.question.from_ms),
        to: asked.question.filter.to_ms.map(Instant),
        facets: found
            .into_iter()
            .map(|(name, facet)| (name.to_owned(), facet))
            .collect(),
    }))
}
