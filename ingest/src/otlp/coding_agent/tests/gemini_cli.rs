//! Gemini CLI's records and spans.

use super::super::gemini_cli::DETAILS;
use super::*;

fn gemini(name: &str, mut more: Value) -> Value {
    more["event.name"] = name.into();
    more["session.id"] = "s1".into();
    more
}

fn gemini_response(at: &str) -> Value {
    let text = |text: &str| json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]});
    gemini(
        "gemini_cli.api_response",
        json!({
            "model": "gemini-2.5-flash", "input_token_count": 37, "output_token_count": 11,
            "cached_content_token_count": 8, "thoughts_token_count": 64, "tool_token_count": 0,
            "total_token_count": 112, "duration_ms": 200, "prompt_id": "p1", "event.timestamp": at,
            "response_text": json!([text("18 "), text("degrees")]).to_string(),
        }),
    )
}

#[test]
fn records_of_gemini_cli_are_a_prompt_with_model_calls_and_tools() {
    let details = |more: Value| {
        let mut details = gemini(DETAILS, more);
        details["event.timestamp"] = "2026-11-22T09:34:53.676Z".into();
        details["gen_ai.operation.name"] = "generate_content".into();
        details["gen_ai.input.messages"] =
            r#"[{"role":"user","parts":[{"type":"text","content":"rain?"}]}]"#.into();
        details["gen_ai.usage.input_tokens"] = 37.into();
        details
    };
    let (events, lost) = recorded_and_rejected(
        GEMINI,
        &[
            (
                0,
                gemini(
                    "gemini_cli.user_prompt",
                    json!({"prompt": "rain?", "prompt_id": "p1"}),
                ),
            ),
            (
                1,
                gemini(
                    "gemini_cli.api_request",
                    json!({"prompt_id": "p1", "request_text": "[]"}),
                ),
            ),
            (2, details(json!({"ids": true}))),
            (300, gemini_response("2026-11-22T09:34:53.676Z")),
            (
                301,
                details(
                    json!({"gen_ai.output.messages": r#"[{"role":"system","parts":[]}]"#, "gen_ai.response.id": "r1"}),
                ),
            ),
            (
                400,
                gemini(
                    "gemini_cli.tool_call",
                    json!({
                        "function_name": "update_topic", "function_args": "{\n  \"city\": \"Paris\"\n}", "success": false,
                        "error": "no topic", "error_type": "invalid", "prompt_id": "p1",
                    }),
                ),
            ),
        ],
    );
    assert_eq!(lost.len(), 2, "{lost:?}");
    let runs = runs(&events);
    let (prompt, run) = only(&runs, "agent");
    check(
        run,
        json!({"input": "rain?", "output": "18 degrees", "thread_id": "s1", "agent": "gemini-cli"}),
    );
    check(
        only(&runs, "llm").1,
        json!({
            "parent_run_id": prompt, "model": "gemini-2.5-flash", "prompt_tokens": 37, "completion_tokens": 75,
            "cached_tokens": 8, "reasoning_tokens": 64, "total_tokens": 112,
            "input": [{"role": "user", "content": "rain?"}], "output": {"role": "assistant", "content": "18 degrees"},
        }),
    );
    check(
        only(&runs, "tool").1,
        json!({
            "parent_run_id": prompt, "input": {"city": "Paris"}, "error": {"name": "invalid", "message": "no topic"},
        }),
    );
}

#[test]
fn spans_of_gemini_cli_are_below_their_prompt() {
    let call = |more: Value| {
        let mut call = json!({
            "gen_ai.operation.name": "llm_call", "gen_ai.agent.name": "gemini-cli", "gen_ai.agent.description": "x",
            "gen_ai.conversation.id": "s1", "gen_ai.prompt.name": "p1", "gen_ai.request.model": "gemini-2.5-flash",
        });
        for (key, value) in more.as_object().unwrap() {
            call[key] = value.clone();
        }
        call
    };
    let mut events = spanned(
        GEMINI,
        (
            1,
            0,
            "llm_call",
            call(json!({
                "gen_ai.usage.input_tokens": 37, "gen_ai.usage.output_tokens": 11,
                "gen_ai.input.messages": r#"[{"role":"user","parts":[{"text":"context"},{"text":"rain?"}]}]"#,
                "gen_ai.output.messages": r#"[{"role":"model","parts":[{"text":"18 "}]},{"role":"model","parts":[{"text":"degrees"}]}]"#,
                "gen_ai.system_instructions": "\"Be brief.\"",
            })),
        ),
        None,
    );
    let request = json!({"callId": "c", "name": "ls", "args": {"dir": "."}, "prompt_id": "p1"});
    let operation = |name: &str, more: Value| {
        let mut span = call(more);
        span["gen_ai.operation.name"] = name.into();
        span.as_object_mut().unwrap().remove("gen_ai.prompt.name");
        span
    };
    events.extend(spanned(
        GEMINI,
        (
            2,
            0,
            "schedule_tool_calls",
            operation(
                "schedule_tool_calls",
                json!({
                    "gen_ai.input.messages": json!([request]).to_string(),
                }),
            ),
        ),
        None,
    ));
    events.extend(spanned(GEMINI, (3, 2, "tool_call", operation("tool_call", json!({
        "gen_ai.tool.name": "ls", "gen_ai.input.messages": request.to_string(),
        "gen_ai.output.messages": r#"{"status":"success","response":{"resultDisplay":"a.txt"}}"#,
    }))), None));
    let spans = runs(&events);
    let (prompt, run) = only(&spans, "agent");
    check(
        run,
        json!({"input": "rain?", "output": "18 degrees", "thread_id": "s1"}),
    );
    let (_, of_span) = only(&spans, "llm");
    check(
        of_span,
        json!({
            "parent_run_id": prompt, "prompt_tokens": 37, "completion_tokens": 11, "model": "gemini-2.5-flash",
            "output": {"role": "assistant", "content": "18 degrees"},
        }),
    );
    assert_eq!(
        of_span["input"][0],
        json!({"role": "system", "content": "Be brief."})
    );
    check(
        &spans[&"02".repeat(8)],
        json!({"type": "internal", "parent_run_id": prompt}),
    );
    let (tool, run) = only(&spans, "tool");
    check(
        run,
        json!({"name": "ls_end", "input": {"dir": "."}, "output": "a.txt", "parent_run_id": "03".repeat(8)}),
    );

    let records = runs(&recorded(
        GEMINI,
        &[
            (0, gemini_response("2026-11-22T09:34:53.676Z")),
            (
                1,
                gemini(
                    "gemini_cli.tool_call",
                    json!({
                        "function_name": "ls", "function_args": "{\n \"dir\": \".\"\n}", "success": true, "prompt_id": "p1", "ids": true,
                    }),
                ),
            ),
        ],
    ));
    assert_eq!(only(&records, "tool").0, tool);
    assert_eq!(only(&records, "agent").0, prompt);
    let [one, two] =
        [of_span, only(&records, "llm").1].map(|run| run["response_id"].as_str().unwrap());
    assert_eq!(response_id::shared(one), response_id::shared(two));

    // Without detailed traces a span has no counts: then the records are the calls.
    let bare = runs(&spanned(GEMINI, (1, 0, "llm_call", call(json!({}))), None));
    check(
        &bare[&"01".repeat(8)],
        json!({"type": "internal", "model": null}),
    );
}
