//! Mastra's exporter for OpenTelemetry, beside the GenAI conventions.

use super::super::attributes::Attributes;
use super::super::facts::Facts;
use super::super::usage::PartsRule;
use super::super::value::Json;
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Mastra",
    source: "@mastra/otel-exporter 1 (npm)",
    prefix: "mastra.",
    kinds: &[(
        "mastra.span.type",
        &[
            ("agent_run", "agent"),
            ("model_generation", "llm"),
            ("model_step", "chain"),
            ("model_chunk", "span"),
            ("tool_call", "tool"),
            ("mcp_tool_call", "tool"),
            ("workflow_run", "chain"),
            ("workflow_step", "chain"),
            ("processor_run", "chain"),
            ("generic", "chain"),
        ],
    )],
    user: &["mastra.metadata.userId", "mastra.metadata.resourceId"],
    thread: &["mastra.metadata.sessionId", "mastra.metadata.threadId"],
    tags: &["mastra.tags"],
    // `inputDetails.cacheRead` and `.cacheWrite` are subsets of `inputTokens`.
    prompt_rules: &[("", PartsRule::Included)],
    first_token_at: &["mastra.completion_start_time"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// Input and output are named by the type of the span: `mastra.agent_run.input`.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    for (end, place) in [(".input", &mut facts.input), (".output", &mut facts.output)] {
        let mut names = attributes.keys_under("mastra.");
        let key = names.find(|key| key.ends_with(end) && key.matches('.').count() == 2);
        if place.is_none()
            && let Some(any) = key.and_then(|key| attributes.take(key))
        {
            *place = Some(Json::read(any));
        }
    }
}
