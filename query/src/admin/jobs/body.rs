//! Bodies of job requests and answers.

use schemas::job::{CostReport, Recalculate};
use schemas::money::Dollars;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::jobs;
use utoipa::ToSchema;

/// The runs whose costs are recalculated; all without a condition.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecalculateBody {
    /// Only runs that started at or after this time.
    #[schema(format = DateTime)]
    pub(crate) from: Option<String>,
    /// Only runs that started at or before this time.
    #[schema(format = DateTime)]
    pub(crate) to: Option<String>,
    /// Only runs of this app.
    #[schema(min_length = 1, max_length = 256)]
    pub(crate) app_id: Option<String>,
    /// Only runs of this model.
    #[schema(min_length = 1, max_length = 512)]
    pub(crate) model: Option<String>,
    /// Only runs of this project; all projects that the token reaches if left out.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    pub(crate) project_id: Option<String>,
    /// Compute the new costs without storing them.
    pub(crate) dry_run: bool,
}

/// Options of retention.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetentionBody {
    /// Report what would be dropped without dropping it.
    pub(crate) dry_run: bool,
    /// Compute ages from the server's clock even if it went forward by more than a day since the last retention.
    pub(crate) trust_clock: bool,
}

/// Options of a rebuild.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RebuildBody {
    /// Only compare, without replacing the table.
    pub(crate) check_only: bool,
    /// Only this project; requires `check_only`.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    pub(crate) project: Option<String>,
}

/// A job and its progress.
#[derive(Serialize, ToSchema)]
pub(crate) struct Job {
    job_id: String,
    #[schema(pattern = "^(recalculate|retention|rebuild|check)$")]
    kind: &'static str,
    /// Project to which the job is limited; null for the whole deployment.
    project_id: Option<String>,
    #[schema(pattern = "^(queued|running|done|failed|cancelled)$")]
    state: &'static str,
    /// Place in the queue while it is queued, from 1; a deployment runs one job at a time.
    position: Option<u64>,
    /// Parameters of the request.
    #[schema(value_type = Object)]
    parameters: Value,
    /// Processed items: model calls of a recalculation, days of a retention, events of a rebuild.
    done: u64,
    /// Estimated total of items; 0 while unknown.
    total: u64,
    /// Runs whose cost changes in a recalculation, rows that retention drops, rows that differ in a rebuild.
    changed: u64,
    /// Exact cost in USD of the processed model calls before; only for a recalculation.
    #[schema(value_type = Option<f64>)]
    cost_before: Option<Dollars>,
    /// Exact cost in USD of the processed model calls by the current prices; only for a recalculation.
    #[schema(value_type = Option<f64>)]
    cost_after: Option<Dollars>,
    /// Result of the other kinds.
    #[schema(value_type = Option<Object>)]
    report: Option<Value>,
    /// Why it failed.
    error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it first started.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Instant>,
    /// When it last reported progress.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Instant,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Instant>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct JobList {
    /// Newest first.
    pub(crate) data: Vec<Job>,
}

impl Job {
    /// `place` is the place in the queue of a queued job.
    pub(super) fn of(job: jobs::Job, place: u64) -> Self {
        let position = (job.state == jobs::JobState::Queued).then_some(place);
        Self {
            position,
            ..Self::over(job)
        }
    }

    /// A job that is not queued.
    pub(super) fn over(job: jobs::Job) -> Self {
        let is_costs = job.kind == jobs::JobKind::Recalculate;
        let costs: Option<CostReport> =
            is_costs.then(|| serde_json::from_str(&job.report).unwrap_or_default());
        let dollars = |units: &str| Dollars(units.parse().unwrap_or(0));
        Self {
            kind: job.kind.as_str(),
            state: job.state.as_str(),
            position: None,
            parameters: parameters(&job),
            cost_before: costs.as_ref().map(|costs| dollars(&costs.before_units)),
            cost_after: costs.as_ref().map(|costs| dollars(&costs.after_units)),
            report: (!is_costs)
                .then(|| serde_json::from_str(&job.report).ok())
                .flatten(),
            error: given(job.error),
            job_id: job.job_id,
            project_id: given(job.project_id),
            done: job.done,
            total: job.total,
            changed: job.changed,
            created_at: Instant(job.created_at),
            started_at: job.started_at.map(Instant),
            updated_at: Instant(job.updated_at),
            ended_at: job.ended_at.map(Instant),
        }
    }
}

/// The parameters of the request, with times as text.
fn parameters(job: &jobs::Job) -> Value {
    if job.kind != jobs::JobKind::Recalculate {
        return serde_json::from_str(&job.parameters).unwrap_or_default();
    }
    let parameters: Recalculate = serde_json::from_str(&job.parameters).unwrap_or_default();
    serde_json::json!({
        "from": parameters.from_ms.map(Instant),
        "to": parameters.to_ms.map(Instant),
        "app_id": parameters.app_id,
        "model": parameters.model,
        "dry_run": parameters.dry_run,
    })
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
