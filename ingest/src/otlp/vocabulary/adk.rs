//! Google's Agent Development Kit, whose spans carry requests and responses of Gemini's API.

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::value::parsed;
use super::super::{gemini_content, messages};
use super::{Vocabulary, text};

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Google ADK",
    source: "google-adk 1 (PyPI), google.adk.telemetry",
    prefix: "gcp.vertex.agent.",
    input: &["gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.data"],
    output: &["gcp.vertex.agent.tool_response"],
    thread: &["gcp.vertex.agent.session_id"],
    // Up to version 1; from 2 the count of the output includes them, under the name of the conventions.
    thoughts: &["gen_ai.usage.experimental.reasoning_tokens"],
    usage: &["gcp.vertex.agent.llm_response"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// The contents of a request and of its response as messages.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    if text(attributes, "gcp.vertex.agent.tool_call_args").is_none() {
        // The attribute of a model call on a span of a tool is an empty object.
        attributes.take("gcp.vertex.agent.tool_response");
    }
    if facts.kind != LLM {
        for key in [
            "gcp.vertex.agent.llm_request",
            "gcp.vertex.agent.llm_response",
        ] {
            if attributes.text(key) == Some("{}") {
                attributes.take(key);
            }
        }
        return;
    }
    let object = |key| attributes.take(key).map(parsed);
    if let Some(mut request) = object("gcp.vertex.agent.llm_request")
        && facts.said.input.is_empty()
    {
        let instructions = request["config"]["system_instruction"].take();
        facts.said.input = messages::of_value(instructions, "system");
        facts
            .said
            .input
            .extend(gemini_content::messages(request["contents"].take(), "user"));
    }
    if let Some(mut response) = object("gcp.vertex.agent.llm_response")
        && facts.said.output.is_empty()
    {
        facts.said.output = gemini_content::messages(response["content"].take(), "assistant");
    }
}
