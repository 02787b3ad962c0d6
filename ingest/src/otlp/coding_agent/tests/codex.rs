//! Codex's records and spans.

use super::*;

fn codex(name: &str, mut more: Value) -> Value {
    more["event.name"] = format!("codex.{name}").into();
    more["conversation.id"] = "c-1".into();
    more["model"] = "gpt-5".into();
    more
}

fn codex_completed() -> Value {
    codex(
        "sse_event",
        json!({
            "event.kind": "response.completed", "input_token_count": "37", "output_token_count": "75",
            "cached_token_count": "8", "cache_write_token_count": "0", "reasoning_token_count": "64",
            "tool_token_count": "112", "ttft_ms": "22",
        }),
    )
}

#[test]
fn records_of_codex_are_a_conversation_with_responses_and_tools() {
    let (events, lost) = recorded_and_rejected(
        CODEX,
        &[
            (
                0,
                codex("conversation_starts", json!({"approval_policy": "never"})),
            ),
            (1, codex("user_prompt", json!({"prompt": "rain?"}))),
            (
                2,
                codex(
                    "api_request",
                    json!({"http.response.status_code": "200", "duration_ms": "3"}),
                ),
            ),
            (
                3,
                codex(
                    "sse_event",
                    json!({"event.kind": "response.completed", "duration_ms": "3"}),
                ),
            ),
            (3, codex_completed()),
            (
                4,
                codex(
                    "tool_result",
                    json!({
                        "tool_name": "exec_command", "call_id": "call_1", "success": "false", "arguments": "{\"cmd\":\"ls\"}",
                        "output": "missing field", "duration_ms": "1",
                    }),
                ),
            ),
            (5, codex("startup_phase", json!({}))),
            (
                6,
                codex(
                    "api_request",
                    json!({"http.response.status_code": "500", "error.message": "down"}),
                ),
            ),
        ],
    );
    assert_eq!(lost.len(), 3, "{lost:?}");
    assert!(
        lost[0].contains("\"api_request\" of codex is not kept"),
        "{lost:?}"
    );
    let runs = runs(&events);
    let (conversation, run) = only(&runs, "agent");
    check(
        run,
        json!({"input": "rain?", "thread_id": "c-1", "agent": "codex"}),
    );
    let calls: Vec<&Value> = runs.values().filter(|run| run["type"] == "llm").collect();
    let (failed, answered): (Vec<&Value>, Vec<&Value>) = calls
        .into_iter()
        .partition(|run| run.get("error").is_some());
    check(
        answered[0],
        json!({
            "parent_run_id": conversation, "model": "gpt-5", "prompt_tokens": 37, "completion_tokens": 75,
            "cached_tokens": 8, "reasoning_tokens": 64, "total_tokens": 112, "ttft_ms": 22,
            "cache_write_tokens": null, "thread_id": "c-1",
        }),
    );
    check(
        failed[0],
        json!({"error": {"name": "500", "message": "down"}, "prompt_tokens": null}),
    );
    check(
        only(&runs, "tool").1,
        json!({
            "parent_run_id": conversation, "input": {"cmd": "ls"}, "output": "missing field",
            "error": {"message": "missing field"},
        }),
    );
}

#[test]
fn spans_of_codex_are_below_their_turn_and_internal_except_responses_and_tools() {
    const SCOPE: &str = "codex_exec";
    let ids = json!({"turn.id": "t-1", "conversation.id": "c-1"});
    let mut events = spanned(SCOPE, (1, 0, "turn/start", json!({"turn.id": "t-1"})), None);
    events.extend(spanned(SCOPE, (2, 1, "run_turn", ids), None));
    events.extend(spanned(SCOPE, (3, 2, "handle_responses", json!({
        "gen_ai.usage.input_tokens": "37", "gen_ai.usage.output_tokens": "75",
        "gen_ai.usage.cache_read.input_tokens": "8", "gen_ai.usage.cache_write.input_tokens": "0",
        "codex.usage.reasoning_output_tokens": "64", "codex.usage.total_tokens": "112", "thread.id": "3",
    })), Some("gpt-5")));
    events.extend(spanned(SCOPE, (4, 2, "exec_command", json!({
        "tool_name": "exec_command", "call_id": "call_1", "conversation.id": "c-1", "turn.id": "t-1",
        "codex.tool.phase": "dispatch",
    })), None));
    events.extend(spanned(
        SCOPE,
        (5, 0, "auth", json!({"thread.id": "1"})),
        None,
    ));
    events.extend(spanned(
        SCOPE,
        (6, 0, "fs.read_file", json!({"thread.id": "1"})),
        None,
    ));
    events.extend(spanned(
        SCOPE,
        (7, 0, "session_loop", json!({"thread_id": "c-1"})),
        None,
    ));
    let spans = runs(&events);
    let (conversation, run) = only(&spans, "agent");
    check(run, json!({"thread_id": "c-1", "parent_run_id": null}));
    let (turn, run) = only(&spans, "chain");
    check(run, json!({"parent_run_id": conversation}));
    check(
        &spans[&"01".repeat(8)],
        json!({"type": "internal", "parent_run_id": turn}),
    );
    check(
        &spans[&"02".repeat(8)],
        json!({"type": "internal", "parent_run_id": "01".repeat(8)}),
    );
    check(
        &spans[&"07".repeat(8)],
        json!({"parent_run_id": conversation}),
    );
    let (_, of_span) = only(&spans, "llm");
    check(
        of_span,
        json!({
            "model": "gpt-5", "prompt_tokens": 37, "completion_tokens": 75, "cached_tokens": 8,
            "reasoning_tokens": 64, "total_tokens": 112, "parent_run_id": "02".repeat(8),
        }),
    );
    let (tool, run) = only(&spans, "tool");
    check(
        run,
        json!({"parent_run_id": "04".repeat(8), "name": "exec_command_end"}),
    );
    // Neither names anything: they are of one minute.
    let above = |id: &str| spans[&id.repeat(8)]["parent_run_id"].clone();
    assert_eq!(above("05"), above("06"));
    check(
        &spans[above("05").as_str().unwrap()],
        json!({"type": "internal", "parent_run_id": null}),
    );

    let records = runs(&recorded(
        CODEX,
        &[
            (0, codex_completed()),
            (
                1,
                codex(
                    "tool_result",
                    json!({"tool_name": "exec_command", "call_id": "call_1", "success": "true", "output": "x"}),
                ),
            ),
        ],
    ));
    assert_eq!(only(&records, "tool").0, tool);
    assert_eq!(only(&records, "agent").0, conversation);
    let [one, two] =
        [of_span, only(&records, "llm").1].map(|run| run["response_id"].as_str().unwrap());
    assert_eq!(response_id::shared(one), response_id::shared(two));
}
