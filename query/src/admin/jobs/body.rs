//! Jobs as the API shows them, and what they are asked for with.

use schemas::job::{CostReport, Recalculate};
use schemas::run::{Dollars, Instant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::jobs;
use utoipa::ToSchema;

/// Which runs to price again: all of them unless it says more.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AskRecalculate {
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
    /// Only runs of this project; all that the token reaches without it.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    pub(crate) project_id: Option<String>,
    /// Say what it would cost and change nothing.
    pub(crate) dry_run: bool,
}

/// How to drop.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AskRetention {
    /// Say what would go and drop nothing.
    pub(crate) dry_run: bool,
    /// Count ages from the server's clock even if it went forward by more than a day since retention last looked.
    pub(crate) trust_clock: bool,
}

/// How to rebuild.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AskRebuild {
    /// Only compare.
    pub(crate) check_only: bool,
    /// Only this project; goes with `check_only`.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    pub(crate) project: Option<String>,
}

/// Long work and how far it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Job {
    /// Its id.
    job_id: String,
    /// What kind of work.
    #[schema(pattern = "^(recalculate|retention|rebuild|check)$")]
    kind: &'static str,
    /// The project it is limited to; null for the whole deployment.
    project_id: Option<String>,
    /// Where it stands.
    #[schema(pattern = "^(queued|running|done|failed|cancelled)$")]
    state: &'static str,
    /// What it was asked to do.
    #[schema(value_type = Object)]
    parameters: Value,
    /// Pieces of work done: model calls of a recalculation, days of a retention, events of a rebuild.
    done: u64,
    /// Pieces in all, as far as is known; 0 while it is not.
    total: u64,
    /// Runs that a recalculation prices otherwise than before, rows that retention drops, rows that differ in a
    /// rebuild.
    changed: u64,
    /// Cost in USD, exact, of the model calls looked at so far, as it was; null but for a recalculation.
    #[schema(value_type = Option<f64>)]
    cost_before: Option<Dollars>,
    /// The same by the price table of now.
    #[schema(value_type = Option<f64>)]
    cost_after: Option<Dollars>,
    /// What came of it, for the other kinds.
    #[schema(value_type = Option<Object>)]
    report: Option<Value>,
    /// Why it failed.
    error: Option<String>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it first began.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Instant>,
    /// When it last told how far it is.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Instant,
    /// When it was over.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Instant>,
}

/// Jobs.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobList {
    /// The newest first.
    pub(crate) data: Vec<Job>,
}

impl From<jobs::Job> for Job {
    fn from(job: jobs::Job) -> Self {
        let is_costs = job.kind == jobs::JobKind::Recalculate;
        let costs: Option<CostReport> =
            is_costs.then(|| serde_json::from_str(&job.report).unwrap_or_default());
        let dollars = |units: &str| Dollars(units.parse().unwrap_or(0));
        Self {
            kind: job.kind.as_str(),
            state: job.state.as_str(),
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

/// The parameters as they were given, times as text.
fn parameters(job: &jobs::Job) -> Value {
    if job.kind != jobs::JobKind::Recalculate {
        return serde_json::from_str(&job.parameters).unwrap_or_default();
    }
    let asked: Recalculate = serde_json::from_str(&job.parameters).unwrap_or_default();
    serde_json::json!({
        "from": asked.from_ms.map(Instant),
        "to": asked.to_ms.map(Instant),
        "app_id": asked.app_id,
        "model": asked.model,
        "dry_run": asked.dry_run,
    })
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
