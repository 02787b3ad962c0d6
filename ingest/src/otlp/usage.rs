//! Model, counts and cost of a call, under every name that was ever in use.
//!
//! Only model calls have a usage. The span of an agent or a workflow often repeats the sums of the calls below it,
//! which must not be counted twice; there these attributes stay metadata.

mod cost;
pub(crate) mod first_token;
mod names;
mod object;
mod parts;

use std::borrow::Cow;

use serde_json::Value;

use super::attributes::Attributes;
use super::value::{Any, parsed};
use super::vocabulary::{Used, Vocabulary};
use crate::config::ClientCost;

pub(crate) use cost::amount;
pub(crate) use object::Counts;
pub(crate) use parts::PartsRule;

const COUNT_MAX: i64 = 1 << 53;

/// What a call used. The parts of the prompt (cached, written, audio, images) are disjoint, and so are reasoning and audio
/// of the completion.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Usage<'a> {
    pub(crate) model: Option<Cow<'a, str>>,
    /// Tokens of the prompt, all of its parts included.
    pub(crate) prompt: Option<u64>,
    /// Tokens of the output, reasoning included.
    pub(crate) completion: Option<u64>,
    pub(crate) total: Option<u64>,
    /// Read from a cache.
    pub(crate) cached: Option<u64>,
    /// Written to a cache of the default lifetime.
    pub(crate) cache_write: Option<u64>,
    /// Written to a cache that lasts an hour.
    pub(crate) cache_write_1h: Option<u64>,
    pub(crate) input_audio: Option<u64>,
    pub(crate) input_image: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    pub(crate) output_audio: Option<u64>,
    /// Billed beside tokens, for example searches.
    pub(crate) requests: Option<u64>,
    /// `None` for the default one.
    pub(crate) service_tier: Option<String>,
    /// USD, above zero: authoritative.
    pub(crate) cost: Option<f64>,
    /// USD by a price list of the client's, above zero.
    pub(crate) estimated_cost: Option<f64>,
    /// Milliseconds until the first token.
    pub(crate) ttft_ms: Option<u64>,
}

impl<'a> Usage<'a> {
    pub(crate) fn of_model_call(attributes: &Attributes<'a>, used: Used) -> Self {
        let counts = counts(attributes, used);
        let tier = cost::service_tier(attributes);
        let given = cost::of_client(attributes, used);
        Self {
            model: model(attributes, used),
            service_tier: tier.or_else(|| cost::tier_of(counts.service_tier.as_deref()?)),
            estimated_cost: given.or_else(|| counts.cost.and_then(cost::rounded)),
            ..Self::of_counts(counts, makes_vectors(attributes))
        }
    }

    /// Counts as disjoint parts within their wholes.
    pub(crate) fn of_counts(counts: Counts, makes_vectors: bool) -> Self {
        // Vectors are no tokens, and without a count there would be no price.
        let of_vectors = (counts.prompt.is_some() && makes_vectors).then_some(0);
        let completion = counts.completion.or(of_vectors);
        let mut room = Room(counts.prompt);
        let cached = counts.cached.map(|count| room.take(count));
        let written = counts.cache_written.unwrap_or(0);
        let written_1h = counts.cache_written_1h.unwrap_or(0).min(written);
        let cache_write_1h = some(room.take(written_1h));
        let cache_write = some(room.take(written - written_1h));
        let input_audio = some(room.take(counts.input_audio.unwrap_or(0)));
        let input_image = some(room.take(counts.input_image.unwrap_or(0)));
        let mut room = Room(completion);
        let reasoning = counts.reasoning.map(|count| room.take(count));
        let output_audio = some(room.take(counts.output_audio.unwrap_or(0)));
        Self {
            prompt: counts.prompt.map(bounded),
            completion: completion.map(bounded),
            total: counts.total.map(bounded),
            cached,
            cache_write,
            cache_write_1h,
            input_audio,
            input_image,
            reasoning,
            output_audio,
            requests: counts.requests.and_then(some),
            ..Self::default()
        }
    }

    pub(crate) fn with_estimate(self, cost: Option<f64>) -> Self {
        Self {
            estimated_cost: cost.and_then(cost::rounded),
            ..self
        }
    }

    /// The cost of the client as the settings have it.
    pub(crate) fn with_cost_by(mut self, rule: ClientCost) -> Self {
        if rule == ClientCost::ProvidedFirst && self.cost.is_none() {
            self.cost = self.estimated_cost.take();
        }
        self
    }
}

/// What is left of a whole for further parts; unknown without a whole.
struct Room(Option<u64>);

impl Room {
    fn take(&mut self, count: u64) -> u64 {
        let taken = count.min(self.0.unwrap_or(u64::MAX));
        self.0 = self.0.map(|left| left - taken);
        taken
    }
}

/// A sum of counts may exceed what one may be.
fn bounded(count: u64) -> u64 {
    count.min(COUNT_MAX.unsigned_abs())
}

fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

fn model<'a>(attributes: &Attributes<'a>, used: Used) -> Option<Cow<'a, str>> {
    let names = names::SERVED_MODEL
        .into_iter()
        .chain(used.names(|one| one.model));
    let Some(served) = attributes.name(names) else {
        return attributes
            .name(names::ASKED_MODEL)
            .or_else(|| asked_in_parameters(attributes));
    };
    // The requested model stays metadata if it differs.
    for key in names::ASKED_MODEL {
        if attributes.text(key) == Some(&served) {
            attributes.take(key);
        }
    }
    Some(served)
}

/// The counts in the attributes and in objects, with their parts in their wholes.
fn counts(attributes: &Attributes<'_>, used: Used) -> Counts {
    let rule = parts::of_prompt(attributes, used);
    let of_response = Counts::of_response(attributes, used);
    let of_object = object_in(attributes, used.names(|one| one.usage));
    let of_object = of_object.map_or_else(Counts::default, |object| Counts::of(&object, rule));
    let (own, left_out) = Counts::of_attributes(attributes, used);
    if of_object.prompt.is_some() {
        // A whole object is consistent in itself.
        return of_object.or(own).or(of_response);
    }
    let rule = of_response.rule_for(own.prompt).unwrap_or(rule);
    let of_completion = match left_out {
        true => PartsRule::Beside,
        false => PartsRule::ByNumbers,
    };
    own.or(of_object)
        .or(of_response)
        .with_parts(rule, of_completion)
}

impl Counts {
    /// The counts in attributes, and whether the completion leaves reasoning out.
    fn of_attributes(attributes: &Attributes<'_>, used: Used) -> (Self, bool) {
        let read = |shared: &[&'static str], of: fn(&Vocabulary) -> &'static [&'static str]| {
            let names = shared.iter().copied().chain(used.names(of));
            attributes.first(names, count)
        };
        let without = |all: Option<u64>, cached: &[&'static str]| {
            let cached = attributes.first(cached.iter().copied(), count);
            all.map(|all| all.saturating_sub(cached.unwrap_or(0)))
        };
        let written_1h = read(&names::CACHE_WRITTEN_1H, |one| one.cache_written_1h);
        let written_5m = read(&names::CACHE_WRITTEN_5M, |_| &[]);
        let by_lifetime = match (written_5m, written_1h) {
            (None, None) => None,
            (short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
        };
        let left_out = read(&[], |one| one.thoughts);
        let counts = Self {
            prompt: read(&names::PROMPT, |one| one.prompt),
            completion: read(&names::COMPLETION, |one| one.completion),
            total: read(&names::TOTAL, |one| one.total),
            cached: read(&names::CACHED, |one| one.cached),
            cache_written: read(&names::CACHE_WRITTEN, |one| one.cache_written).or(by_lifetime),
            cache_written_1h: written_1h,
            input_audio: without(
                read(&names::INPUT_AUDIO, |one| one.input_audio),
                &names::CACHED_AUDIO,
            ),
            input_image: without(
                read(&names::INPUT_IMAGE, |one| one.input_image),
                &names::CACHED_IMAGE,
            ),
            reasoning: left_out.or_else(|| read(&names::REASONING, |one| one.reasoning)),
            output_audio: read(&names::OUTPUT_AUDIO, |one| one.output_audio),
            requests: read(&names::REQUESTS, |one| one.requests),
            service_tier: None,
            cost: None,
        };
        (counts, left_out.is_some())
    }

    /// The provider's own usage beside a client's counts: an object with one of them for each provider.
    fn of_response(attributes: &Attributes<'_>, used: Used) -> Self {
        let names = used.names(|one| one.response_usage);
        let mut objects = names.filter_map(|name| match parsed(attributes.get(name)?) {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        let Some(providers) = objects.next() else {
            return Self::default();
        };
        let mut counts = Self::default();
        for (provider, response) in &providers {
            // Anthropic's count leaves caches out, wherever it is hosted.
            let rule = match provider.as_str() {
                "anthropic" | "bedrock" => PartsRule::Beside,
                _ => PartsRule::ByNumbers,
            };
            let mut one = Self::of(response, rule);
            let tier = &response["serviceTier"];
            let tier = tier.as_str().or_else(|| tier["type"].as_str());
            one.service_tier = one.service_tier.or_else(|| tier.map(str::to_owned));
            counts = counts.or(one);
        }
        counts
    }

    /// Whether a client's count of the prompt includes the caches, by the provider's.
    fn rule_for(&self, prompt: Option<u64>) -> Option<PartsRule> {
        let (prompt, whole) = (prompt?, self.prompt?);
        let caches = self.caches();
        if prompt == whole {
            Some(PartsRule::Included)
        } else if prompt.saturating_add(caches) == whole {
            Some(PartsRule::Beside)
        } else {
            None
        }
    }
}

/// The first of these attributes that is an object.
fn object_in(
    attributes: &Attributes<'_>,
    mut names: impl Iterator<Item = &'static str>,
) -> Option<Value> {
    names.find_map(|name| match parsed(attributes.take(name)?) {
        Value::Object(fields) => Some(Value::Object(fields)),
        // Written by Python, as LiteLLM does: an object of numbers in other quotation marks.
        Value::String(text) if text.starts_with("{'") => {
            let text = text.replace('\'', "\"");
            let text = text.replace("None", "null").replace("False", "false");
            serde_json::from_str(&text.replace("True", "true")).ok()
        }
        _ => None,
    })
}

/// Whether the call is for embeddings, which have no output to count.
fn makes_vectors(attributes: &Attributes<'_>) -> bool {
    attributes
        .text("gen_ai.operation.name")
        .is_some_and(|name| {
            matches!(
                name.to_ascii_lowercase().as_str(),
                "embeddings" | "embedding"
            )
        })
        || attributes.text("llm.request.type") == Some("embedding")
        || attributes
            .text("ai.operationId")
            .is_some_and(|operation| operation.ends_with(".doEmbed"))
        || attributes.text("langfuse.observation.type") == Some("embedding")
        || attributes
            .text("openinference.span.kind")
            .is_some_and(|kind| kind.eq_ignore_ascii_case("EMBEDDING"))
}

/// The model in OpenInference's parameters of the call: the only source when the call failed.
fn asked_in_parameters<'a>(attributes: &Attributes<'a>) -> Option<Cow<'a, str>> {
    #[derive(serde::Deserialize)]
    struct Parameters {
        model: String,
    }
    let text = attributes.text("llm.invocation_parameters")?;
    let Parameters { model } = serde_json::from_str(text).ok()?;
    (1..=schemas::limits::NAME_BYTES)
        .contains(&model.len())
        .then(|| model.into())
}

/// A count, also as text or with a decimal point.
pub(crate) fn count(any: &Any) -> Option<u64> {
    let number = match any {
        Any::IntValue(number) => *number,
        Any::DoubleValue(number)
            if number.fract() == 0.0 && (0.0..=COUNT_MAX as f64).contains(number) =>
        {
            *number as i64
        }
        Any::StringValue(text) => text.parse().ok()?,
        _ => return None,
    };
    u64::try_from(number).ok().filter(|_| number <= COUNT_MAX)
}

#[cfg(test)]
mod tests;
