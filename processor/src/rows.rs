//! From folded runs to rows.

use rust_decimal::Decimal;
use schemas::event::Rating;
use schemas::fold::{CostStatus, RunState, Status};
use schemas::price::PriceTable;
use store::rows::{self, EventRow, FeedbackRow, InstanceRow, MessageRow, RunRow, RunStatus};

use crate::batch::{Node, Scope};
use crate::decode::{EventLine, FeedbackLine, MessageLine, StartLine};
use crate::totals::OwnCost;

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

/// The row of a message.
pub fn message<'a>(line: &'a MessageLine<'a>, scopes: &'a [Scope]) -> MessageRow<'a> {
    let scope = &scopes[line.scope];
    MessageRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        timestamp: line.timestamp_ms,
        event_id: line.id.0,
        run_id: &line.run_id,
        parent_run_id: line.parent_run_id.as_deref().unwrap_or_default(),
        thread_id: line.thread_id.as_deref().unwrap_or_default(),
        agent: line.agent.as_deref().unwrap_or_default(),
        user_email: line.user_email.as_deref().unwrap_or_default(),
        role: &line.message.role,
        content: &line.message.content,
    }
}

/// The row of a judgement.
pub fn feedback<'a>(line: &'a FeedbackLine<'a>, scopes: &'a [Scope]) -> FeedbackRow<'a> {
    let scope = &scopes[line.scope];
    FeedbackRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        run_id: &line.run_id,
        timestamp: line.timestamp_ms,
        event_id: line.id.0,
        rating: line
            .judgement
            .rating
            .map(Rating::as_str)
            .unwrap_or_default(),
        comment: line.judgement.comment.as_deref().unwrap_or_default(),
    }
}

/// The row of an instance.
pub fn instance<'a>(line: &'a StartLine<'a>, scopes: &'a [Scope]) -> InstanceRow<'a> {
    let scope = &scopes[line.scope];
    let (project, app) = (scope.project.as_str(), scope.app.as_str());
    InstanceRow::of(project, app, &line.start, line.input)
}

/// What a run costs by these prices, as its row says it.
pub fn own_cost(state: &RunState, prices: &PriceTable) -> OwnCost {
    let cost = state.cost(prices);
    OwnCost {
        amount: scaled(cost.amount),
        status: cost.status,
        is_estimated: cost.is_estimated,
    }
}

/// The rows of a run that changed: the run itself, and a tombstone at each other key it still has a row at. All carry
/// the state, so that a look-up finds it whichever of them a crash left behind. Marks on a run that was never seen are
/// a tombstone too: nobody is shown it, and the run finds it when it comes.
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
    let row = RunRow {
        is_deleted: u8::from(node.state.is_unseen()),
        ..row
    };
    tombstones.into_iter().chain([row])
}

fn current<'a>(node: &'a Node, scope: &'a Scope, now_ms: i64) -> RunRow<'a> {
    let state = &node.state;
    let (cost, totals) = (node.cost, &node.totals);
    let verdict = state.verdict();
    let (first_event_at, last_event_at) = state.event_span_ms();
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
        total_tokens: state.total_tokens(),
        cached_tokens: state.cached_tokens(),
        reasoning_tokens: state.reasoning_tokens(),
        cost: cost.amount,
        cost_status: stored_status(cost.status),
        cost_estimated: u8::from(cost.is_estimated),
        total_cost: totals.cost,
        total_prompt_tokens: totals.prompt_tokens,
        total_completion_tokens: totals.completion_tokens,
        total_tokens_with_children: totals.tokens,
        llm_calls: totals.llm_calls,
        error_count: totals.errors,
        error_name: error.map(|error| error.name.as_ref()).unwrap_or_default(),
        error_message: error
            .map(|error| error.message.as_ref())
            .unwrap_or_default(),
        saved: u8::from(state.is_saved()),
        feedback_rating: verdict
            .map(|verdict| verdict.rating.as_str())
            .unwrap_or_default(),
        feedback_comment: verdict.map(|verdict| verdict.comment).unwrap_or_default(),
        feedback_at: verdict.map(|verdict| verdict.at_ms),
        input_preview: state.input_preview(),
        output_preview: state.output_preview(),
        metadata: state.metadata().collect(),
        first_event_at,
        last_event_at,
        updated_at: now_ms,
        state: &node.snapshot.state,
    }
}

/// The status as the table numbers it.
pub(crate) fn stored_status(status: CostStatus) -> rows::CostStatus {
    match status {
        CostStatus::Priced => rows::CostStatus::Priced,
        CostStatus::Provided => rows::CostStatus::Provided,
        CostStatus::NotLlm => rows::CostStatus::NotLlm,
        CostStatus::NoModel => rows::CostStatus::NoModel,
        CostStatus::NoTokens => rows::CostStatus::NoTokens,
        CostStatus::UnpricedModel => rows::CostStatus::UnpricedModel,
    }
}

/// The decimal times 10^18, as the columns hold it. Amounts were bounded on the way in to fit.
pub(crate) fn scaled(amount: Decimal) -> i128 {
    let missing = COST_SCALE.saturating_sub(amount.scale());
    amount
        .mantissa()
        .saturating_mul(10i128.saturating_pow(missing))
}
