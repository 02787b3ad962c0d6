//! OpenInference: `openinference.span.kind`, `input.value`, `llm.input_messages.N`, `retrieval.documents.N`.
//!
//! Names: Arize-ai/openinference, spec/semantic_conventions.md; shapes: the captures in `tests/captures`.

use serde_json::{Value, json};

use super::attributes::Attributes;
use super::facts::Facts;
use super::flattened::restored;
use super::messages;
use super::value::{Any, Json};

/// The type of the run according to this convention.
pub(crate) fn kind(attributes: &Attributes<'_>) -> Option<&'static str> {
    const KEY: &str = "openinference.span.kind";
    let kind = attributes.text(KEY)?;
    let known = [
        ("LLM", "llm"),
        ("CHAIN", "chain"),
        ("AGENT", "agent"),
        ("TOOL", "tool"),
        ("RETRIEVER", "retriever"),
        ("RERANKER", "reranker"),
        ("GUARDRAIL", "guardrail"),
        ("EVALUATOR", "evaluator"),
        ("PROMPT", "prompt"),
    ];
    let known = known
        .iter()
        .find(|(name, _)| kind.eq_ignore_ascii_case(name));
    match known {
        Some((_, known)) => {
            attributes.take(KEY);
            Some(known)
        }
        // A model is called and paid for; that it made vectors stays visible in the metadata.
        None if kind.eq_ignore_ascii_case("EMBEDDING") => Some("llm"),
        None => None,
    }
}

/// Fills the fields that are still empty.
pub(crate) fn read<'a>(attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
    let own_name = match facts.kind {
        "tool" => attributes.name(["tool.name"]),
        "agent" => attributes.name(["agent.name"]),
        _ => None,
    };
    facts.name = facts.name.take().or(own_name);
    facts.agent = facts
        .agent
        .take()
        .or_else(|| attributes.name(["agent.name"]));
    facts.input = facts
        .input
        .take()
        .or_else(|| value(attributes, ["input.value", "input.mime_type"]));
    facts.output = facts
        .output
        .take()
        .or_else(|| value(attributes, ["output.value", "output.mime_type"]));
    for (prefix, role, said) in [
        ("llm.input_messages.", "user", &mut facts.said.input),
        ("llm.output_messages.", "assistant", &mut facts.said.output),
    ] {
        if let Some(list) = restored(attributes.under(prefix)).filter(|_| said.is_empty()) {
            *said = messages::of_value(list, role);
        }
    }
    let texts_to_embed = || {
        let pairs = attributes.under("embedding.embeddings.");
        // The vectors are long and of no use to readers.
        restored(pairs.filter(|(name, _)| name.ends_with(".text")))
    };
    let found_documents = || {
        restored(attributes.under("retrieval.documents."))
            .or_else(|| restored(attributes.under("reranker.output_documents.")))
    };
    facts.input = facts
        .input
        .take()
        .or_else(|| texts_to_embed().map(Json::from));
    facts.output = facts
        .output
        .take()
        .or_else(|| found_documents().map(Json::from));
}

/// A call of the former completion kind, if there are no messages.
pub(crate) fn read_completion(attributes: &Attributes<'_>, facts: &mut Facts<'_>) {
    for (prefix, field, role, said) in [
        ("llm.prompts.", "prompt", "user", &mut facts.said.input),
        (
            "llm.choices.",
            "completion",
            "assistant",
            &mut facts.said.output,
        ),
    ] {
        if !said.is_empty() {
            continue;
        }
        let Some(Value::Array(list)) = restored(attributes.under(prefix)) else {
            continue;
        };
        let texts = list.into_iter().filter_map(|mut one| {
            let text = one.get_mut(field)?.get_mut("text")?.take();
            text.is_string()
                .then(|| json!({"role": role, "content": text}))
        });
        said.extend(texts);
    }
}

/// A value with its declared type: JSON is parsed, and so is text that looks like JSON unless declared as plain text,
/// since many clients omit the type.
fn value<'a>(attributes: &Attributes<'a>, [key, mime_type]: [&str; 2]) -> Option<Json<'a>> {
    let any = attributes.take(key)?;
    let mime_type = match attributes.take(mime_type) {
        Some(Any::StringValue(text)) => text.as_str(),
        _ => "",
    };
    Some(match (any, mime_type) {
        (_, "text/plain") => Json::of(any),
        (Any::StringValue(text), "application/json") => Json::inside(text),
        _ => Json::read(any),
    })
}
