//! Model, token counts and cost of a call, under every name that was ever in use.
//!
//! Only model calls have a usage. The span of an agent or a workflow often repeats the sums of the calls below it,
//! which must not be counted twice; there these attributes stay metadata.

use std::borrow::Cow;

use super::attributes::Attributes;
use super::value::{Any, parsed};
use super::vocabulary::{Used, Vocabulary};
use serde_json::Value;

const SERVED_MODEL: [&str; 5] = [
    "gen_ai.response.model",
    "llm.response.model",
    "llm.model_name",
    "embedding.model_name",
    "reranker.model_name",
];
const ASKED_MODEL: [&str; 2] = ["gen_ai.request.model", "llm.request.model"];
const PROMPT: [&str; 4] = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
];
const COMPLETION: [&str; 4] = [
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
];
const TOTAL: [&str; 3] = [
    "gen_ai.usage.total_tokens",
    "llm.usage.total_tokens",
    "llm.token_count.total",
];
const CACHED: [&str; 7] = [
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.cached_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.usage.cache_read_input_tokens",
];
/// Read for the sum of the prompt; they stay metadata, because an event has no field for them.
const CACHE_WRITTEN: [&str; 8] = [
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.cache_creation_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
    "llm.usage.cache_creation_input_tokens",
];
const REASONING: [&str; 6] = [
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
];
const COST: [&str; 3] = [
    "gen_ai.usage.cost",
    "gen_ai.usage.total_cost",
    "llm.cost.total",
];
const COUNT_MAX: i64 = 1 << 53;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Usage<'a> {
    pub(crate) model: Option<Cow<'a, str>>,
    /// Tokens of the prompt, cached ones included.
    pub(crate) prompt: Option<u64>,
    /// Tokens of the output, reasoning included.
    pub(crate) completion: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    /// USD, above zero.
    pub(crate) cost: Option<f64>,
}

impl<'a> Usage<'a> {
    pub(crate) fn of_model_call(attributes: &Attributes<'a>, used: Used) -> Self {
        let names = |of: fn(&Vocabulary) -> &'static [&'static str]| used.names(of);
        let served = attributes.name(SERVED_MODEL.into_iter().chain(names(|one| one.model)));
        let model = match &served {
            // The requested model stays metadata if it differs.
            Some(served) => {
                for key in ASKED_MODEL {
                    if attributes.text(key) == Some(served) {
                        attributes.take(key);
                    }
                }
                Some(served.clone())
            }
            None => attributes
                .name(ASKED_MODEL)
                .or_else(|| asked_in_parameters(attributes)),
        };
        let tokens = |shared: &[&'static str], of| {
            attributes.first(shared.iter().copied().chain(names(of)), count)
        };
        let counts = Counts::of(attributes, names(|one| one.usage));
        let cached = tokens(&CACHED, |one| one.cached).or(counts.cached);
        let cache_written = CACHE_WRITTEN
            .into_iter()
            .chain(names(|one| one.cache_written))
            .find_map(|key| attributes.get(key).and_then(count))
            .or(counts.cache_written);
        let prompt = tokens(&PROMPT, |one| one.prompt).or(counts.prompt);
        let completion = tokens(&COMPLETION, |one| one.completion).or(counts.completion);
        let total = tokens(&TOTAL, |one| one.total).or(counts.total);
        // Vectors are no tokens, and without a count there would be no price.
        let completion =
            completion.or_else(|| (prompt.is_some() && makes_vectors(attributes)).then_some(0));
        let (prompt, total) = with_cache(prompt, total, completion, cached, cache_written);
        Self {
            model,
            prompt,
            completion,
            total,
            cached,
            reasoning: tokens(&REASONING, |one| one.reasoning).or(counts.reasoning),
            // Clients that know no price send 0, and so do failed calls: our own table then knows better.
            cost: attributes.first(COST, amount),
        }
    }
}

/// Counts from one JSON object, under the names of the providers' own responses and of the clients'.
#[derive(Debug, Default)]
struct Counts {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
    reasoning: Option<u64>,
}

impl Counts {
    /// The first of these attributes that is an object.
    fn of(attributes: &Attributes<'_>, mut names: impl Iterator<Item = &'static str>) -> Self {
        let object = names.find_map(|name| match parsed(attributes.take(name)?) {
            Value::Object(fields) => Some(Value::Object(fields)),
            // Written by Python, as LiteLLM does: an object of numbers in other quotation marks.
            Value::String(text) if text.starts_with("{'") => {
                let text = text.replace('\'', "\"").replace("None", "null");
                serde_json::from_str(&text).ok()
            }
            _ => None,
        });
        let Some(object) = object else {
            return Self::default();
        };
        // A pointer into the object.
        let first = |pointers: &[&str]| {
            let mut values = pointers
                .iter()
                .filter_map(|pointer| object.pointer(pointer));
            values.find_map(Value::as_u64)
        };
        Self {
            prompt: first(&[
                "/prompt_tokens",
                "/input_tokens",
                "/input",
                "/promptTokens",
                "/inputTokens",
            ]),
            completion: first(&[
                "/completion_tokens",
                "/output_tokens",
                "/output",
                "/completionTokens",
                "/outputTokens",
            ]),
            total: first(&["/total_tokens", "/total", "/totalTokens"]),
            cached: first(&[
                "/prompt_tokens_details/cached_tokens",
                "/input_tokens_details/cached_tokens",
                "/input_token_details/cache_read",
                "/input_cache_read",
                "/input_cached_tokens",
                "/cache_read_input_tokens",
                "/cached_tokens",
            ]),
            cache_written: first(&[
                "/input_token_details/cache_creation",
                "/input_cache_creation",
                "/cache_creation_input_tokens",
            ]),
            reasoning: first(&[
                "/completion_tokens_details/reasoning_tokens",
                "/output_tokens_details/reasoning_tokens",
                "/output_token_details/reasoning",
                "/output_reasoning",
                "/output_reasoning_tokens",
            ]),
        }
    }
}

/// Prompt and total with the cached tokens included.
///
/// The conventions say that the prompt's count includes tokens read from and written to a cache. Anthropic's own count
/// does not, and some instrumentations pass it on unchanged (OpenLLMetry for Bedrock, for one:
/// traceloop/openllmetry#4449). This is detectable where the parts are more than the whole, or where the total is the
/// sum of all of them, and only then is anything added; otherwise the count is taken as it is.
fn with_cache(
    prompt: Option<u64>,
    total: Option<u64>,
    completion: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
) -> (Option<u64>, Option<u64>) {
    let aside = cached
        .unwrap_or(0)
        .saturating_add(cache_written.unwrap_or(0));
    let Some(counted) = prompt.filter(|_| aside > 0) else {
        return (prompt, total);
    };
    let whole = counted.saturating_add(aside);
    let leaves_out = counted.saturating_add(completion.unwrap_or(0));
    let is_in_total = total == Some(leaves_out.saturating_add(aside));
    if aside <= counted && !is_in_total {
        return (prompt, total);
    }
    let total = total.map(|total| match total == leaves_out {
        true => total.saturating_add(aside),
        false => total,
    });
    (Some(whole), total)
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
fn count(any: &Any) -> Option<u64> {
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

/// An amount of money above zero and below the bound of an event, rounded to an event's digits: less than a millionth
/// of a millionth is nothing.
fn amount(any: &Any) -> Option<f64> {
    let number = match any {
        Any::DoubleValue(number) => *number,
        Any::IntValue(number) => *number as f64,
        Any::StringValue(text) => text.parse().ok()?,
        _ => return None,
    };
    let number = match number < 1.0 {
        true => (number * 1e12).round() / 1e12,
        false => number,
    };
    (number > 0.0 && number < 1e12).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_added_only_where_the_prompt_cannot_hold_them() {
        for (given, expected) in [
            // The conventions: included.
            (
                (Some(130), Some(150), Some(20), Some(100), Some(25)),
                (Some(130), Some(150)),
            ),
            // Anthropic's own counts: 5 besides 100 read and 25 written.
            (
                (Some(5), Some(25), Some(20), Some(100), Some(25)),
                (Some(130), Some(150)),
            ),
            // The same with a total that includes them.
            (
                (Some(5), Some(150), Some(20), Some(100), Some(25)),
                (Some(130), Some(150)),
            ),
            ((Some(5), None, Some(20), None, None), (Some(5), None)),
            ((None, Some(25), None, Some(100), None), (None, Some(25))),
            // Fewer than the prompt, and the total is the sum of all.
            (
                (Some(200), Some(345), Some(20), Some(100), Some(25)),
                (Some(325), Some(345)),
            ),
        ] {
            let (prompt, total, completion, cached, written) = given;
            assert_eq!(
                with_cache(prompt, total, completion, cached, written),
                expected,
                "{given:?}"
            );
        }
    }

    #[test]
    fn a_count_is_a_whole_number_from_zero_however_it_is_written() {
        for (any, expected) in [
            (Any::IntValue(37), Some(37)),
            (Any::DoubleValue(37.0), Some(37)),
            (Any::StringValue("37".into()), Some(37)),
            (Any::IntValue(-1), None),
            (Any::IntValue(i64::MAX), None),
            (Any::DoubleValue(1.5), None),
            (Any::DoubleValue(f64::NAN), None),
            (Any::BoolValue(true), None),
        ] {
            assert_eq!(count(&any), expected, "{any:?}");
        }
    }

    #[test]
    fn an_amount_is_one_that_an_event_may_carry() {
        for (given, expected) in [
            (0.25, Some(0.25)),
            (1.234_567_890_123_456_7e-9, Some(1.235e-9)),
            (1e-30, None),
            (f64::MIN_POSITIVE, None),
            (0.0, None),
            (1e12, None),
            (f64::NAN, None),
            (999_999_999_999.5, Some(999_999_999_999.5)),
        ] {
            assert_eq!(amount(&Any::DoubleValue(given)), expected, "{given}");
        }
    }
}
