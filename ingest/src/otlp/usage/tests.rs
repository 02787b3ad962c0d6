use serde_json::{Value, json};

use super::*;
use crate::otlp::draft::Spent;
use crate::otlp::span::tests::attributes;

/// The usage in an event of a model call with these attributes, by an instrumentation.
fn event(scope: &str, pairs: Value) -> Value {
    let pairs = attributes(pairs);
    let attributes = Attributes::new(&pairs).of_scope(scope);
    let usage = Usage::of_model_call(&attributes, Used::by(&attributes));
    serde_json::to_value(Spent::from(usage)).unwrap()
}

#[track_caller]
fn check(scope: &str, pairs: Value, expected: Value) {
    assert_eq!(event(scope, pairs.clone()), expected, "{scope} {pairs}");
}

/// 20 tokens, 900 written to a cache, 8000 read from one, and 11 of output.
fn anthropic() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "prompt_tokens": 8920, "completion_tokens": 11,
        "cached_tokens": 8000, "cache_write_tokens": 900,
    })
}

fn with(mut event: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

#[test]
fn a_call_of_anthropic_is_the_same_in_every_vocabulary() {
    let model =
        json!({"gen_ai.response.model": "claude-sonnet-4-5", "gen_ai.usage.output_tokens": 11});
    let call = |more| with(model.clone(), more);
    let raw = json!({"input_tokens": 20, "output_tokens": 11, "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 8000, "service_tier": "standard",
        "cache_creation": {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0}});
    let metadata =
        json!({"anthropic": {"usage": raw, "cacheCreationInputTokens": 900}}).to_string();
    for (scope, pairs) in [
        // Included: Anthropic's SDK, the conventions under both names, pydantic-ai, OpenLLMetry.
        (
            "com.anthropic.sdk.python",
            json!({"gen_ai.provider.name": "anthropic", "gen_ai.usage.input_tokens": 8920,
                "gen_ai.usage.cache_write.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 8000,
                "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": 900,
                "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 0,
                "anthropic.response.service_tier": "standard"}),
        ),
        (
            "pydantic-ai",
            json!({"gen_ai.provider.name": "anthropic", "gen_ai.usage.input_tokens": 8920,
                "gen_ai.usage.cache_creation.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 8000,
                "gen_ai.usage.details.cache_write_tokens": 900, "gen_ai.usage.details.cache_read_tokens": 8000,
                "gen_ai.usage.details.cache_creation_input_tokens": 900,
                "gen_ai.usage.details.cache_read_input_tokens": 8000}),
        ),
        (
            "opentelemetry.instrumentation.anthropic",
            json!({"gen_ai.system": "anthropic", "gen_ai.usage.input_tokens": 8920,
                "gen_ai.usage.cache_creation_input_tokens": 900, "gen_ai.usage.cache_read_input_tokens": 8000}),
        ),
        (
            "gen_ai",
            json!({"gen_ai.provider.name": "anthropic", "gen_ai.usage.input_tokens": 8920,
                "gen_ai.usage.cache_creation.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 8000}),
        ),
        // Beside: OpenLLMetry of Bedrock, OpenLIT.
        (
            "opentelemetry.instrumentation.bedrock",
            json!({"gen_ai.system": "aws.bedrock", "gen_ai.usage.input_tokens": 20,
                "gen_ai.usage.cache_creation_input_tokens": 900, "gen_ai.usage.cache_read_input_tokens": 8000}),
        ),
        (
            "openlit.otel.tracing",
            json!({"gen_ai.provider.name": "anthropic", "gen_ai.usage.input_tokens": 20,
                "gen_ai.usage.cache_creation.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 8000}),
        ),
        // AI SDK 5, and 6 with the details; a call for an object has its counts under former names.
        (
            "ai",
            json!({"ai.model.provider": "anthropic.messages", "ai.usage.inputTokens": 20,
                "gen_ai.usage.input_tokens": 20, "ai.usage.outputTokens": 11,
                "ai.usage.cachedInputTokens": 8000, "ai.response.providerMetadata": metadata}),
        ),
        (
            "ai",
            json!({"ai.model.provider": "anthropic.messages", "ai.usage.promptTokens": 20,
                "ai.usage.completionTokens": 11, "ai.response.providerMetadata": metadata}),
        ),
        (
            "ai",
            json!({"ai.model.provider": "anthropic.messages", "ai.usage.inputTokens": 8920,
                "ai.usage.outputTokens": 11, "ai.usage.cachedInputTokens": 8000,
                "ai.usage.inputTokenDetails.noCacheTokens": 20, "ai.usage.inputTokenDetails.cacheReadTokens": 8000,
                "ai.usage.inputTokenDetails.cacheWriteTokens": 900, "ai.response.providerMetadata": metadata}),
        ),
        (
            "ai",
            json!({"ai.model.provider": "anthropic.messages", "ai.usage.promptTokens": 8920,
                "ai.usage.completionTokens": 11, "ai.response.providerMetadata": metadata}),
        ),
        // Objects: LiteLLM, Langfuse's own names, Anthropic's in Langfuse, MLflow.
        (
            "litellm",
            json!({"gen_ai.usage.input_tokens": 8920,
                "metadata.usage_object": "{'completion_tokens': 11, 'prompt_tokens': 8920, 'prompt_tokens_details': {'cached_tokens': 8000, 'cache_creation_tokens': 900, 'text_tokens': None}, 'cache_creation_input_tokens': 900, 'cache_read_input_tokens': 8000}"}),
        ),
        (
            "langfuse-sdk",
            json!({"langfuse.observation.usage_details": json!({"input": 20, "output": 11,
                "input_cache_read": 8000, "input_cache_creation": 900}).to_string()}),
        ),
        (
            "langfuse-sdk",
            json!({"langfuse.observation.usage_details": json!({"input": 20, "output": 11,
                "cache_read_input_tokens": 8000, "cache_creation_input_tokens": 900,
                "cache_creation_ephemeral_5m_input_tokens": 900}).to_string()}),
        ),
        (
            "langfuse-sdk",
            json!({"langfuse.observation.usage_details": json!({"input": 20, "output": 11, "input_cache_read": 8000,
                "input_cache_creation": 0, "input_ephemeral_5m_input_tokens": 900}).to_string()}),
        ),
        (
            "mlflow",
            json!({"mlflow.message.format": "\"anthropic\"", "mlflow.chat.tokenUsage": json!({"input_tokens": 20,
                "output_tokens": 11, "cache_read_input_tokens": 8000, "cache_creation_input_tokens": 900}).to_string()}),
        ),
        (
            "mlflow",
            json!({"mlflow.message.format": "langchain", "mlflow.chat.tokenUsage": json!({"input_tokens": 8920,
                "output_tokens": 11, "cache_read_input_tokens": 8000, "cache_creation_input_tokens": 900}).to_string()}),
        ),
        (
            "langsmith",
            json!({"langsmith.metadata.usage_metadata": json!({"input_tokens": 8920, "output_tokens": 11,
                "input_token_details": {"cache_read": 8000, "cache_creation": 0, "ephemeral_5m_input_tokens": 900}}).to_string()}),
        ),
    ] {
        check(scope, call(pairs), anthropic());
    }
}

#[test]
fn a_total_is_of_all_tokens() {
    // OpenInference includes; its span of Bedrock's Converse and Strands' of Bedrock are known by the total.
    let total = json!({"total_tokens": 8931});
    for (scope, pairs) in [
        (
            "openinference.instrumentation.anthropic",
            json!({"llm.model_name": "claude-sonnet-4-5", "llm.token_count.prompt": 8920,
                "llm.token_count.completion": 11, "llm.token_count.total": 8931,
                "llm.token_count.prompt_details.cache_read": 8000, "llm.token_count.prompt_details.cache_write": 900}),
        ),
        (
            "openinference.instrumentation.bedrock",
            json!({"llm.model_name": "claude-sonnet-4-5", "llm.token_count.prompt": 20,
                "llm.token_count.completion": 11, "llm.token_count.total": 8931,
                "llm.token_count.prompt_details.cache_read": 8000, "llm.token_count.prompt_details.cache_write": 900}),
        ),
        (
            "strands.telemetry.tracer",
            json!({"gen_ai.request.model": "claude-sonnet-4-5", "gen_ai.usage.input_tokens": 20,
                "gen_ai.usage.prompt_tokens": 20, "gen_ai.usage.output_tokens": 11, "gen_ai.usage.total_tokens": 8931,
                "gen_ai.usage.cache_read_input_tokens": 8000, "gen_ai.usage.cache_write_input_tokens": 900}),
        ),
        // The total of prompt and answer alone.
        (
            "opentelemetry.instrumentation.bedrock",
            json!({"gen_ai.request.model": "claude-sonnet-4-5", "gen_ai.usage.input_tokens": 20,
                "gen_ai.usage.output_tokens": 11, "gen_ai.usage.total_tokens": 31,
                "gen_ai.usage.cache_read_input_tokens": 8000, "gen_ai.usage.cache_creation_input_tokens": 900}),
        ),
    ] {
        check(scope, pairs, with(anthropic(), total.clone()));
    }
}

#[test]
fn more_tokens_beside_a_cache_than_in_it_are_added_by_the_rule() {
    let pairs = json!({"gen_ai.provider.name": "anthropic", "gen_ai.usage.input_tokens": 500,
        "gen_ai.usage.output_tokens": 11, "gen_ai.usage.cache_read.input_tokens": 100});
    let prompt = |scope| event(scope, pairs.clone())["prompt_tokens"].clone();
    assert_eq!(prompt("openlit.otel.tracing"), 600);
    assert_eq!(prompt("pydantic-ai"), 500);
    // Nothing is known of this one.
    assert_eq!(prompt("my-own-tracer"), 500);
}

#[test]
fn openrouters_prompt_includes_the_cache() {
    let expected = json!({"model": "anthropic/claude-sonnet-4.5", "prompt_tokens": 17903, "completion_tokens": 40,
        "total_tokens": 17943, "cached_tokens": 17817, "estimated_cost": 0.0062});
    check(
        "openrouter",
        json!({"gen_ai.provider.name": "openrouter", "gen_ai.response.model": "anthropic/claude-sonnet-4.5",
            "gen_ai.usage.input_tokens": 17903, "gen_ai.usage.output_tokens": 40, "gen_ai.usage.total_tokens": 17943,
            "gen_ai.usage.input_tokens.cached": 17817, "gen_ai.usage.total_cost": 0.0062}),
        expected.clone(),
    );
    // Through the AI SDK, whose other rows are about Anthropic itself.
    let metadata = json!({"openrouter": {"provider": "Anthropic", "usage": {"promptTokens": 17903, "completionTokens": 40,
        "totalTokens": 17943, "cost": 0.0062}}});
    check(
        "ai",
        json!({"ai.model.provider": "openrouter", "ai.response.model": "anthropic/claude-sonnet-4.5",
            "ai.usage.inputTokens": 17903, "ai.usage.outputTokens": 40, "ai.usage.totalTokens": 17943,
            "ai.usage.cachedInputTokens": 17817, "ai.response.providerMetadata": metadata.to_string()}),
        expected,
    );
}

#[test]
fn a_cache_that_lasts_an_hour_is_counted_apart() {
    let expected = json!({"prompt_tokens": 8920, "completion_tokens": 11, "cached_tokens": 8000,
        "cache_write_tokens": 600, "cache_write_1h_tokens": 300});
    let lifetimes = json!({"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 300});
    let raw = json!({"input_tokens": 20, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 8000,
        "cache_creation": lifetimes});
    for (scope, pairs) in [
        (
            "com.anthropic.sdk.python",
            json!({"gen_ai.usage.input_tokens": 8920, "gen_ai.usage.output_tokens": 11,
                "gen_ai.usage.cache_write.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 8000,
                "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": 600,
                "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 300}),
        ),
        (
            "@mastra/otel-exporter",
            json!({"mastra.span.type": "model_generation", "gen_ai.usage.input_tokens": 8920,
                "gen_ai.usage.output_tokens": 11, "gen_ai.usage.cache_read.input_tokens": 8000,
                "gen_ai.usage.cache_creation.5m_input_tokens": 600, "gen_ai.usage.cache_creation.1h_input_tokens": 300}),
        ),
        (
            "ai",
            json!({"ai.model.provider": "anthropic.messages", "ai.usage.inputTokens": 8920, "ai.usage.outputTokens": 11,
                "ai.usage.cachedInputTokens": 8000, "ai.usage.inputTokenDetails.noCacheTokens": 20,
                "ai.response.providerMetadata": json!({"anthropic": {"usage": raw}}).to_string()}),
        ),
        (
            "litellm",
            json!({"metadata.usage_object": json!({"prompt_tokens": 8920, "completion_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 8000, "cache_creation_tokens": 900,
                    "cache_creation_token_details": lifetimes}}).to_string()}),
        ),
        (
            "langfuse-sdk",
            json!({"langfuse.observation.usage_details": json!({"input": 20, "output": 11, "input_cached_tokens": 8000,
                "input_cache_creation": 600, "input_cache_creation_1h": 300}).to_string()}),
        ),
        (
            "mlflow",
            json!({"mlflow.message.format": "anthropic", "mlflow.chat.tokenUsage": json!({"input_tokens": 20,
                "output_tokens": 11, "cache_read_input_tokens": 8000, "cache_creation_input_tokens": 900,
                "cache_creation_input_tokens_above_1hr": 300}).to_string()}),
        ),
    ] {
        check(scope, pairs, expected.clone());
    }
}

#[test]
fn reasoning_audio_and_images_are_parts() {
    let expected = json!({"prompt_tokens": 137, "completion_tokens": 75, "total_tokens": 212, "cached_tokens": 8,
        "input_audio_tokens": 60, "input_image_tokens": 40, "reasoning_tokens": 64, "output_audio_tokens": 5});
    for (scope, pairs) in [
        (
            "opentelemetry.instrumentation.google_genai",
            json!({"gen_ai.usage.input_tokens": 137, "gen_ai.usage.output_tokens": 75, "gen_ai.usage.total_tokens": 212,
                "gen_ai.usage.cache_read.input_tokens": 8, "gen_ai.usage.audio.input_tokens": 64,
                "gen_ai.usage.audio.cache_read.input_tokens": 4, "gen_ai.usage.image.input_tokens": 40,
                "gen_ai.usage.reasoning.output_tokens": 64, "gen_ai.usage.audio.output_tokens": 5}),
        ),
        (
            "openai",
            json!({"metadata.usage_object": json!({"prompt_tokens": 137, "completion_tokens": 75, "total_tokens": 212,
                "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 60, "image_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 64, "audio_tokens": 5}}).to_string()}),
        ),
        // Gemini: thoughts are beside the candidates, cached tokens of a modality in it.
        (
            "gcp.vertex.agent",
            json!({"gcp.vertex.agent.llm_response": json!({"content": {}, "usage_metadata": {
                "prompt_token_count": 137, "candidates_token_count": 11, "thoughts_token_count": 64,
                "total_token_count": 212, "cached_content_token_count": 8,
                "prompt_tokens_details": [{"modality": "TEXT", "token_count": 33}, {"modality": "AUDIO", "token_count": 64},
                    {"modality": "MediaModality.IMAGE", "token_count": 40}],
                "cache_tokens_details": [{"modality": "AUDIO", "token_count": 4}, {"modality": "TEXT", "token_count": 4}],
                "candidates_tokens_details": [{"modality": "AUDIO", "token_count": 5}]}}).to_string()}),
        ),
        (
            "langfuse-sdk",
            json!({"langfuse.observation.usage_details": json!({"input": 29, "output": 6, "total": 212,
                "input_cached_tokens": 8, "input_audio": 60, "input_image": 40, "output_reasoning": 64,
                "output_audio": 5}).to_string()}),
        ),
    ] {
        check(scope, pairs, expected.clone());
    }
    // ADK 1 leaves thoughts out of the output, under a name of its own.
    check(
        "gcp.vertex.agent",
        json!({"gcp.vertex.agent.session_id": "s", "gen_ai.usage.input_tokens": 37, "gen_ai.usage.output_tokens": 11,
            "gen_ai.usage.experimental.reasoning_tokens": 5}),
        json!({"prompt_tokens": 37, "completion_tokens": 16, "reasoning_tokens": 5}),
    );
}

#[test]
fn parts_never_exceed_their_whole() {
    check(
        "x",
        json!({"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 4,
            "gen_ai.usage.cache_read.input_tokens": 6, "gen_ai.usage.audio.input_tokens": 7,
            "gen_ai.usage.image.input_tokens": 7, "gen_ai.usage.reasoning_tokens": 3,
            "gen_ai.usage.audio.output_tokens": 9}),
        json!({"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 6, "input_audio_tokens": 4,
            "reasoning_tokens": 3, "output_audio_tokens": 1}),
    );
    let sum = json!({"input": COUNT_MAX, "input_cache_read": COUNT_MAX, "output": 1_u64 << 60});
    let usage = event(
        "x",
        json!({"langfuse.observation.usage_details": sum.to_string()}),
    );
    assert_eq!(usage["prompt_tokens"], COUNT_MAX);
}

#[test]
fn a_cost_of_the_client_is_an_estimate_unless_the_settings_trust_it() {
    let details = |object: Value| json!({"langfuse.observation.cost_details": object.to_string()});
    for pairs in [
        json!({"gen_ai.cost.total_cost": 0.25, "gen_ai.cost.input_cost": 0.1}),
        json!({"gen_ai.usage.cost": "0.25"}),
        json!({"operation.cost": 0.25}),
        json!({"llm.cost.total": 0.25}),
        json!({"cost_usd": 0.25}),
        json!({"gen_ai.usage.input_cost": 0.125, "gen_ai.usage.output_cost": 0.125}),
        details(json!({"total": 0.25, "input": 0.1})),
        details(json!({"input": 0.125, "output": 0.125})),
        json!({"metadata.user_api_key": "x", "hidden_params": json!({"response_cost": 0.25, "model_id": null}).to_string()}),
        json!({"mlflow.llm.cost": json!({"input_cost": 0.1, "output_cost": 0.15, "total_cost": 0.25}).to_string()}),
    ] {
        check("x", pairs.clone(), json!({"estimated_cost": 0.25}));
        let pairs = attributes(pairs);
        let attributes = Attributes::new(&pairs);
        let usage = Usage::of_model_call(&attributes, Used::by(&attributes));
        let trusted = usage.with_cost_by(ClientCost::ProvidedFirst);
        assert_eq!((trusted.cost, trusted.estimated_cost), (Some(0.25), None));
    }
    check("x", json!({"gen_ai.usage.cost": 0}), json!({}));
    // Other parameters of LiteLLM are no costs.
    check(
        "x",
        json!({"metadata.x": "x", "hidden_params": json!({"overhead_ms": 7}).to_string()}),
        json!({}),
    );
}

#[test]
fn the_tier_that_served_the_call_counts_before_the_one_that_was_asked_for() {
    for (pairs, expected) in [
        (
            json!({"gen_ai.openai.response.service_tier": "flex"}),
            json!({"service_tier": "flex"}),
        ),
        (
            json!({"openai.response.service_tier": "priority"}),
            json!({"service_tier": "priority"}),
        ),
        (
            json!({"anthropic.response.service_tier": "batch"}),
            json!({"service_tier": "batch"}),
        ),
        (
            json!({"gen_ai.openai.request.service_tier": "flex"}),
            json!({"service_tier": "flex"}),
        ),
        (
            json!({"gen_ai.openai.request.service_tier": "priority", "gen_ai.openai.response.service_tier": "default"}),
            json!({}),
        ),
        (
            json!({"metadata.usage_object": "{'service_tier': 'priority'}"}),
            json!({"service_tier": "priority"}),
        ),
        (
            json!({"ai.response.providerMetadata": json!({"openai": {"serviceTier": "flex"}}).to_string()}),
            json!({"service_tier": "flex"}),
        ),
        (
            json!({"ai.response.providerMetadata": json!({"anthropic": {"usage": {"input_tokens": 1, "output_tokens": 2,
                "server_tool_use": {"web_search_requests": 3}}}}).to_string()}),
            json!({"prompt_tokens": 1, "completion_tokens": 2, "requests": 3}),
        ),
    ] {
        check("x", pairs, expected);
    }
}

/// The rows of the guide's table of tokens and costs: fields of an event, and attributes.
fn documented() -> Vec<[Vec<&'static str>; 2]> {
    let guide = include_str!("../../../../docs/guide/otlp.md");
    let (_, section) = guide.split_once("## Tokens and costs").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let codes = |cell: &'static str| cell.split('`').skip(1).step_by(2).collect::<Vec<_>>();
    let rows = rows.map(|row| {
        let (fields, attributes) = row[1..].split_once('|').unwrap();
        [codes(fields), codes(attributes)]
    });
    // The next section has a table of clients.
    rows.take_while(|[fields, _]| fields[0] != "tools/call")
        .collect()
}

#[test]
fn every_attribute_of_the_guide_becomes_the_field_that_it_says() {
    let rows = documented();
    let mut fields: Vec<&str> = rows.iter().flat_map(|[fields, _]| fields.clone()).collect();
    let all = Usage {
        prompt: Some(1),
        completion: Some(1),
        cached: Some(1),
        cache_write: Some(1),
        cache_write_1h: Some(1),
        input_audio: Some(1),
        input_image: Some(1),
        reasoning: Some(1),
        output_audio: Some(1),
        requests: Some(1),
        service_tier: Some(String::new()),
        estimated_cost: Some(1.0),
        ttft_ms: Some(1),
        ..Usage::default()
    };
    let all = serde_json::to_value(Spent::from(all)).unwrap();
    let mut expected: Vec<&str> = all
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    expected.sort_unstable();
    assert_eq!(fields, expected, "the fields of an event and of the guide");
    for [fields, names] in rows {
        for name in names
            .into_iter()
            .filter(|name| name.contains('.') || name.ends_with("cost"))
        {
            let value = match fields[0] {
                "service_tier" => json!("flex"),
                // Events and times need a span; span/tests.rs has them.
                "ttft_ms" => continue,
                _ => json!(0.25e2),
            };
            let mut event = event("x", json!({name: value}));
            assert!(
                fields.iter().any(|field| !event[*field].take().is_null()),
                "{name} of {fields:?}"
            );
        }
    }
}

#[test]
fn a_count_is_a_whole_number_from_zero_however_it_is_written() {
    for (any, expected) in [
        (Any::IntValue(37), Some(37)),
        (Any::DoubleValue(37.0), Some(37)),
        (Any::StringValue("37".into()), Some(37)),
        (Any::IntValue(-1), None),
        (Any::IntValue(i64::MAX), None),
        (Any::DoubleValue(1.5), None),
        (Any::DoubleValue(f64::NAN), None),
        (Any::BoolValue(true), None),
    ] {
        assert_eq!(count(&any), expected, "{any:?}");
    }
}
