//! Claude Code's spans (`span.type`). What its log records become is in [`super::super::coding_agent`].

use serde_json::{Map, Value};

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::usage::count;
use super::super::value::{Json, parsed};
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Claude Code",
    source: "@anthropic-ai/claude-code 2.1 (npm), its documentation's page on monitoring",
    prefix: "span.type",
    kinds: &[(
        "span.type",
        &[
            ("interaction", "agent"),
            ("llm_request", "llm"),
            ("tool", "tool"),
            // Steps of a tool call that say nothing of its content.
            ("tool.execution", "internal"),
            ("tool.blocked_on_user", "internal"),
            ("hook", "internal"),
        ],
    )],
    names: &[("tool", "tool_name")],
    input: &["user_prompt", "tool_input", "new_context"],
    output: &["response.model_output"],
    model: &["model"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// What a tool was asked to do, by the name that the tool gives to it. Which of them there are depends on the tool.
const TOOL_INPUTS: [(&str, &str); 4] = [
    ("full_command", "command"),
    ("file_path", "file_path"),
    ("skill_name", "skill"),
    ("subagent_type", "subagent_type"),
];

fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    match facts.kind {
        LLM => {
            let usage = &mut facts.usage;
            let written = count_of(attributes, "cache_creation_tokens");
            let cached = count_of(attributes, "cache_read_tokens");
            // Exclusive: what was read from a cache or written to it is beside the input.
            usage.prompt = count_of(attributes, "input_tokens")
                .map(|input| input + cached.unwrap_or(0) + written.unwrap_or(0));
            usage.completion = count_of(attributes, "output_tokens");
            usage.cached = cached;
            usage.cache_write = written;
            usage.ttft_ms = count_of(attributes, "ttft_ms");
        }
        "agent" => facts.agent = Some("claude-code".into()),
        "tool" if attributes.get("tool_input").is_none() => {
            let inputs = TOOL_INPUTS
                .iter()
                .filter_map(|(key, name)| Some((*name, parsed(attributes.take(key)?))));
            let inputs: Map<String, Value> = inputs
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            if !inputs.is_empty() {
                facts.input = Some(Json::from(Value::Object(inputs)));
            }
        }
        _ => {}
    }
}

fn count_of(attributes: &Attributes<'_>, key: &str) -> Option<u64> {
    attributes.first([key], count)
}
