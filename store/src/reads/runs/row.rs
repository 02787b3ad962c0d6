//! Conversion of a stored run to the API's [`Run`].

use schemas::filter::STALE_AFTER_MS;
use schemas::fold::RunStatus;
use schemas::money::Dollars;
use schemas::run::{Feedback, Instant, Run, RunError, Seconds};
use schemas::timestamp::UnixMs;

use crate::tables::runs::RunRecord;

impl RunRecord {
    pub fn is_cost_estimated(&self) -> bool {
        self.cost_estimated != 0
    }

    /// The sort value; see [`crate::reads::filter_sql::sort_value`].
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
            Sort::TimeToFirstTokenDesc => Some(self.ttft_ms.map_or(-1, i128::from)),
        }
    }

    /// The run on the API at this time.
    pub fn into_run(self, now_ms: UnixMs) -> Run {
        // All fields by name, so that a new column is either shown or left out here on purpose.
        let Self {
            project_id,
            app_id,
            started_at,
            run_id,
            parent_run_id,
            root_run_id,
            name,
            r#type,
            status,
            agent,
            user_email,
            model,
            tags,
            thread_id,
            ended_at,
            latency_ms,
            prompt_tokens,
            completion_tokens,
            total_tokens,
            cached_tokens: _,
            reasoning_tokens: _,
            ttft_ms,
            cost,
            cost_status,
            counted_run_id,
            cost_estimated: _,
            total_cost,
            total_prompt_tokens: _,
            total_completion_tokens: _,
            total_tokens_with_children,
            llm_calls,
            error_count,
            error_name,
            error_message,
            saved,
            feedback_rating,
            feedback_comment,
            feedback_at,
            input_preview,
            output_preview,
            first_event_at: _,
            last_event_at: _,
        } = self;
        let error_name = given(error_name);
        let has_error =
            status == RunStatus::Error || error_name.is_some() || !error_message.is_empty();
        Run {
            project_id: Some(project_id),
            run_id,
            app_id,
            parent_run_id: given(parent_run_id),
            root_run_id,
            name: given(name),
            kind: given(r#type),
            status,
            stale: status == RunStatus::Started
                && started_at < now_ms.saturating_sub(STALE_AFTER_MS),
            agent: given(agent),
            model: given(model),
            user_email: given(user_email),
            tags,
            thread_id: given(thread_id),
            started_at: Instant(started_at),
            ended_at: ended_at.map(Instant),
            latency_s: latency_ms.map(Seconds),
            prompt_tokens,
            completion_tokens,
            total_tokens,
            ttft_ms,
            tokens_per_second: tokens_per_second(completion_tokens, latency_ms, ttft_ms),
            cost: Dollars(cost),
            cost_status,
            counted_run_id: given(counted_run_id),
            total_cost: Dollars(total_cost),
            total_tokens_with_children,
            llm_calls,
            error_count,
            error: has_error.then_some(RunError {
                name: error_name,
                message: error_message,
                stack: None,
            }),
            saved: saved != 0,
            feedback: given(feedback_rating).map(|rating| Feedback {
                rating: Some(rating),
                comment: given(feedback_comment),
                at: feedback_at.map(Instant),
            }),
            input_preview: given(input_preview),
            output_preview: given(output_preview),
        }
    }
}

/// Completion tokens by the time they took: from the first one where its time is known, else from the start.
fn tokens_per_second(
    completion: Option<u64>,
    latency_ms: Option<i64>,
    ttft_ms: Option<u64>,
) -> Option<f64> {
    let whole_ms = u64::try_from(latency_ms?).ok()?;
    let ms = match ttft_ms {
        Some(ttft_ms) if ttft_ms < whole_ms => whole_ms - ttft_ms,
        _ => whole_ms,
    };
    let tokens = completion.filter(|tokens| *tokens > 0 && ms > 0)?;
    // A tenth of a token is as fine as clocks are.
    Some((tokens as f64 * 10_000.0 / ms as f64).round() / 10.0)
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
