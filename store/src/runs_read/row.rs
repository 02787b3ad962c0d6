//! The columns of a run that the API shows, and their way to [`Run`].

use clickhouse::Row;
use schemas::filter::STALE_AFTER_MS;
use schemas::fold::Status;
use schemas::run::{Dollars, Feedback, Instant, Run, RunError, Seconds};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::rows::cost_status;

/// What [`RunRecord`] reads, in its order.
pub(super) const COLUMNS: &str = "project_id, app_id, started_at, run_id, parent_run_id, root_run_id, name, type, status, agent, \
    user_email, model, tags, thread_id, ended_at, latency_ms, prompt_tokens, completion_tokens, total_tokens, \
    cached_tokens, reasoning_tokens, cost, cost_status, cost_estimated, total_cost, total_prompt_tokens, \
    total_completion_tokens, total_tokens_with_children, llm_calls, error_count, error_name, error_message, saved, \
    feedback_rating, feedback_comment, feedback_at, input_preview, output_preview, first_event_at, last_event_at";

/// The same for lists, where what only the whole run shows is left at nothing and the end is computed: each column
/// read from fifty places costs about a millisecond.
pub(super) const LIST_COLUMNS: &str = "project_id, app_id, started_at, run_id, parent_run_id, root_run_id, name, type, status, \
    agent, user_email, model, tags, thread_id, addMilliseconds(started_at, latency_ms) AS ended_at, latency_ms, \
    prompt_tokens, completion_tokens, total_tokens, \
    CAST(NULL, 'Nullable(UInt64)') AS cached_tokens, CAST(NULL, 'Nullable(UInt64)') AS reasoning_tokens, \
    cost, cost_status, toUInt8(0) AS cost_estimated, total_cost, toUInt64(0) AS total_prompt_tokens, \
    toUInt64(0) AS total_completion_tokens, total_tokens_with_children, llm_calls, error_count, error_name, \
    error_message, saved, feedback_rating, feedback_comment, feedback_at, input_preview, output_preview, \
    started_at AS first_event_at, started_at AS last_event_at";

/// A run as it is stored, without what only the processor reads. Times are Unix milliseconds. The public fields beside
/// ids and start are those of a look-up by id; in lists and trees they hold nothing.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct RunRecord {
    /// The tenant.
    pub project_id: String,
    /// The app.
    pub app_id: String,
    /// Start.
    pub started_at: i64,
    /// The run.
    pub run_id: String,
    /// The parent, empty for none.
    pub parent_run_id: String,
    /// The topmost known ancestor.
    pub root_run_id: String,
    /// Name.
    pub name: String,
    /// Type.
    pub r#type: String,
    status: i8,
    agent: String,
    user_email: String,
    model: String,
    tags: Vec<String>,
    thread_id: String,
    ended_at: Option<i64>,
    latency_ms: Option<i64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    /// Cached part of the prompt's tokens.
    pub cached_tokens: Option<u64>,
    /// Reasoning part of the completion's tokens.
    pub reasoning_tokens: Option<u64>,
    cost: i128,
    cost_status: i8,
    cost_estimated: u8,
    total_cost: i128,
    /// Prompt tokens with all descendants.
    pub total_prompt_tokens: u64,
    /// Completion tokens with all descendants.
    pub total_completion_tokens: u64,
    total_tokens_with_children: u64,
    llm_calls: u64,
    error_count: u64,
    error_name: String,
    error_message: String,
    saved: u8,
    feedback_rating: String,
    feedback_comment: String,
    feedback_at: Option<i64>,
    input_preview: String,
    output_preview: String,
    /// Earliest timestamp of its events.
    pub first_event_at: i64,
    /// Latest timestamp of its events.
    pub last_event_at: i64,
}

impl RunRecord {
    /// Whether the cost is an estimate.
    pub fn is_cost_estimated(&self) -> bool {
        self.cost_estimated != 0
    }

    /// The value a list by this value is ordered by; see [`crate::filter_sql::sort_value`].
    pub(super) fn sort_value(&self, sort: schemas::filter::Sort) -> Option<i128> {
        use schemas::filter::Sort;
        match sort {
            Sort::StartedAtDesc | Sort::StartedAtAsc => None,
            Sort::LatencyDesc => Some(match self.latency_ms {
                Some(ms) => i128::from(ms.clamp(i64::from(i32::MIN) + 1, i64::from(i32::MAX))),
                None => i128::from(i32::MIN),
            }),
            Sort::TotalCostDesc => Some(self.total_cost),
            Sort::TotalTokensDesc => Some(self.total_tokens.map_or(-1, i128::from)),
        }
    }

    /// The run as the API shows it at this moment.
    pub fn into_run(self, now_ms: UnixMs) -> Run {
        let status = match self.status {
            2 => Status::Success,
            3 => Status::Error,
            _ => Status::Started,
        };
        let cost_status = cost_status(self.cost_status);
        let error_name = given(self.error_name);
        let has_error =
            status == Status::Error || error_name.is_some() || !self.error_message.is_empty();
        Run {
            project_id: Some(self.project_id),
            run_id: self.run_id,
            app_id: self.app_id,
            parent_run_id: given(self.parent_run_id),
            root_run_id: self.root_run_id,
            name: given(self.name),
            kind: given(self.r#type),
            status,
            stale: status == Status::Started
                && self.started_at < now_ms.saturating_sub(STALE_AFTER_MS),
            agent: given(self.agent),
            model: given(self.model),
            user_email: given(self.user_email),
            tags: self.tags,
            thread_id: given(self.thread_id),
            started_at: Instant(self.started_at),
            ended_at: self.ended_at.map(Instant),
            latency_s: self.latency_ms.map(Seconds),
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            total_tokens: self.total_tokens,
            cost: Dollars(self.cost),
            cost_status,
            total_cost: Dollars(self.total_cost),
            total_tokens_with_children: self.total_tokens_with_children,
            llm_calls: self.llm_calls,
            error_count: self.error_count,
            error: has_error.then_some(RunError {
                name: error_name,
                message: self.error_message,
                stack: None,
            }),
            saved: self.saved != 0,
            feedback: given(self.feedback_rating).map(|rating| Feedback {
                rating: Some(rating),
                comment: given(self.feedback_comment),
                at: self.feedback_at.map(Instant),
            }),
            input_preview: given(self.input_preview),
            output_preview: given(self.output_preview),
        }
    }
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
