//! OpenLLMetry beside the GenAI conventions (`traceloop.span.kind`, `traceloop.entity.*`, `llm.request.type`), and
//! AgentOps, which is made of it.
//!
//! Names: traceloop/openllmetry, the package opentelemetry-semantic-conventions-ai; shapes: `tests/captures`.

use super::attributes::Attributes;
use super::facts::{Facts, LLM};
use super::value::Json;

/// The type of the run according to this convention.
pub(crate) fn kind(attributes: &Attributes<'_>) -> Option<&'static str> {
    let of_step = |key| {
        Some(match attributes.text(key)? {
            "agent" => "agent",
            "tool" => "tool",
            "llm" => LLM,
            // `workflow`, `task`, `operation`, `session`: a step that contains others.
            _ => "chain",
        })
    };
    of_step("traceloop.span.kind")
        .or_else(|| match attributes.text("llm.request.type")? {
            "rerank" => Some("reranker"),
            _ => Some(LLM),
        })
        .or_else(|| of_step("agentops.span.kind"))
}

/// Fills the fields that are still empty.
pub(crate) fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    if facts.name.is_none() && matches!(facts.kind, "tool" | "agent") {
        facts.name = attributes.name(["traceloop.entity.name", "tool.name", "agent.name"]);
    }
    let value = |key| attributes.take(key).map(Json::read);
    facts.input = facts
        .input
        .take()
        .or_else(|| value("traceloop.entity.input"));
    facts.output = facts
        .output
        .take()
        .or_else(|| value("traceloop.entity.output"));
    let [input, output] = match facts.kind {
        "agent" => ["agentops.agent.input", "agentops.agent.output"],
        "tool" => ["agentops.tool.input", "agentops.tool.output"],
        _ => ["agentops.task.input", "agentops.task.output"],
    };
    facts.input = facts.input.take().or_else(|| value(input));
    facts.output = facts.output.take().or_else(|| value(output));
}
