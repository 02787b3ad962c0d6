//! The shared names of a model call's model, counts, cost and service tier, current and former. A name that only one
//! client uses is in its vocabulary.
//!
//! Declared in: OpenTelemetry's semantic conventions, docs/gen-ai, and opentelemetry-util-genai 1.3 (PyPI), which names
//! modalities and `cache_write`; OpenInference, spec/semantic_conventions.md; OpenLLMetry 0.62,
//! opentelemetry-semantic-conventions-ai (`gen_ai.usage.cache_read_input_tokens`, `llm.usage.*`); pydantic-ai 2.68,
//! `RequestUsage.opentelemetry_attributes` (`gen_ai.usage.details.*`); openlit 1.35, openlit.semcov
//! (`*_tokens_details.*`, `gen_ai.usage.cost`); anthropic 2.13, anthropic.lib._tracing (`anthropic.*`); litellm 1.110
//! (`gen_ai.cost.*`); @mastra/otel-exporter 1.4 (`cache_creation.1h_input_tokens`, `audio_input_tokens`).

pub(super) const SERVED_MODEL: [&str; 5] = [
    "gen_ai.response.model",
    "llm.response.model",
    "llm.model_name",
    "embedding.model_name",
    "reranker.model_name",
];
pub(super) const ASKED_MODEL: [&str; 2] = ["gen_ai.request.model", "llm.request.model"];
pub(super) const PROMPT: [&str; 4] = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
];
pub(super) const COMPLETION: [&str; 4] = [
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
];
pub(super) const TOTAL: [&str; 3] = [
    "gen_ai.usage.total_tokens",
    "llm.usage.total_tokens",
    "llm.token_count.total",
];
pub(super) const CACHED: [&str; 12] = [
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.cached_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.prompt_tokens_details.cached_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cached_tokens",
];
/// Of any lifetime.
pub(super) const CACHE_WRITTEN: [&str; 12] = [
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.cache_creation_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "gen_ai.usage.prompt_tokens_details.cache_creation_tokens",
    "llm.token_count.prompt_details.cache_write",
    "llm.usage.cache_creation_input_tokens",
];
/// Those that stay for an hour; they are among [`CACHE_WRITTEN`].
pub(super) const CACHE_WRITTEN_1H: [&str; 3] = [
    "anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
    "gen_ai.usage.cache_creation.1h_input_tokens",
    "gen_ai.usage.cache_creation.ephemeral_1h_input_tokens",
];
/// The other part of [`CACHE_WRITTEN`], of the default lifetime, for spans without the sum.
pub(super) const CACHE_WRITTEN_5M: [&str; 3] = [
    "anthropic.usage.cache_creation.ephemeral_5m_input_tokens",
    "gen_ai.usage.cache_creation.5m_input_tokens",
    "gen_ai.usage.cache_creation.ephemeral_5m_input_tokens",
];
pub(super) const INPUT_AUDIO: [&str; 6] = [
    "gen_ai.usage.audio.input_tokens",
    "gen_ai.usage.audio_input_tokens",
    "gen_ai.usage.input_audio_tokens",
    "gen_ai.usage.details.input_audio_tokens",
    "gen_ai.usage.prompt_tokens_details.audio_tokens",
    "llm.token_count.prompt_details.audio",
];
/// The part of [`INPUT_AUDIO`] that came from a cache.
pub(super) const CACHED_AUDIO: [&str; 2] = [
    "gen_ai.usage.audio.cache_read.input_tokens",
    "gen_ai.usage.details.cache_audio_read_tokens",
];
pub(super) const INPUT_IMAGE: [&str; 4] = [
    "gen_ai.usage.image.input_tokens",
    "gen_ai.usage.image_input_tokens",
    "gen_ai.usage.details.input_image_tokens",
    "gen_ai.usage.prompt_tokens_details.image_tokens",
];
/// The part of [`INPUT_IMAGE`] that came from a cache.
pub(super) const CACHED_IMAGE: [&str; 1] = ["gen_ai.usage.image.cache_read.input_tokens"];
pub(super) const REASONING: [&str; 8] = [
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
    "gen_ai.usage.completion_tokens_details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "gen_ai.usage.details.thinking_tokens",
];
pub(super) const OUTPUT_AUDIO: [&str; 6] = [
    "gen_ai.usage.audio.output_tokens",
    "gen_ai.usage.audio_output_tokens",
    "gen_ai.usage.output_audio_tokens",
    "gen_ai.usage.details.output_audio_tokens",
    "gen_ai.usage.completion_tokens_details.audio_tokens",
    "llm.token_count.completion_details.audio",
];
/// Searches that the provider makes and bills one by one.
pub(super) const REQUESTS: [&str; 4] = [
    "gen_ai.usage.web_search_requests",
    "gen_ai.usage.details.web_search_requests",
    "anthropic.usage.server_tool_use.web_search_requests",
    "gen_ai.usage.server_tool_use.web_search_requests",
];
/// USD, by a price list of the client's.
pub(super) const COST: [&str; 7] = [
    "gen_ai.cost.total_cost",
    "gen_ai.usage.cost",
    "gen_ai.usage.total_cost",
    "operation.cost",
    "llm.cost.total",
    "cost_usd",
    "response_cost",
];
/// Pairs of costs of the prompt and the completion, for spans without the sum.
pub(super) const COST_PARTS: [[&str; 2]; 3] = [
    ["gen_ai.cost.input_cost", "gen_ai.cost.output_cost"],
    ["gen_ai.usage.input_cost", "gen_ai.usage.output_cost"],
    ["llm.cost.prompt", "llm.cost.completion"],
];
/// The tier that served the call; else the one that was asked for.
pub(super) const SERVICE_TIER: [&str; 8] = [
    "gen_ai.openai.response.service_tier",
    "openai.response.service_tier",
    "gen_ai.response.service_tier",
    "anthropic.response.service_tier",
    "gen_ai.openai.request.service_tier",
    "openai.request.service_tier",
    "gen_ai.request.service_tier",
    "anthropic.request.service_tier",
];
