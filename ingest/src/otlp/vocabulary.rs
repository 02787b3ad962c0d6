//! What clients and platforms call the facts of a span, as data: one file for each vocabulary.
//!
//! The conventions that several clients share are in [`super::gen_ai`], [`super::openinference`] and
//! [`super::traceloop`]; the vocabularies here are read before them, because their spans often carry a shared
//! convention too, and say less in it. `docs/guide/otlp.md` lists what each client sends; a test compares the two.

mod adk;
mod claude_code;
mod codex;
mod gemini_cli;
mod laminar;
mod langfuse;
mod langsmith;
mod litellm;
mod logfire;
mod mastra;
mod mcp;
mod mlflow;
mod openlit;
mod vercel;

use std::borrow::Cow;

use super::attributes::Attributes;
use super::facts::{Facts, LLM};
use super::messages;
use super::usage::PartsRule;
use super::value::{Any, Json};

/// The names of one vocabulary. Of several names for one fact the first that a span has counts.
pub(crate) struct Vocabulary {
    /// As in the documentation.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "compared with the documentation")
    )]
    pub(crate) name: &'static str,
    /// Where the names are declared: a document, or a package and its version.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers"))]
    pub(crate) source: &'static str,
    /// A span with an attribute that begins so uses the vocabulary.
    pub(crate) prefix: &'static str,
    /// Attributes with the kind of the span, and the type of the run for each of their values. Another value says
    /// nothing, so that the shared conventions decide.
    pub(crate) kinds: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// The run's own name, by its type; the span's name otherwise.
    pub(crate) names: &'static [(&'static str, &'static str)],
    pub(crate) agent: &'static [&'static str],
    /// Values: JSON, or text.
    pub(crate) input: &'static [&'static str],
    pub(crate) output: &'static [&'static str],
    /// Messages of a model call.
    pub(crate) messages_in: &'static [&'static str],
    pub(crate) messages_out: &'static [&'static str],
    pub(crate) user: &'static [&'static str],
    pub(crate) thread: &'static [&'static str],
    pub(crate) tags: &'static [&'static str],
    pub(crate) model: &'static [&'static str],
    pub(crate) prompt: &'static [&'static str],
    pub(crate) completion: &'static [&'static str],
    pub(crate) total: &'static [&'static str],
    pub(crate) cached: &'static [&'static str],
    /// Written to a cache, for any time.
    pub(crate) cache_written: &'static [&'static str],
    /// The part of it that is kept for an hour.
    pub(crate) cache_written_1h: &'static [&'static str],
    /// The prompt's tokens outside of caches: where a span has them, the prompt includes the others.
    pub(crate) uncached: &'static [&'static str],
    /// Whether the prompt's count includes cached tokens, by the beginning of the provider's name; the first counts.
    pub(crate) prompt_rules: &'static [(&'static str, PartsRule)],
    pub(crate) input_audio: &'static [&'static str],
    pub(crate) input_image: &'static [&'static str],
    pub(crate) reasoning: &'static [&'static str],
    /// Reasoning that the completion's count leaves out.
    pub(crate) thoughts: &'static [&'static str],
    pub(crate) output_audio: &'static [&'static str],
    /// Billed beside tokens, for example searches.
    pub(crate) requests: &'static [&'static str],
    /// Counts as one JSON object, by the names of any provider.
    pub(crate) usage: &'static [&'static str],
    /// The provider's own usage beside the client's counts: a JSON object with one for each provider.
    pub(crate) response_usage: &'static [&'static str],
    /// USD by the client's price list: a number, or a JSON object with a total.
    pub(crate) cost: &'static [&'static str],
    /// A JSON object of such costs: its total, else their sum.
    pub(crate) costs: &'static [&'static str],
    /// Milliseconds from the start to the first token, and the time of it.
    pub(crate) first_token_ms: &'static [&'static str],
    pub(crate) first_token_at: &'static [&'static str],
    /// What no name can say.
    pub(crate) read: Option<for<'a> fn(&Attributes<'a>, &mut Facts<'a>)>,
}

impl Vocabulary {
    /// Says nothing.
    const EMPTY: Self = Self {
        name: "",
        source: "",
        prefix: "",
        kinds: &[],
        names: &[],
        agent: &[],
        input: &[],
        output: &[],
        messages_in: &[],
        messages_out: &[],
        user: &[],
        thread: &[],
        tags: &[],
        model: &[],
        prompt: &[],
        completion: &[],
        total: &[],
        cached: &[],
        cache_written: &[],
        cache_written_1h: &[],
        uncached: &[],
        prompt_rules: &[],
        input_audio: &[],
        input_image: &[],
        reasoning: &[],
        thoughts: &[],
        output_audio: &[],
        requests: &[],
        usage: &[],
        response_usage: &[],
        cost: &[],
        costs: &[],
        first_token_ms: &[],
        first_token_at: &[],
        read: None,
    };
}

/// All of them, the more specific first.
pub(crate) const VOCABULARIES: [&Vocabulary; 14] = [
    &claude_code::VOCABULARY,
    &codex::VOCABULARY,
    &gemini_cli::VOCABULARY,
    &vercel::VOCABULARY,
    &langfuse::VOCABULARY,
    &langsmith::VOCABULARY,
    &mlflow::VOCABULARY,
    &mastra::VOCABULARY,
    &laminar::VOCABULARY,
    &adk::VOCABULARY,
    &logfire::VOCABULARY,
    &openlit::VOCABULARY,
    &litellm::VOCABULARY,
    &mcp::VOCABULARY,
];

/// The vocabularies of one span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used(u16);

impl Used {
    pub(crate) fn by(attributes: &Attributes<'_>) -> Self {
        let mut used = 0;
        for (place, vocabulary) in VOCABULARIES.iter().enumerate() {
            if attributes.has_under(vocabulary.prefix) {
                used |= 1 << place;
            }
        }
        Self(used)
    }

    fn all(self) -> impl Iterator<Item = &'static Vocabulary> {
        let all = VOCABULARIES.iter().enumerate();
        all.filter_map(move |(place, one)| (self.0 >> place & 1 == 1).then_some(*one))
    }

    /// The names that these vocabularies have for something.
    pub(crate) fn names(
        self,
        of: impl Fn(&Vocabulary) -> &'static [&'static str],
    ) -> impl Iterator<Item = &'static str> {
        self.all().flat_map(move |one| of(one).iter().copied())
    }

    /// The rules that these vocabularies have for the prompt's count.
    pub(crate) fn prompt_rules(self) -> impl Iterator<Item = &'static (&'static str, PartsRule)> {
        self.all().flat_map(|one| one.prompt_rules)
    }

    /// The type of the run.
    pub(crate) fn kind(self, attributes: &Attributes<'_>) -> Option<&'static str> {
        let mut kinds = self.all().flat_map(|one| one.kinds);
        kinds.find_map(|(key, types)| {
            // Some clients write JSON.
            let value = attributes.text(key)?.trim_matches('"');
            let known = types
                .iter()
                .find(|(name, _)| value.eq_ignore_ascii_case(name));
            known.map(|(_, kind)| *kind)
        })
    }

    /// Fills the fields that are still empty.
    pub(crate) fn read<'a>(self, attributes: &Attributes<'a>, facts: &mut Facts<'a>) {
        for one in self.all() {
            if let Some(read) = one.read {
                read(attributes, facts);
            }
            let kind = facts.kind;
            let names = one.names.iter().filter(|(of, _)| *of == kind);
            facts.name = facts.name.take().or_else(|| {
                let mut names = names.map(|(_, key)| *key);
                names.find_map(|key| attributes.name([key]))
            });
            facts.agent = facts.agent.take().or_else(|| attributes.name(one.agent));
            if kind == LLM {
                hear(attributes, one.messages_in, "user", &mut facts.said.input);
                hear(
                    attributes,
                    one.messages_out,
                    "assistant",
                    &mut facts.said.output,
                );
            }
            facts.input = facts.input.take().or_else(|| value(attributes, one.input));
            facts.output = facts
                .output
                .take()
                .or_else(|| value(attributes, one.output));
        }
    }
}

fn hear(
    attributes: &Attributes<'_>,
    names: &[&str],
    role: &str,
    said: &mut Vec<serde_json::Value>,
) {
    if said.is_empty() {
        let any = names.iter().find_map(|name| attributes.take(name));
        said.extend(
            any.into_iter()
                .flat_map(|any| messages::of_attribute(any, role)),
        );
    }
}

fn value<'a>(attributes: &Attributes<'a>, names: &[&str]) -> Option<Json<'a>> {
    let mut values = names.iter().filter_map(|name| attributes.take(name));
    values.find(|any| !is_empty(any)).map(Json::read)
}

fn is_empty(any: &Any) -> bool {
    matches!(any, Any::StringValue(text) if text.is_empty())
}

/// A text that is a name or an identifier of the client's.
fn text<'a>(attributes: &Attributes<'a>, key: &str) -> Option<Cow<'a, str>> {
    attributes.text(key).map(Cow::from)
}

#[cfg(test)]
mod tests;
