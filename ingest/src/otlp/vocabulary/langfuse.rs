//! Langfuse's SDKs, whose spans carry `langfuse.observation.*` and `langfuse.trace.*`.

use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::messages;
use super::super::value::parsed;
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Langfuse",
    source: "langfuse 3 to 5 (PyPI) and @langfuse/otel 4 and 5 (npm), their list of attributes",
    prefix: "langfuse.",
    kinds: &[(
        "langfuse.observation.type",
        &[
            ("generation", "llm"),
            ("embedding", "llm"),
            ("agent", "agent"),
            ("tool", "tool"),
            ("chain", "chain"),
            ("retriever", "retriever"),
            ("evaluator", "evaluator"),
            ("guardrail", "guardrail"),
        ],
    )],
    names: &[],
    input: &["langfuse.observation.input", "langfuse.trace.input"],
    output: &["langfuse.observation.output", "langfuse.trace.output"],
    messages_out: &["langfuse.observation.output"],
    user: &[
        "langfuse.user.email",
        "langfuse.user.id",
        "langfuse.trace.user_id",
        "langfuse.observation.metadata.userId",
        "langfuse.observation.metadata.langfuse_user_id",
    ],
    thread: &[
        "langfuse.session.id",
        "langfuse.trace.session_id",
        "langfuse.observation.metadata.sessionId",
        "langfuse.observation.metadata.langfuse_session_id",
        "langfuse.observation.metadata.thread_id",
    ],
    tags: &["langfuse.trace.tags", "langfuse.observation.metadata.tags"],
    model: &["langfuse.observation.model.name"],
    // `input` is what the price of plain input applies to: cached tokens are beside it.
    usage: &["langfuse.observation.usage_details"],
    costs: &["langfuse.observation.cost_details"],
    first_token_at: &["langfuse.observation.completion_start_time"],
    read: Some(read),
    ..Vocabulary::EMPTY
};

/// The messages of a call, which stand beside its tools in some integrations.
fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    if facts.kind != LLM || !facts.said.input.is_empty() {
        return;
    }
    let Some(any) = attributes.take("langfuse.observation.input") else {
        return;
    };
    let messages = match parsed(any) {
        Value::Object(mut fields) if fields.get("messages").is_some_and(Value::is_array) => {
            fields.remove("messages").unwrap_or_default()
        }
        other => other,
    };
    facts.said.input = messages::of_value(messages, "user");
}
