//! From runs in memory to rows.

use schemas::fold::Totals;
use store::tables::rows::{NO_TURN, RunRow, TURN_UNKNOWN};

use super::{Node, Scope, Turn};

/// A row of a changed run, made when it is written: it takes many times the memory of what it is made of.
#[derive(Clone, Copy, Debug)]
pub struct RunToStore<'a> {
    node: &'a Node,
    scope: &'a Scope,
    started_at_ms: i64,
    is_deleted: bool,
    now_ms: i64,
}

impl<'a> RunToStore<'a> {
    /// Start of the run by this row: part of its key.
    pub fn started_at_ms(&self) -> i64 {
        self.started_at_ms
    }

    pub fn row(&self) -> RunRow<'a> {
        RunRow {
            started_at: self.started_at_ms,
            is_deleted: u8::from(self.is_deleted),
            ..current(self.node, self.scope, self.now_ms)
        }
    }
}

/// The rows of a run that changed: the run itself, and a tombstone at each other key where it still has a row. All
/// contain the state, so that a look-up finds it whichever of them a crash left behind. Marks on a run that was never
/// seen are a tombstone too: no reader sees it, and the run finds it when it arrives.
pub fn rows<'a>(
    node: &'a Node,
    scope: &'a Scope,
    now_ms: i64,
) -> impl Iterator<Item = RunToStore<'a>> {
    let key = node.state.started_at_ms();
    let row = move |started_at_ms, is_deleted| RunToStore {
        node,
        scope,
        started_at_ms,
        is_deleted,
        now_ms,
    };
    let old_keys = node.keys().filter(move |old_key| *old_key != key);
    let tombstones = old_keys.map(move |old_key| row(old_key, true));
    tombstones.chain([row(key, node.state.is_unseen())])
}

/// Longest time from the question of a turn to its answer, milliseconds: reads of a stretch of time look for turns that
/// began so long before it. An answer that took longer counts as given after this time.
const TURN_MS_MAX: i64 = 24 * 60 * 60 * 1000;

/// The column that says whether the run begins a turn of its thread, and when that ended.
fn turn_at(node: &Node) -> i64 {
    match node.resolved.turn {
        Turn::Unknown => TURN_UNKNOWN,
        Turn::No => NO_TURN,
        Turn::Begins => {
            let took = node.state.latency_ms().unwrap_or_default();
            let ended_at_ms = node
                .state
                .started_at_ms()
                .saturating_add(took.min(TURN_MS_MAX));
            ended_at_ms.max(1)
        }
    }
}

fn current<'a>(node: &'a Node, scope: &'a Scope, now_ms: i64) -> RunRow<'a> {
    let state = &node.state;
    let cost = node.cost;
    let Totals {
        cost: total_cost,
        prompt_tokens: total_prompt_tokens,
        completion_tokens: total_completion_tokens,
        tokens: total_tokens_with_children,
        llm_calls,
        errors: error_count,
    } = node.totals;
    let feedback = state.latest_feedback();
    let (first_event_at, last_event_at) = state.event_span_ms();
    let error = state.error();
    let usage = state.usage();
    let tokens = usage.tokens;
    let calls = match node.counting.is_elsewhere() {
        true => 0,
        false => usage.calls,
    };
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
        status: state.status(),
        agent: &node.resolved.agent,
        user_email: &node.resolved.user_email,
        model: state.model(),
        tags: state.tags().collect(),
        thread_id: &node.resolved.thread,
        turn_at: turn_at(node),
        ended_at: state.ended_at_ms(),
        latency_ms: state.latency_ms(),
        prompt_tokens: tokens.prompt,
        completion_tokens: tokens.completion,
        total_tokens: tokens.total,
        cached_tokens: tokens.cached,
        reasoning_tokens: tokens.reasoning,
        ttft_ms: state.ttft_ms(),
        calls,
        enclosing_call: &node.resolved.enclosing_call,
        call_links: &node.counting.links,
        cost: cost.amount,
        cost_status: cost.status,
        counted_run_id: &node.counting.counted_run_id,
        cost_estimated: u8::from(cost.is_estimated),
        total_cost,
        total_prompt_tokens,
        total_completion_tokens,
        total_tokens_with_children,
        llm_calls,
        error_count,
        error_name: error.map(|error| error.name.as_ref()).unwrap_or_default(),
        error_message: error
            .map(|error| error.message.as_ref())
            .unwrap_or_default(),
        saved: u8::from(state.is_saved()),
        feedback_rating: feedback
            .map(|feedback| feedback.rating.as_str())
            .unwrap_or_default(),
        feedback_comment: feedback
            .map(|feedback| feedback.comment)
            .unwrap_or_default(),
        feedback_at: feedback.map(|feedback| feedback.at_ms),
        input_preview: state.input_preview(),
        output_preview: state.output_preview(),
        metadata: state.metadata().collect(),
        first_event_at,
        last_event_at,
        updated_at: now_ms,
        state: &node.snapshot.state,
    }
}
