//! Claude Code's records and spans.

use super::*;

const CLAUDE_SPANS: &str = "com.anthropic.claude_code.tracing";

fn claude(name: &str, mut more: Value) -> Value {
    let fields = more.as_object_mut().unwrap();
    fields.insert("event.name".into(), name.into());
    fields.insert("session.id".into(), "s1".into());
    fields.insert("prompt.id".into(), "p1".into());
    fields.insert("body".into(), format!("claude_code.{name}").into());
    more
}

fn claude_request() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "input_tokens": "20", "output_tokens": "11",
        "cache_read_tokens": "8000", "cache_creation_tokens": "900", "ttft_ms": "384",
    })
}

#[test]
fn records_of_claude_code_are_an_interaction_with_requests_and_tools() {
    let mut request = claude_request();
    for (key, value) in [
        ("cache_creation_5m_tokens", json!("600")),
        ("cache_creation_1h_tokens", json!("300")),
        ("cost_usd", json!(0.006)),
        ("duration_ms", json!("667")),
    ] {
        request[key] = value;
    }
    let tool = json!({
        "tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true", "duration_ms": "464",
        "tool_input": "{\"command\":\"echo ok\"}", "tool_result_size_bytes": "10",
    });
    let events = recorded(
        CLAUDE,
        &[
            (
                0,
                claude(
                    "user_prompt",
                    json!({"prompt": "rain?", "prompt_length": "5"}),
                ),
            ),
            (700, claude("api_request", request)),
            (
                710,
                claude(
                    "tool_decision",
                    json!({"tool_name": "Bash", "tool_use_id": "toolu_1", "decision": "accept", "source": "config"}),
                ),
            ),
            (1200, claude("tool_result", tool)),
            (
                1300,
                claude("assistant_response", json!({"response": "18 degrees"})),
            ),
        ],
    );
    let runs = runs(&events);
    assert_eq!(runs.len(), 3, "{runs:#?}");
    let (prompt, interaction) = only(&runs, "agent");
    check(
        interaction,
        json!({
            "input": "rain?", "output": "18 degrees", "agent": "claude-code", "thread_id": "s1", "parent_run_id": null,
            "name": "claude_code.interaction_end",
        }),
    );
    check(
        only(&runs, "llm").1,
        json!({
            "parent_run_id": prompt, "model": "claude-sonnet-4-5", "prompt_tokens": 8920, "completion_tokens": 11,
            "cached_tokens": 8000, "cache_write_tokens": 600, "cache_write_1h_tokens": 300, "estimated_cost": 0.006,
            "ttft_ms": 384, "thread_id": "s1", "name": "claude_code.llm_request_end",
        }),
    );
    check(
        only(&runs, "tool").1,
        json!({
            "parent_run_id": prompt, "name": "Bash_end", "input": {"command": "echo ok"},
            "output": {"success": true, "result_size_bytes": 10},
        }),
    );
    // Again, in any order: the same events.
    let again = recorded(
        CLAUDE,
        &[(
            0,
            claude(
                "user_prompt",
                json!({"prompt": "rain?", "prompt_length": "5"}),
            ),
        )],
    );
    assert!(again.iter().all(|event| events.contains(event)));
}

#[test]
fn failures_of_claude_code_are_failed_runs() {
    let events = recorded(
        CLAUDE,
        &[
            (
                0,
                claude(
                    "api_error",
                    json!({"model": "m", "error": "overloaded", "status_code": "529"}),
                ),
            ),
            (
                1,
                claude(
                    "tool_decision",
                    json!({"tool_name": "Bash", "tool_use_id": "t", "decision": "reject", "source": "user_reject"}),
                ),
            ),
            (
                2,
                claude(
                    "tool_result",
                    json!({"tool_name": "Read", "tool_use_id": "u", "success": "false", "error": "no such file"}),
                ),
            ),
        ],
    );
    let errors: Vec<(&Value, &Value)> = events
        .iter()
        .filter(|event| event.get("error").is_some())
        .map(|event| (&event["name"], &event["error"]))
        .collect();
    assert_eq!(
        errors,
        [
            (
                &json!("claude_code.llm_request_error"),
                &json!({"name": "529", "message": "overloaded"})
            ),
            (
                &json!("Bash_error"),
                &json!({"name": "rejected", "message": "rejected by user_reject"})
            ),
            (&json!("Read_error"), &json!({"message": "no such file"})),
        ]
    );
}

#[test]
fn a_span_and_a_record_of_claude_code_meet() {
    let mut request = claude_request();
    request["span.type"] = "llm_request".into();
    request["session.id"] = "s1".into();
    let mut events = spanned(
        CLAUDE_SPANS,
        (3, 2, "claude_code.llm_request", request),
        None,
    );
    events.extend(spanned(CLAUDE_SPANS, (4, 2, "claude_code.tool", json!({
        "span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1", "session.id": "s1",
        "full_command": "echo ok", "gen_ai.operation.name": "execute_tool", "tool.output": {"output": "ok"},
    })), None));
    events.extend(spanned(
        CLAUDE_SPANS,
        (
            5,
            4,
            "claude_code.tool.execution",
            json!({"span.type": "tool.execution"}),
        ),
        None,
    ));
    events.extend(spanned(
        CLAUDE_SPANS,
        (
            2,
            0,
            "claude_code.interaction",
            json!({
                "span.type": "interaction", "user_prompt": "rain?", "session.id": "s1",
            }),
        ),
        None,
    ));
    let spans = runs(&events);
    let (tool, run) = only(&spans, "tool");
    check(
        run,
        json!({"parent_run_id": "04".repeat(8), "input": {"command": "echo ok"}, "output": "ok", "name": "Bash_end"}),
    );
    check(
        &spans[&"04".repeat(8)],
        json!({"type": "internal", "parent_run_id": "02".repeat(8)}),
    );
    check(
        &spans[&"05".repeat(8)],
        json!({"type": "internal", "parent_run_id": "04".repeat(8)}),
    );
    let (interaction, run) = only(&spans, "agent");
    check(
        run,
        json!({"run_id": "02".repeat(8), "input": "rain?", "agent": "claude-code"}),
    );
    let (_, of_span) = only(&spans, "llm");
    check(
        of_span,
        json!({"prompt_tokens": 8920, "cached_tokens": 8000, "cache_write_tokens": 900, "ttft_ms": 384}),
    );

    // With spans, records name the span of the interaction.
    let with_ids = |name, mut more: Value| {
        more["ids"] = true.into();
        claude(name, more)
    };
    let records = runs(&recorded(
        CLAUDE,
        &[
            (0, with_ids("assistant_response", json!({"response": "18"}))),
            (1, with_ids("api_request", claude_request())),
            (
                2,
                with_ids(
                    "tool_result",
                    json!({"tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true"}),
                ),
            ),
        ],
    ));
    assert_eq!(only(&records, "agent").0, interaction);
    assert_eq!(only(&records, "tool").0, tool);
    let (id, of_log) = only(&records, "llm");
    assert!(!spans.contains_key(id));
    check(of_log, json!({"parent_run_id": interaction}));
    let [one, two] = [of_span, of_log].map(|run| run["response_id"].as_str().unwrap());
    assert_ne!(one, two);
    assert_eq!(response_id::shared(one), response_id::shared(two));
}

#[test]
fn tokens_of_claude_code_are_exclusive_even_where_few_are_cached() {
    let span = json!({
        "span.type": "llm_request", "input_tokens": 5000, "output_tokens": 1, "cache_read_tokens": 10,
        "model": "claude-sonnet-4-5",
    });
    let runs = runs(&spanned(
        CLAUDE_SPANS,
        (3, 0, "claude_code.llm_request", span),
        None,
    ));
    check(
        only(&runs, "llm").1,
        json!({"prompt_tokens": 5010, "cached_tokens": 10}),
    );
}
