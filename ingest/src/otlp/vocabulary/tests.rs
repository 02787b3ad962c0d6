use std::collections::HashSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use serde_json::{Value, json};

use super::super::context::Context;
use super::*;

fn any(value: &Value) -> AnyValue {
    let value = match value {
        Value::String(text) => Any::StringValue(text.clone()),
        Value::Number(number) if number.is_i64() => Any::IntValue(number.as_i64().unwrap()),
        Value::Number(number) => Any::DoubleValue(number.as_f64().unwrap()),
        Value::Array(list) => Any::ArrayValue(ArrayValue {
            values: list.iter().map(any).collect(),
        }),
        other => panic!("{other}"),
    };
    AnyValue { value: Some(value) }
}

/// What a span with these attributes says of its run.
fn read(attributes: Value) -> Value {
    let pairs = attributes.as_object().unwrap().iter();
    let pairs: Vec<KeyValue> = pairs
        .map(|(key, value)| KeyValue {
            key: key.clone(),
            value: Some(any(value)),
            ..KeyValue::default()
        })
        .collect();
    let attributes = Attributes::new(&pairs);
    let mut facts = Facts::of(&attributes);
    let context = Context::of(&attributes);
    let json = |value: Option<Json<'_>>| {
        let written = value.map(|value| serde_json::to_value(value).unwrap());
        written.unwrap_or_default()
    };
    let usage = &facts.usage;
    let counts = [
        usage.prompt,
        usage.completion,
        usage.total,
        usage.cached,
        usage.reasoning,
    ];
    let (model, counts) = (json!(usage.model), json!(counts));
    let (input, output) = (facts.take_input().0, facts.take_output().0);
    json!({
        "type": facts.kind, "name": facts.name, "agent": facts.agent, "model": model, "counts": counts,
        "input": json(input), "output": json(output),
        "user": context.user, "thread": context.thread, "tags": context.tags,
    })
}

/// Compares only what is expected.
#[track_caller]
fn check(attributes: Value, expected: Value) {
    let found = read(attributes);
    for (fact, expected) in expected.as_object().unwrap() {
        assert_eq!(found[fact], *expected, "{fact} of {found:#}");
    }
}

#[test]
fn requests_of_the_ai_sdk_are_the_model_calls_and_what_is_around_them_is_not() {
    let chat =
        json!([{"role": "user", "content": [{"type": "text", "text": "Paris?"}]}]).to_string();
    let calls =
        json!([{"toolCallId": "c1", "toolName": "get_weather", "input": {"city": "Paris"}}])
            .to_string();
    check(
        json!({
            "ai.operationId": "ai.generateText.doGenerate", "ai.telemetry.functionId": "weather-agent",
            "ai.model.id": "gpt-4o-mini", "ai.response.model": "gpt-4o-mini-2024-07-18",
            "gen_ai.request.model": "gpt-4o-mini", "gen_ai.system": "openai.chat",
            "ai.prompt.messages": chat, "ai.response.text": "", "ai.response.toolCalls": calls,
            "ai.usage.inputTokens": 37, "ai.usage.outputTokens": 11, "ai.usage.totalTokens": 48,
            "ai.usage.cachedInputTokens": 8, "ai.usage.reasoningTokens": 3,
            "ai.telemetry.metadata.userId": "user-42", "ai.telemetry.metadata.sessionId": "thread-7",
            "ai.telemetry.metadata.tags": ["v1"],
        }),
        json!({
            "type": "llm", "agent": "weather-agent", "model": "gpt-4o-mini-2024-07-18",
            "counts": [37, 11, 48, 8, 3],
            "input": [{"role": "user", "content": [{"type": "text", "text": "Paris?"}]}],
            "output": {"role": "assistant", "content": null, "tool_calls": [{
                "type": "function", "id": "c1", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"},
            }]},
            "user": "user-42", "thread": "thread-7", "tags": ["v1"],
        }),
    );
    check(
        json!({
            "ai.operationId": "ai.streamText", "ai.prompt": "{\"messages\":[]}", "ai.response.text": "18 degrees",
            "ai.model.id": "gpt-4o-mini", "ai.usage.inputTokens": 74, "ai.usage.outputTokens": 22,
        }),
        json!({
            "type": "agent", "model": null, "counts": [null, null, null, null, null],
            "input": {"messages": []}, "output": "18 degrees",
        }),
    );
    check(
        json!({
            "ai.operationId": "ai.toolCall", "ai.toolCall.name": "get_weather", "ai.toolCall.args": "{\"city\":\"Paris\"}",
            "ai.toolCall.result": "\"18 degrees\"",
        }),
        json!({"type": "tool", "name": "get_weather", "input": {"city": "Paris"}, "output": "18 degrees"}),
    );
}

#[test]
fn vectors_of_the_ai_sdk_are_counted_and_not_kept() {
    check(
        json!({
            "ai.operationId": "ai.embedMany.doEmbed", "ai.model.id": "text-embedding-3-small",
            "ai.values": ["\"a\"", "\"b\""], "ai.embeddings": ["[0,0.5,1]", "[0,0.5,1]"], "ai.usage.tokens": 9,
        }),
        json!({
            "type": "llm", "counts": [9, 0, null, null, null], "output": {"embeddings": 2, "dimensions": 3},
            "input": ["a", "b"],
        }),
    );
    check(
        json!({"ai.operationId": "ai.embed", "ai.value": "\"a\"", "ai.embedding": "[0,0.5,1]"}),
        json!({"type": "chain", "input": "a", "output": {"embeddings": 1, "dimensions": 3}}),
    );
}

#[test]
fn version_7_of_the_ai_sdk_names_user_and_session_in_the_context_of_the_agent() {
    check(
        json!({
            "ai.operationId": "ai.generateText", "ai.settings.context.userId": "user-42",
            "ai.settings.context.sessionId": "thread-7", "ai.settings.context.tags": ["v1"],
            "ai.response.toolCalls": json!([{"toolCallId": "c1", "toolName": "t", "input": {"a": 1}}]).to_string(),
        }),
        json!({
            "type": "agent", "user": "user-42", "thread": "thread-7", "tags": ["v1"],
            "output": {"role": "assistant", "content": null, "tool_calls": [{
                "type": "function", "id": "c1", "function": {"name": "t", "arguments": "{\"a\":1}"},
            }]},
        }),
    );
}

#[test]
fn an_observation_of_langfuse_is_a_run_with_the_counts_of_its_object() {
    let own = json!({"input": 29, "output": 11, "total": 48, "input_cache_read": 8, "output_reasoning": 2});
    let openai = json!({
        "prompt_tokens": 37, "completion_tokens": 11, "total_tokens": 48,
        "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 2},
    });
    for usage in [own, openai] {
        check(
            json!({
                "langfuse.observation.type": "generation", "langfuse.observation.model.name": "gpt-4o-mini",
                "langfuse.observation.usage_details": usage.to_string(),
                "langfuse.observation.input": "{\"messages\":[{\"role\":\"user\",\"content\":\"Paris?\"}],\"tools\":[]}",
                "langfuse.observation.output": "{\"role\":\"assistant\",\"content\":\"18\"}",
                "user.id": "user-42", "session.id": "thread-7", "langfuse.trace.tags": ["v1"],
            }),
            json!({
                "type": "llm", "model": "gpt-4o-mini", "counts": [37, 11, 48, 8, 2],
                "input": [{"role": "user", "content": "Paris?"}], "output": {"role": "assistant", "content": "18"},
                "user": "user-42", "thread": "thread-7", "tags": ["v1"],
            }),
        );
    }
    check(
        json!({
            "langfuse.observation.type": "tool", "langfuse.observation.input": "{\"city\":\"Paris\"}",
            "langfuse.observation.output": "18", "langfuse.observation.metadata.userId": "user-42",
            "langfuse.observation.metadata.sessionId": "thread-7",
            "langfuse.observation.metadata.tags": "[\"graph:step:0\",\"v1\"]",
        }),
        json!({
            "type": "tool", "input": {"city": "Paris"}, "output": "18",
            "user": "user-42", "thread": "thread-7", "tags": ["graph:step:0", "v1"],
        }),
    );
    check(
        json!({"langfuse.observation.type": "span"}),
        json!({"type": "span"}),
    );
}

#[test]
fn an_agent_of_pydantic_ai_has_its_conversation() {
    let conversation = json!([
        {"role": "user", "parts": [{"type": "text", "content": "Paris?"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "18"}]},
    ]);
    let asked = json!([{"role": "user", "content": "Paris?"}]);
    let span = json!({
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather-agent", "logfire.msg": "weather-agent run",
        "pydantic_ai.all_messages": conversation.to_string(),
    });
    check(
        span.clone(),
        json!({"type": "agent", "name": "weather-agent", "input": asked, "output": {"role": "assistant", "content": "18"}}),
    );
    let mut with_result = span;
    with_result["final_result"] = "{\"degrees\":18}".into();
    check(
        with_result,
        json!({"input": asked, "output": {"degrees": 18}}),
    );
}

#[test]
fn platforms_that_name_the_type_of_a_span_are_believed() {
    for (attributes, expected) in [
        (
            json!({"langsmith.span.kind": "llm", "langsmith.metadata.thread_id": "t", "langsmith.span.tags": "a, b",
                "langsmith.metadata.ls_model_name": "gpt-4o",
                "langsmith.metadata.usage_metadata": "{\"input_tokens\":37,\"output_tokens\":11,\"total_tokens\":48,\"input_token_details\":{\"cache_read\":8}}"}),
            json!({"type": "llm", "model": "gpt-4o", "thread": "t", "tags": ["a", "b"], "counts": [37, 11, 48, 8, null]}),
        ),
        (
            json!({"mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.spanInputs": "{\"messages\":[]}", "mlflow.spanOutputs": "\"x\"",
                "mlflow.chat.tokenUsage": "{\"input_tokens\":3,\"output_tokens\":2,\"total_tokens\":5}"}),
            json!({"type": "llm", "input": {"messages": []}, "counts": [3, 2, 5, null, null]}),
        ),
        (
            json!({"lmnr.span.type": "TOOL", "lmnr.span.input": "{\"a\":1}", "lmnr.span.output": "2",
                "lmnr.association.properties.user_id": "u", "lmnr.association.properties.session_id": "s"}),
            json!({"type": "tool", "input": {"a": 1}, "output": "2", "user": "u", "thread": "s"}),
        ),
        (
            json!({"mastra.span.type": "agent_run", "mastra.agent_run.input": "{\"q\":1}", "mastra.agent_run.output": "{\"a\":2}",
                "mastra.metadata.userId": "u", "mastra.metadata.threadId": "t", "mastra.tags": ["v1"]}),
            json!({"type": "agent", "input": {"q": 1}, "output": {"a": 2}, "user": "u", "thread": "t", "tags": ["v1"]}),
        ),
        (
            json!({"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_weather"}),
            json!({"type": "tool", "name": "get_weather"}),
        ),
        (
            json!({"gen_ai.operation.name": "acompletion", "gen_ai.usage.input_tokens": 37, "gen_ai.usage.output_tokens": 11,
                "metadata.usage_object": "{'completion_tokens': 11, 'prompt_tokens': 37, 'prompt_tokens_details': {'audio_tokens': None, 'cached_tokens': 8}}"}),
            json!({"type": "llm", "counts": [37, 11, null, 8, null]}),
        ),
        (
            json!({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "rain?",
                "gen_ai.retrieval.documents": "[{\"id\":1}]", "metadata": "{\"user_id\":\"u\",\"session_id\":\"s\"}"}),
            json!({"type": "retriever", "input": "rain?", "output": [{"id": 1}], "user": "u", "thread": "s"}),
        ),
        (
            json!({"gen_ai.request.user": "u", "gen_ai.operation.name": "chat"}),
            json!({"type": "llm", "user": "u"}),
        ),
        (
            json!({"user": "u", "session": "s", "tags": ["x"]}),
            json!({"user": "u", "thread": "s", "tags": ["x"], "type": "span"}),
        ),
    ] {
        check(attributes, expected);
    }
}

#[test]
fn requests_of_google_adk_are_messages() {
    let request = json!({
        "model": "gemini-2.5-flash",
        "config": {"system_instruction": "You are a weather bot."},
        "contents": [{"role": "user", "parts": [{"text": "Paris?"}]}],
    });
    let response = json!({"content": {"role": "model", "parts": [{"text": "18"}]}});
    check(
        json!({
            "gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "gemini-2.5-flash",
            "gcp.vertex.agent.session_id": "s",
            "gcp.vertex.agent.llm_request": request.to_string(), "gcp.vertex.agent.llm_response": response.to_string(),
        }),
        json!({
            "type": "llm", "thread": "s",
            "input": [{"role": "system", "content": "You are a weather bot."}, {"role": "user", "content": "Paris?"}],
            "output": {"role": "assistant", "content": "18"},
        }),
    );
}

#[test]
fn every_vocabulary_is_documented_and_says_where_its_names_are_from() {
    let guide = include_str!("../../../../docs/guide/otlp.md");
    let mut names = HashSet::new();
    for one in VOCABULARIES {
        assert!(names.insert(one.name), "{} is there twice", one.name);
        assert!(
            !one.source.is_empty() && !one.prefix.is_empty(),
            "{}",
            one.name
        );
        assert!(
            guide.contains(&format!("| {} |", one.name)),
            "docs/guide/otlp.md has no row for {}",
            one.name
        );
    }
}
