//! Gemini CLI's spans. What its log records become is in [`super::super::coding_agent`].

use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::value::{Any, Json, parsed};
use super::super::{gemini_content, messages};
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Gemini CLI",
    source: "@google/gemini-cli 0.61 (npm), packages/core/src/telemetry",
    // Other clients have it too; what they do has other names.
    prefix: "gen_ai.agent.description",
    kinds: &[(
        "gen_ai.operation.name",
        &[
            ("llm_call", "llm"),
            ("tool_call", "tool"),
            ("agent_call", "agent"),
            ("schedule_tool_calls", "internal"),
            ("user_prompt", "internal"),
            ("system_prompt", "internal"),
        ],
    )],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// Contents of Gemini's API, under the name of messages: for other spans than model calls, any values.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    let operations = VOCABULARY.kinds[0].1;
    let operation = attributes.text("gen_ai.operation.name").unwrap_or_default();
    if !operations.iter().any(|(name, _)| *name == operation) {
        return;
    }
    let take = |key| attributes.take(key).map(parsed);
    let (input, output) = (
        take("gen_ai.input.messages"),
        take("gen_ai.output.messages"),
    );
    if facts.kind == LLM {
        facts.said.input = match attributes.take("gen_ai.system_instructions") {
            // A JSON text, or the beginning of one.
            Some(Any::StringValue(text)) if text.starts_with('"') => {
                let whole = serde_json::from_str(text);
                let text = whole.unwrap_or_else(|_| text.trim_start_matches('"').into());
                messages::of_value(text, "system")
            }
            Some(any) => messages::of_instructions(any),
            None => Vec::new(),
        };
        let asked = gemini_content::messages(input.unwrap_or_default(), "user");
        facts.said.input.extend(asked);
        facts.said.output = gemini_content::answer(output.unwrap_or_default());
        return;
    }
    let input = input.map(|mut request| match request.get_mut("args") {
        Some(arguments) => arguments.take(),
        None => request,
    });
    let output = output.map(
        |mut done| match done.pointer_mut("/response/resultDisplay") {
            Some(shown) if !shown.is_null() => shown.take(),
            _ => done,
        },
    );
    facts.input = input.filter(|value| *value != Value::Null).map(Json::from);
    facts.output = output.filter(|value| *value != Value::Null).map(Json::from);
}
