//! `/api/analytics/usage`: reports by group and by time.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::ApiError;
use schemas::filter::Word as _;
use schemas::run::Instant;
use schemas::usage::{Activity, Failures, GroupBy, Interval, Question, Report, Spend};
use store::Store;
use store::reads::current::Scope;
use store::reads::filter_sql::Projects;
use store::reads::usage::{Breakdown, Grouping};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::access::{Caller, is_one};
use crate::clock::now_ms;
use crate::params::{Pairs, RunFilterParams, query_parameter, schema_of};

/// The parameter `interval`, which [`Question::from_pairs`] parses.
pub(crate) struct IntervalParam;

impl IntoParams for IntervalParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Adds a series by `hour` or `day`, UTC; at most 1000 buckets";
        let schema = schema_of(Interval::SHAPE);
        vec![query_parameter("interval", description, schema)]
    }
}

/// The parameter `group_by`, which [`Question::from_pairs`] parses.
pub(crate) struct GroupByParam;

impl IntoParams for GroupByParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "`model` (default) or `agent`";
        let schema = schema_of(GroupBy::SHAPE);
        vec![query_parameter("group_by", description, schema)]
    }
}

/// A query with the projects that it covers.
pub(crate) struct UsageRequest {
    pub(crate) query: Question,
    pub(crate) projects: Projects,
    pub(crate) now_ms: i64,
}

impl UsageRequest {
    pub(crate) fn read(caller: &Caller, pairs: &Pairs, extra: &[&str]) -> Result<Self, ApiError> {
        let now_ms = now_ms();
        let query = Question::from_pairs(pairs.iter(), extra, now_ms)?;
        let projects = caller.readable(query.project_id.as_deref())?;
        Ok(Self {
            query,
            projects,
            now_ms,
        })
    }

    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            projects: &self.projects,
            filter: &self.query.filter,
            now_ms: self.now_ms,
        }
    }

    fn grouping(&self, default: GroupBy) -> Grouping {
        Grouping {
            by: self.query.group_by.unwrap_or(default),
            interval: self.query.interval,
        }
    }

    fn report<F>(self, by: GroupBy, found: Breakdown<F>) -> Json<Report<F>> {
        Json(Report {
            from: Instant(self.query.from_ms),
            to: self.query.filter.to_ms.map(Instant),
            interval: self.query.interval,
            group_by: by,
            totals: found.totals,
            groups: found.groups,
            other: found.other,
            series: self.query.interval.map(|_| found.buckets),
        })
    }
}

/// Tokens and cost by model or agent
///
/// Sums of each run's own tokens and cost, so that nothing is counted twice. They are exact and equal to the sums over
/// the run list with the same filter. Without `from` the report covers the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/costs",
    operation_id = "usage_costs",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam, GroupByParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Spend>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn costs(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Spend>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let request = UsageRequest::read(&caller, &pairs, &["interval", "group_by"])?;
    let grouping = request.grouping(GroupBy::Model);
    let found = store.spend(request.scope(), grouping).await?;
    Ok(request.report(grouping.by, found))
}

async fn activity_by(
    by: GroupBy,
    store: &Store,
    caller: &Caller,
    pairs: &Pairs,
) -> Result<Json<Report<Activity>>, ErrorResponse> {
    let request = UsageRequest::read(caller, pairs, &["interval"])?;
    let grouping = request.grouping(by);
    let found = store.activity(request.scope(), grouping).await?;
    Ok(request.report(grouping.by, found))
}

/// Model calls by model
///
/// Calls, errors, latencies, tokens and cost of runs of the type `llm`. Without `from` the report covers the 30 days
/// before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/models",
    operation_id = "usage_models",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Activity>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn models(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    activity_by(GroupBy::Model, &store, &caller, &pairs).await
}

/// Runs by agent
///
/// Groups each run by its own agent or its nearest ancestor's, with its own cost. Without `from` the report covers the
/// 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/agents",
    operation_id = "usage_agents",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Activity>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn agents(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    activity_by(GroupBy::Agent, &store, &caller, &pairs).await
}

/// Runs by user
///
/// Groups each run by its own user or its nearest ancestor's, with its own cost. Without `from` the report covers the
/// 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/users",
    operation_id = "usage_users",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Activity>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn users(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    activity_by(GroupBy::UserEmail, &store, &caller, &pairs).await
}

/// Runs by app
///
/// Groups each run by its app, with its own cost. Apps with the same name in several projects are one group, unless
/// `project_id` selects a project. Without `from` the report covers the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/apps",
    operation_id = "usage_apps",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Activity>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn apps(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Activity>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    activity_by(GroupBy::AppId, &store, &caller, &pairs).await
}

/// Failed runs by reason
///
/// The reason is the name of the error, or the first 120 characters of its message if it has no name. Without `from`
/// the report covers the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/analytics/usage/errors",
    operation_id = "usage_errors",
    tag = "analytics",
    params(
        RunFilterParams, IntervalParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report<Failures>),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn errors(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Report<Failures>>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let request = UsageRequest::read(&caller, &pairs, &["interval"])?;
    let grouping = request.grouping(GroupBy::Reason);
    let mut found = store.failures(request.scope(), grouping).await?;
    if is_one(&request.projects) {
        found.each_mut(&mut |failures| {
            if let Some(example) = &mut failures.example {
                example.project_id = None;
            }
        });
    }
    Ok(request.report(grouping.by, found))
}
