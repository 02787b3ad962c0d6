//! Rows for tests.

use schemas::fold::{CostStatus, RunStatus};
use store::tables::rows::{EventRow, RunRow};

/// 2026-11-20T10:00:00Z.
pub(crate) const NOON_MS: i64 = 1_795_168_800_000;

pub(crate) fn event<'a>(
    app: &'a str,
    run_id: &'a str,
    event_id: u128,
    timestamp: i64,
) -> EventRow<'a> {
    EventRow {
        project_id: "default",
        app_id: app,
        timestamp,
        run_id,
        event_id,
        name: "agent_start",
        payload: br#"{"name":"agent_start"}"#,
        received_at: timestamp,
        stored_at: timestamp,
    }
}

pub(crate) fn run<'a>(app: &'a str, run_id: &'a str, version: u64, started_at: i64) -> RunRow<'a> {
    RunRow {
        project_id: "default",
        app_id: app,
        started_at,
        run_id,
        version,
        is_deleted: 0,
        parent_run_id: "",
        root_run_id: run_id,
        name: "agent",
        r#type: "agent",
        status: RunStatus::Error,
        agent: "scout",
        user_email: "ada@example.com",
        model: "",
        tags: vec!["a", "b"],
        thread_id: "",
        ended_at: Some(started_at + 1500),
        latency_ms: Some(1500),
        prompt_tokens: Some(12),
        completion_tokens: None,
        total_tokens: None,
        ttft_ms: None,
        cached_tokens: None,
        reasoning_tokens: None,
        cost: 1_500_000_000_000_000,
        cost_status: CostStatus::Priced,
        cost_estimated: 0,
        total_cost: 2_000_000_000_000_000_000,
        total_prompt_tokens: 12,
        total_completion_tokens: 0,
        total_tokens_with_children: 12,
        llm_calls: 1,
        error_count: 1,
        error_name: "ValueError",
        error_message: "no",
        saved: 1,
        feedback_rating: "positive",
        feedback_comment: "",
        feedback_at: None,
        calls: 0,
        counted_run_id: "",
        enclosing_call: "",
        turn_at: 0,
        call_links: &[7, 1 << 63],
        input_preview: "in",
        output_preview: "out",
        metadata: vec![("k", "v"), ("k2", "")],
        first_event_at: started_at,
        last_event_at: started_at + 1500,
        updated_at: started_at + 2000,
        state: b"\x00\xffstate",
    }
}
