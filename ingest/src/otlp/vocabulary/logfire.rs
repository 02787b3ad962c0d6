//! Pydantic AI and Logfire, beside the GenAI conventions.

use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::messages;
use super::super::value::{Json, parsed};
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Pydantic AI, Logfire",
    source: "pydantic-ai 1 (PyPI), pydantic_ai.models.instrumented, and logfire 4",
    prefix: "logfire.",
    names: &[
        ("tool", "gen_ai.tool.name"),
        ("span", "logfire.msg"),
        ("chain", "logfire.msg"),
    ],
    agent: &["agent_name"],
    input: &["tool_arguments"],
    output: &["tool_response", "final_result"],
    model: &["model_name"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// An agent's conversation: what it was asked, and its last answer where it gave no result.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    if facts.kind == LLM {
        return;
    }
    let conversation = ["pydantic_ai.all_messages", "all_messages_events"];
    let Some(any) = conversation.iter().find_map(|key| attributes.take(key)) else {
        return;
    };
    let mut asked = messages::of_value(parsed(any), "user");
    let is_answer = |message: &Value| message["role"] == "assistant";
    let answers = match asked.iter().position(is_answer) {
        Some(first) => asked.split_off(first),
        None => Vec::new(),
    };
    facts.said.input = asked;
    if let Some(last) = answers.into_iter().rfind(is_answer)
        && attributes.get("final_result").is_none()
    {
        facts.output = Some(Json::from(last));
    }
}
