//! Whether a count includes its parts: the prompt's count cached tokens, the completion's count reasoning.
//!
//! The conventions demand that it does. Anthropic's and Bedrock's own counts of the prompt leave cached tokens out, and
//! some instrumentations pass them on unchanged.

use super::super::attributes::Attributes;
use super::super::vocabulary::Used;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartsRule {
    Included,
    /// The parts have to be added.
    Beside,
    /// Unknown: they are added where more are counted than the whole has, or where the total is the sum of all.
    ByNumbers,
}

use PartsRule::{Beside, ByNumbers, Included};

/// What is known of the prompt's count of one instrumentation, or of all that pass on a provider's count.
struct Known {
    /// Name of the instrumentation scope, or its beginning up to a separator; empty for any.
    scope: &'static str,
    /// Beginning of the provider's name; empty for any.
    provider: &'static str,
    rule: PartsRule,
    /// Where it is stated.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers"))]
    source: &'static str,
}

const fn known(
    scope: &'static str,
    provider: &'static str,
    rule: PartsRule,
    source: &'static str,
) -> Known {
    Known {
        scope,
        provider,
        rule,
        source,
    }
}

/// The first that matches counts.
const BY_SCOPE: [Known; 11] = [
    known(
        "com.anthropic.sdk",
        "",
        Included,
        "anthropic 2.13 (PyPI), lib._tracing._response: input + cache reads + cache writes",
    ),
    known(
        "pydantic-ai",
        "",
        Included,
        "pydantic-ai 2.68 (PyPI), usage: input_tokens includes cached reads for every provider",
    ),
    known(
        "opentelemetry.instrumentation.anthropic",
        "",
        Included,
        "OpenLLMetry 0.62, instrumentation.anthropic: prompt + cache reads + cache creation",
    ),
    known(
        "opentelemetry.instrumentation.bedrock",
        "",
        Beside,
        "OpenLLMetry 0.62, instrumentation.bedrock.span_utils: inputTokens of Converse as it is (traceloop/openllmetry#4449)",
    ),
    known(
        "opentelemetry.instrumentation.genai",
        "",
        Included,
        "opentelemetry-util-genai 1.3 (PyPI), as the conventions demand",
    ),
    known(
        "openlit",
        "anthropic",
        Beside,
        "openlit 1.35 (PyPI), instrumentation.anthropic.utils: usage.input_tokens as it is",
    ),
    known(
        "openlit",
        "aws.bedrock",
        Beside,
        "openlit 1.35 (PyPI), instrumentation.bedrock.utils: inputTokens as it is",
    ),
    // Releases before 1.60 pass Bedrock's count on, with a total that includes the caches.
    known(
        "strands.telemetry.tracer",
        "",
        ByNumbers,
        "strands-agents 1.62 (PyPI), telemetry.tracer: _total_prompt_tokens",
    ),
    known(
        "openinference.instrumentation.bedrock",
        "",
        ByNumbers,
        "openinference-instrumentation-bedrock 0.1.61 (PyPI): Converse passes inputTokens and totalTokens on, InvokeModel adds",
    ),
    known(
        "logfire",
        "",
        Included,
        "logfire 4 (PyPI), which counts with genai-prices",
    ),
    known(
        "gen_ai",
        "",
        Included,
        "ai 7 (npm), its spans by the GenAI conventions",
    ),
];

/// Providers whose own counts include cached tokens, whichever instrumentation passes them on.
const BY_PROVIDER: [Known; 14] = [
    of_provider("openai"),
    of_provider("azure"),
    of_provider("google"),
    of_provider("gcp"),
    of_provider("gemini"),
    of_provider("vertex"),
    of_provider("deepseek"),
    of_provider("groq"),
    of_provider("xai"),
    of_provider("x_ai"),
    of_provider("x-ai"),
    of_provider("mistral"),
    // 17,903 tokens of the prompt include 17,817 that were cached.
    of_provider("openrouter"),
    of_provider("litellm"),
];

const fn of_provider(provider: &'static str) -> Known {
    known("", provider, Included, "the provider's API reference")
}

/// Attributes that name the provider.
const PROVIDER: [&str; 6] = [
    "ai.model.provider",
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "llm.system",
    "mlflow.message.format",
];

impl Known {
    fn applies(&self, scope: &str, provider: &str) -> bool {
        let is_scope = self.scope.is_empty()
            || scope
                .strip_prefix(self.scope)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', '-', '_', ':']));
        is_scope && provider.starts_with(self.provider)
    }
}

/// The rule for the prompt's count in the attributes of a span.
pub(super) fn of_prompt(attributes: &Attributes<'_>, used: Used) -> PartsRule {
    // A vocabulary that counts the rest of the prompt too includes it in the whole.
    let counts_rest = |name| attributes.get(name).is_some();
    if used.names(|one| one.uncached).any(counts_rest) {
        return Included;
    }
    let mut providers = PROVIDER.iter().filter_map(|key| attributes.text(key));
    // MLflow writes JSON.
    let provider = providers.next().unwrap_or_default().trim_matches('"');
    let provider = provider.to_ascii_lowercase();
    let known = BY_SCOPE
        .iter()
        .find(|known| known.applies(attributes.scope(), &provider));
    if let Some(known) = known {
        return known.rule;
    }
    let mut rules = used.prompt_rules();
    if let Some((_, rule)) = rules.find(|(of, _)| provider.starts_with(of)) {
        return *rule;
    }
    // Claude on Vertex AI is counted as Anthropic counts.
    let is_own = !provider.contains("anthropic");
    let known = BY_PROVIDER
        .iter()
        .find(|known| is_own && known.applies("", &provider));
    known.map_or(ByNumbers, |known| known.rule)
}

/// A count and the total of a call, with the parts included. `rest` are the tokens of the total beside the count.
pub(super) fn whole(
    rule: PartsRule,
    count: Option<u64>,
    total: Option<u64>,
    parts: u64,
    rest: u64,
) -> (Option<u64>, Option<u64>) {
    let Some(counted) = count.filter(|_| parts > 0) else {
        return (count, total);
    };
    let without = counted.saturating_add(rest);
    let is_in_total = total == Some(without.saturating_add(parts));
    // More parts than the whole has: no rule can be right that says so.
    let adds = parts > counted
        || match rule {
            Included => false,
            Beside => true,
            ByNumbers => is_in_total,
        };
    if !adds {
        return (count, total);
    }
    let total = total.map(|total| match total == without {
        true => total.saturating_add(parts),
        false => total,
    });
    (Some(counted.saturating_add(parts)), total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_by_rule_or_by_the_numbers() {
        for (rule, [count, total, parts, rest], expected) in [
            // 130 tokens of the prompt, 100 of them read and 25 written.
            (Included, [130, 150, 125, 20], [130, 150]),
            (ByNumbers, [130, 150, 125, 20], [130, 150]),
            // 5 beside them, as Anthropic counts.
            (Beside, [5, 25, 125, 20], [130, 150]),
            (ByNumbers, [5, 25, 125, 20], [130, 150]),
            // The same with a total of all.
            (Beside, [5, 150, 125, 20], [130, 150]),
            (ByNumbers, [5, 150, 125, 20], [130, 150]),
            // More beside the caches than in them: only a rule or a total tells.
            (Beside, [500, 520, 125, 20], [625, 645]),
            (ByNumbers, [500, 645, 125, 20], [625, 645]),
            (ByNumbers, [500, 520, 125, 20], [500, 520]),
            // A rule that cannot be.
            (Included, [5, 25, 125, 20], [130, 150]),
            (Beside, [5, 25, 0, 20], [5, 25]),
        ] {
            let (count, total) = whole(rule, Some(count), Some(total), parts, rest);
            assert_eq!(
                [count, total],
                expected.map(Some),
                "{rule:?} {parts} {rest}"
            );
        }
        assert_eq!(whole(Beside, None, Some(9), 3, 0), (None, Some(9)));
        assert_eq!(whole(Beside, Some(9), None, 3, 0), (Some(12), None));
    }

    #[test]
    fn a_scope_is_named_whole_or_up_to_a_separator() {
        let row = known("openlit", "anthropic", Beside, "x");
        assert!(row.applies("openlit.otel.tracing", "anthropic"));
        assert!(row.applies("openlit", "anthropic.messages"));
        assert!(!row.applies("openlittle", "anthropic"));
        assert!(!row.applies("openlit", "openai"));
        for row in BY_SCOPE.iter().chain(&BY_PROVIDER) {
            assert!(!row.source.is_empty(), "{} {}", row.scope, row.provider);
        }
    }
}
