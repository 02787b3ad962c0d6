//! From folded runs to rows.

use rust_decimal::Decimal;
use schemas::fold::{CostStatus, Status};
use store::rows::{self, EventRow, RunRow, RunStatus};

use crate::batch::{Node, Scope};
use crate::decode::EventLine;

/// Digits after the point of the cost columns.
const COST_SCALE: u32 = 18;

/// The row of an event.
pub fn event<'a>(line: &'a EventLine<'a>, scopes: &'a [Scope], now_ms: i64) -> EventRow<'a> {
    let scope = &scopes[line.scope];
    EventRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        timestamp: line.timestamp_ms,
        run_id: &line.run_id,
        event_id: line.id.0,
        name: &line.name,
        payload: line.raw.as_bytes(),
        received_at: line.received_at_ms,
        stored_at: now_ms,
    }
}

/// The rows of a run that changed: the run itself, and a tombstone at each other key it still has a row at. All carry
/// the state, so that a look-up finds it whichever of them a crash left behind.
pub fn run<'a>(node: &'a Node, scope: &'a Scope, now_ms: i64) -> impl Iterator<Item = RunRow<'a>> {
    let key = node.state.started_at_ms();
    let row = current(node, scope, now_ms);
    let tombstones: Vec<RunRow<'a>> = node
        .keys()
        .filter(|old_key| *old_key != key)
        .map(|started_at| RunRow {
            started_at,
            is_deleted: 1,
            ..row.clone()
        })
        .collect();
    tombstones.into_iter().chain([row])
}

fn current<'a>(node: &'a Node, scope: &'a Scope, now_ms: i64) -> RunRow<'a> {
    let state = &node.state;
    let cost = state.cost();
    let amount = scaled(cost.amount);
    let total_tokens = state.total_tokens();
    let (first_event_at, last_event_at) = state.event_span_ms();
    let failed = state.status() == Status::Error;
    let error = state.error();
    RunRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        started_at: state.started_at_ms(),
        run_id: &node.run_id,
        version: node.version(scope),
        is_deleted: 0,
        parent_run_id: state.parent_run_id(),
        root_run_id: &node.resolved.root,
        name: state.name(),
        r#type: state.kind(),
        status: match state.status() {
            Status::Started => RunStatus::Started,
            Status::Success => RunStatus::Success,
            Status::Error => RunStatus::Error,
        },
        agent: &node.resolved.agent,
        user_email: &node.resolved.user_email,
        model: state.model(),
        tags: state.tags().collect(),
        thread_id: state.thread_id(),
        ended_at: state.ended_at_ms(),
        latency_ms: state.latency_ms(),
        prompt_tokens: state.prompt_tokens(),
        completion_tokens: state.completion_tokens(),
        total_tokens,
        cached_tokens: state.cached_tokens(),
        reasoning_tokens: state.reasoning_tokens(),
        cost: amount,
        cost_status: match cost.status {
            CostStatus::Priced => rows::CostStatus::Priced,
            CostStatus::Provided => rows::CostStatus::Provided,
            CostStatus::NotLlm => rows::CostStatus::NotLlm,
            CostStatus::NoModel => rows::CostStatus::NoModel,
            CostStatus::NoTokens => rows::CostStatus::NoTokens,
            CostStatus::UnpricedModel => rows::CostStatus::UnpricedModel,
        },
        cost_estimated: 0,
        // The run's own: sums over descendants come with the roll-ups (P6).
        total_cost: amount,
        total_prompt_tokens: state.prompt_tokens().unwrap_or(0),
        total_completion_tokens: state.completion_tokens().unwrap_or(0),
        total_tokens_with_children: total_tokens.unwrap_or(0),
        llm_calls: u64::from(state.kind() == "llm"),
        error_count: u64::from(failed),
        error_name: error.map(|error| error.name.as_ref()).unwrap_or_default(),
        error_message: error
            .map(|error| error.message.as_ref())
            .unwrap_or_default(),
        saved: 0,
        feedback_rating: "",
        feedback_comment: "",
        feedback_at: None,
        input_preview: state.input_preview(),
        output_preview: state.output_preview(),
        metadata: state.metadata().collect(),
        first_event_at,
        last_event_at,
        updated_at: now_ms,
        state: &node.snapshot.state,
    }
}

/// The decimal times 10^18, as the columns hold it. Amounts were bounded on the way in to fit.
fn scaled(amount: Decimal) -> i128 {
    let missing = COST_SCALE.saturating_sub(amount.scale());
    amount
        .mantissa()
        .saturating_mul(10i128.saturating_pow(missing))
}
