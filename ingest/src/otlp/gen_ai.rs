//! OpenTelemetry's GenAI conventions: `gen_ai.operation.name`, `gen_ai.input.messages`, `gen_ai.tool.*`, and the
//! former `gen_ai.prompt.N` that OpenLLMetry began with.
//!
//! Names: open-telemetry/semantic-conventions, docs/gen-ai; shapes: the captures in `tests/captures`.

use serde_json::Value;

use super::attributes::Attributes;
use super::facts::{Facts, LLM};
use super::flattened::restored;
use super::messages;
use super::value::Json;

/// The type of the run according to this convention.
pub(crate) fn kind(attributes: &Attributes<'_>) -> Option<&'static str> {
    // Stays metadata: that a call made vectors, or created an agent, is worth seeing.
    let operation = attributes.text("gen_ai.operation.name")?;
    Some(match operation.to_ascii_lowercase().as_str() {
        "chat" | "chat.completions" | "text_completion" | "text.completions" | "completion" => LLM,
        "acompletion" | "atext_completion" | "aembedding" | "aresponses" | "llm_call" => LLM,
        "generate_content" | "response" | "responses" | "embeddings" | "embedding" | "embed" => LLM,
        "execute_tool" | "call_mcp_tool" => "tool",
        "invoke_agent" | "create_agent" => "agent",
        "retrieval" | "rerank" | "arerank" => "retriever",
        // `invoke_workflow`, `plan` and unknown operations: a step that contains others.
        _ => "chain",
    })
}

/// The type of a run without an operation, from its other attributes. Token counts prove nothing: sums carry them too.
pub(crate) fn guessed_kind(attributes: &Attributes<'_>) -> Option<&'static str> {
    let is_there = |key| attributes.text(key).is_some();
    if is_there("gen_ai.tool.name") {
        return Some("tool");
    }
    let is_call = is_there("gen_ai.request.model")
        && (is_there("gen_ai.system") || is_there("gen_ai.provider.name"))
        && !is_there("gen_ai.agent.name");
    is_call.then_some(LLM)
}

/// Fills the fields that are still empty.
pub(crate) fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    let own_name = match facts.kind {
        "tool" => attributes.name(["gen_ai.tool.name"]),
        "agent" => attributes.name(["gen_ai.agent.name"]),
        _ => None,
    };
    facts.name = facts.name.take().or(own_name);
    facts.agent = facts
        .agent
        .take()
        .or_else(|| attributes.name(["gen_ai.agent.name"]));
    let argument = |key| attributes.take(key).map(Json::read);
    facts.input = facts
        .input
        .take()
        .or_else(|| argument("gen_ai.tool.call.arguments"))
        .or_else(|| argument("gen_ai.retrieval.query.text"));
    facts.output = facts
        .output
        .take()
        .or_else(|| argument("gen_ai.tool.call.result"))
        .or_else(|| argument("gen_ai.retrieval.documents"));
    if facts.said.input.is_empty() {
        let said = &mut facts.said.input;
        said.extend(
            attributes
                .take("gen_ai.system_instructions")
                .into_iter()
                .flat_map(messages::of_instructions),
        );
        said.extend(flattened(
            attributes,
            ["gen_ai.input.messages", "gen_ai.prompt", "gen_ai.prompt."],
            "user",
        ));
    }
    if facts.said.output.is_empty() {
        let names = [
            "gen_ai.output.messages",
            "gen_ai.completion",
            "gen_ai.completion.",
        ];
        facts.said.output = flattened(attributes, names, "assistant");
    }
}

/// Messages as one attribute, under its current or its former name, or one attribute for each of their fields.
fn flattened(
    attributes: &Attributes<'_>,
    [now, former, prefix]: [&str; 3],
    role: &str,
) -> Vec<Value> {
    let one = attributes.take(now).or_else(|| attributes.take(former));
    match one {
        Some(any) => messages::of_attribute(any, role),
        None => restored(attributes.under(prefix))
            .map_or_else(Vec::new, |list| messages::of_value(list, role)),
    }
}
