//! Vercel's AI SDK: the spans that `experimental_telemetry` makes (`ai.*`), one for a call of the SDK's function and one
//! below it for each request to the model.

use serde_json::{Value, json};

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::messages;
use super::super::usage::PartsRule;
use super::super::value::{Any, Json, parsed};
use super::{Vocabulary, is_empty};

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Vercel AI SDK",
    source: "ai 5 to 7 (npm), its documentation's page on telemetry",
    prefix: "ai.",
    kinds: &[(
        "ai.operationId",
        &[
            ("ai.generateText.doGenerate", "llm"),
            ("ai.streamText.doStream", "llm"),
            ("ai.generateObject.doGenerate", "llm"),
            ("ai.streamObject.doStream", "llm"),
            ("ai.embed.doEmbed", "llm"),
            ("ai.embedMany.doEmbed", "llm"),
            ("ai.rerank.doRerank", "reranker"),
            ("ai.toolCall", "tool"),
            // Around the requests to the model; its counts are their sums.
            ("ai.generateText", "agent"),
            ("ai.streamText", "agent"),
            ("ai.generateObject", "chain"),
            ("ai.streamObject", "chain"),
            ("ai.embed", "chain"),
            ("ai.embedMany", "chain"),
            ("ai.rerank", "chain"),
        ],
    )],
    names: &[("tool", "ai.toolCall.name")],
    agent: &["ai.telemetry.functionId"],
    input: &["ai.toolCall.args", "ai.toolCall.input", "ai.prompt"],
    output: &["ai.response.object"],
    messages_in: &["ai.prompt.messages"],
    user: &[
        "ai.telemetry.metadata.userId",
        "ai.telemetry.metadata.user_id",
        // Version 7 has no metadata of a call; what it has is the context of the agent.
        "ai.settings.context.userId",
        "ai.settings.context.user_id",
    ],
    thread: &[
        "ai.telemetry.metadata.sessionId",
        "ai.telemetry.metadata.threadId",
        "ai.settings.context.sessionId",
        "ai.settings.context.threadId",
    ],
    tags: &["ai.telemetry.metadata.tags", "ai.settings.context.tags"],
    model: &["ai.response.model", "ai.model.id"],
    // Up to version 5 the counts of Anthropic and Bedrock are passed on, which leave cached tokens out
    // (@ai-sdk/anthropic 2, @ai-sdk/amazon-bedrock 3); from 6 the prompt includes them, and `noCacheTokens` is there.
    prompt_rules: &[
        ("anthropic", PartsRule::Beside),
        ("amazon-bedrock", PartsRule::Beside),
        ("bedrock", PartsRule::Beside),
        ("vertex.anthropic", PartsRule::Beside),
        ("google.vertex.anthropic", PartsRule::Beside),
        ("googlevertex.anthropic", PartsRule::Beside),
        ("", PartsRule::Included),
    ],
    uncached: &["ai.usage.inputTokenDetails.noCacheTokens"],
    prompt: &[
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
        "ai.usage.tokens",
    ],
    completion: &["ai.usage.outputTokens", "ai.usage.completionTokens"],
    total: &["ai.usage.totalTokens"],
    cached: &[
        "ai.usage.cachedInputTokens",
        "ai.usage.inputTokenDetails.cacheReadTokens",
    ],
    cache_written: &["ai.usage.inputTokenDetails.cacheWriteTokens"],
    reasoning: &[
        "ai.usage.reasoningTokens",
        "ai.usage.outputTokenDetails.reasoningTokens",
    ],
    response_usage: &["ai.response.providerMetadata"],
    first_token_ms: &["ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// The model's answer, which is spread over attributes; and the size of vectors instead of the vectors.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    if let Some(vectors) = vectors(attributes) {
        facts.output = Some(Json::from(vectors));
    }
    if facts.kind == "tool" {
        let mut names = ["ai.toolCall.result", "ai.toolCall.output"].into_iter();
        let result = names.find_map(|name| attributes.take(name));
        facts.output = result.map(|any| Json::from(inside(parsed(any))));
        return;
    }
    // What is embedded is JSON, each value again.
    if let Some(values) = attributes.take("ai.values") {
        facts.input = Some(Json::from(match parsed(values) {
            Value::Array(values) => values.into_iter().map(inside).collect(),
            other => other,
        }));
    } else if let Some(value) = attributes.take("ai.value") {
        facts.input = Some(Json::from(inside(parsed(value))));
    }
    let answer = answer(attributes);
    if facts.kind == LLM {
        facts.said.output.extend(
            answer
                .into_iter()
                .flat_map(|answer| messages::of_value(answer, "assistant")),
        );
    } else if let Some(mut answer) = answer {
        let is_text = answer.get("tool_calls").is_none();
        let output = match is_text {
            true => Some(answer["content"].take()),
            false => messages::of_value(answer, "assistant").pop(),
        };
        facts.output = output.map(Json::from);
    }
}

/// The text in a text of JSON.
fn inside(value: Value) -> Value {
    match &value {
        Value::String(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    }
}

/// A message of the model.
fn answer(attributes: &Attributes<'_>) -> Option<Value> {
    let take = |key| attributes.take(key).filter(|any| !is_empty(any));
    let text = take("ai.response.text").map(Json::of);
    let reasoning = take("ai.response.reasoning").map(Json::of);
    let calls = match take("ai.response.toolCalls").map(parsed) {
        Some(Value::Array(calls)) => calls.into_iter().map(call).collect(),
        _ => Vec::new(),
    };
    if text.is_none() && calls.is_empty() && reasoning.is_none() {
        // An object is an answer too; a call for one has no text.
        return attributes
            .get("ai.response.object")
            .map(|object| json!({"role": "assistant", "content": parsed(object)}));
    }
    let content = text.map_or(Value::Null, |text| text.written().into());
    let mut answer = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        answer["tool_calls"] = calls.into();
    }
    if let Some(reasoning) = reasoning {
        answer["reasoning_content"] = reasoning.written().into();
    }
    Some(answer)
}

/// A tool call of the SDK; its arguments were called `args` up to version 4.
fn call(mut call: Value) -> Value {
    let arguments = ["input", "args"]
        .into_iter()
        .find_map(|key| call.get_mut(key).map(Value::take));
    json!({"id": call["toolCallId"], "name": call["toolName"], "arguments": arguments})
}

/// How many vectors of how many numbers a call made.
fn vectors(attributes: &Attributes<'_>) -> Option<Value> {
    let all = match (
        attributes.take("ai.embeddings"),
        attributes.take("ai.embedding"),
    ) {
        (Some(Any::ArrayValue(list)), _) => list
            .values
            .iter()
            .filter_map(|one| one.value.as_ref())
            .collect(),
        (None, Some(one)) => vec![one],
        _ => return None,
    };
    let length = |any: &Any| match parsed(any) {
        Value::Array(numbers) => numbers.len(),
        _ => 0,
    };
    let dimensions = all.first().map_or(0, |any| length(any));
    Some(json!({"embeddings": all.len(), "dimensions": dimensions}))
}
