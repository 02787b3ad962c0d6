//! Counts from one JSON object: the usage of a response as the provider wrote it, or as a client rewrote it.
//!
//! The names show whose object it is, and so whether the counts include their parts: Anthropic's and Bedrock's leave
//! cached tokens out, Gemini's leaves thoughts out, Langfuse's counts every token under one name only.

use serde_json::{Map, Value};

use super::parts::{PartsRule, whole};

/// Counts of a call; prompt and completion include their parts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) prompt: Option<u64>,
    pub(crate) completion: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cached: Option<u64>,
    /// Written to a cache, for any time.
    pub(crate) cache_written: Option<u64>,
    /// The part of them that is kept for an hour.
    pub(crate) cache_written_1h: Option<u64>,
    pub(crate) input_audio: Option<u64>,
    pub(crate) input_image: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    pub(crate) output_audio: Option<u64>,
    pub(crate) requests: Option<u64>,
    pub(crate) service_tier: Option<String>,
    /// USD.
    pub(crate) cost: Option<f64>,
}

/// Fields that hold the object in the response, or in what a client sends of it.
const INSIDE: [&str; 4] = ["usage_metadata", "usageMetadata", "usage", "tokenUsage"];

impl Counts {
    /// `unknown` is the rule for an object whose names do not show it.
    pub(crate) fn of(object: &Value, unknown: PartsRule) -> Self {
        let object = INSIDE
            .iter()
            .find_map(|key| object.get(key).filter(|inner| inner.is_object()))
            .unwrap_or(object);
        let Some(fields) = object.as_object() else {
            return Self::default();
        };
        let is_count = |key: &str| fields.get(key).is_some_and(Value::is_u64);
        let is_langfuse = (is_count("input") || is_count("output"))
            && fields.get("input_token_details").is_none();
        let mut counts = match is_langfuse {
            true => of_langfuse(fields),
            false => of_provider(object, unknown),
        };
        let tier = object.get("service_tier").and_then(Value::as_str);
        counts.service_tier = tier.map(str::to_owned);
        counts.cost = object.get("cost").and_then(amount);
        counts
    }

    /// The counts of `other` where these have none.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.or(other.prompt),
            completion: self.completion.or(other.completion),
            total: self.total.or(other.total),
            cached: self.cached.or(other.cached),
            cache_written: self.cache_written.or(other.cache_written),
            cache_written_1h: self.cache_written_1h.or(other.cache_written_1h),
            input_audio: self.input_audio.or(other.input_audio),
            input_image: self.input_image.or(other.input_image),
            reasoning: self.reasoning.or(other.reasoning),
            output_audio: self.output_audio.or(other.output_audio),
            requests: self.requests.or(other.requests),
            service_tier: self.service_tier.or(other.service_tier),
            cost: self.cost.or(other.cost),
        }
    }

    /// Tokens read from a cache and written to one.
    pub(super) fn caches(&self) -> u64 {
        let read = self.cached.unwrap_or(0);
        read.saturating_add(self.cache_written.unwrap_or(0))
    }

    /// Adds the parts to prompt, completion and total.
    pub(crate) fn with_parts(mut self, prompt: PartsRule, completion: PartsRule) -> Self {
        let rest = self.completion.unwrap_or(0);
        (self.prompt, self.total) = whole(prompt, self.prompt, self.total, self.caches(), rest);
        let rest = self.prompt.unwrap_or(0);
        let parts = self.reasoning.unwrap_or(0);
        (self.completion, self.total) = whole(completion, self.completion, self.total, parts, rest);
        self
    }
}

/// The first of these pointers that is a count.
fn first(object: &Value, pointers: &[&str]) -> Option<u64> {
    let mut values = pointers
        .iter()
        .filter_map(|pointer| object.pointer(pointer));
    values.find_map(count)
}

fn count(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .filter(|count| *count <= super::COUNT_MAX.unsigned_abs())
}

fn amount(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Tokens of one modality in a list of Gemini's.
fn of_modality(object: &Value, lists: [&str; 2], modality: &str) -> Option<u64> {
    let list = lists.iter().find_map(|key| object.get(key)?.as_array())?;
    let is_one = |entry: &&Value| {
        let name = entry["modality"].as_str().unwrap_or_default();
        name.rsplit('.').next() == Some(modality)
    };
    let counts = list.iter().filter(is_one);
    let counts = counts.filter_map(|entry| first(entry, &["/token_count", "/tokenCount"]));
    counts.reduce(u64::saturating_add)
}

/// The same of the prompt, without those that came from a cache.
fn of_prompt_modality(object: &Value, modality: &str) -> Option<u64> {
    let of = |lists| of_modality(object, lists, modality);
    let cached = of(["cache_tokens_details", "cacheTokensDetails"]);
    let all = of(["prompt_tokens_details", "promptTokensDetails"])?;
    Some(all.saturating_sub(cached.unwrap_or(0)))
}

fn of_provider(object: &Value, unknown: PartsRule) -> Counts {
    let read = |pointers: &[&str]| first(object, pointers);
    let has = |pointers: &[&str]| pointers.iter().any(|key| object.pointer(key).is_some());
    let written_1h = read(&[
        "/cache_creation/ephemeral_1h_input_tokens",
        "/cache_creation_token_details/ephemeral_1h_input_tokens",
        "/prompt_tokens_details/cache_creation_token_details/ephemeral_1h_input_tokens",
        "/input_token_details/ephemeral_1h_input_tokens",
        // MLflow.
        "/cache_creation_input_tokens_above_1hr",
    ]);
    let written_5m = read(&[
        "/cache_creation/ephemeral_5m_input_tokens",
        "/cache_creation_token_details/ephemeral_5m_input_tokens",
        "/prompt_tokens_details/cache_creation_token_details/ephemeral_5m_input_tokens",
        "/input_token_details/ephemeral_5m_input_tokens",
    ]);
    let written = read(&[
        "/cache_creation_input_tokens",
        "/input_token_details/cache_creation",
        "/prompt_tokens_details/cache_creation_tokens",
        "/prompt_tokens_details/cache_write_tokens",
        "/input_tokens_details/cache_write_tokens",
        "/cacheWriteInputTokens",
        "/cacheCreationInputTokens",
        "/inputTokenDetails/cacheWriteTokens",
        "/inputDetails/cacheWrite",
    ]);
    let is_gemini = has(&["/prompt_token_count", "/promptTokenCount"]);
    let tools = read(&["/tool_use_prompt_token_count", "/toolUsePromptTokenCount"]);
    let prompt = read(&[
        "/prompt_tokens",
        "/input_tokens",
        "/promptTokens",
        "/inputTokens",
        "/prompt_token_count",
        "/promptTokenCount",
        "/inputTokenCount",
        "/input",
    ]);
    let prompt_rule = match () {
        // OpenAI's own objects, and the shape of its that others use.
        () if is_gemini || has(&["/prompt_tokens", "/promptTokens"]) => PartsRule::Included,
        () if has(&[
            "/input_tokens_details",
            "/input_token_details",
            "/cachedInputTokens",
            "/inputTokenDetails",
            "/inputDetails",
        ]) =>
        {
            PartsRule::Included
        }
        // Anthropic's and Bedrock's own.
        () if has(&["/cache_creation", "/server_tool_use"])
            || has(&["/cacheReadInputTokens", "/cacheWriteInputTokens"]) =>
        {
            PartsRule::Beside
        }
        () => unknown,
    };
    let completion_rule = match is_gemini {
        true => PartsRule::Beside,
        false => PartsRule::ByNumbers,
    };
    let counts = Counts {
        prompt: prompt.map(|prompt| prompt.saturating_add(tools.unwrap_or(0))),
        completion: read(&[
            "/completion_tokens",
            "/output_tokens",
            "/completionTokens",
            "/outputTokens",
            "/candidates_token_count",
            "/candidatesTokenCount",
            "/outputTokenCount",
            "/output",
        ]),
        total: read(&[
            "/total_tokens",
            "/total",
            "/totalTokens",
            "/total_token_count",
            "/totalTokenCount",
        ]),
        cached: read(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/input_token_details/cache_read",
            "/cache_read_input_tokens",
            "/cached_tokens",
            "/cached_content_token_count",
            "/cachedContentTokenCount",
            "/cacheReadInputTokens",
            "/cachedInputTokens",
            "/cachedPromptTokens",
            "/inputTokenDetails/cacheReadTokens",
            "/inputDetails/cacheRead",
            "/prompt_cache_hit_tokens",
        ]),
        // LangChain sets the sum to 0 where it has the lifetimes.
        cache_written: written.max(sum(written_5m, written_1h)),
        cache_written_1h: written_1h,
        input_audio: read(&[
            "/prompt_tokens_details/audio_tokens",
            "/input_tokens_details/audio_tokens",
            "/input_token_details/audio",
            "/inputDetails/audio",
        ])
        .or_else(|| of_prompt_modality(object, "AUDIO")),
        input_image: read(&[
            "/prompt_tokens_details/image_tokens",
            "/input_tokens_details/image_tokens",
            "/input_token_details/image",
            "/inputDetails/image",
        ])
        .or_else(|| of_prompt_modality(object, "IMAGE")),
        reasoning: read(&[
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
            "/output_tokens_details/thinking_tokens",
            "/output_token_details/reasoning",
            "/thoughts_token_count",
            "/thoughtsTokenCount",
            "/reasoningTokens",
            "/outputTokenDetails/reasoningTokens",
            "/outputDetails/reasoning",
        ]),
        output_audio: read(&[
            "/completion_tokens_details/audio_tokens",
            "/output_tokens_details/audio_tokens",
            "/output_token_details/audio",
            "/outputDetails/audio",
        ])
        .or_else(|| {
            let lists = ["candidates_tokens_details", "candidatesTokensDetails"];
            of_modality(object, lists, "AUDIO")
        }),
        requests: read(&[
            "/server_tool_use/web_search_requests",
            "/web_search_requests",
            "/num_search_queries",
        ]),
        service_tier: None,
        cost: None,
    };
    counts.with_parts(prompt_rule, completion_rule)
}

fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (None, None) => None,
        (left, right) => Some(left.unwrap_or(0).saturating_add(right.unwrap_or(0))),
    }
}

/// Langfuse's `usage_details`: each token under one name, so `input` are the tokens of the prompt that no other name
/// has, and all names that begin so are the prompt. The names are free; these are what its SDKs write, and what its
/// documentation asks for.
fn of_langfuse(fields: &Map<String, Value>) -> Counts {
    let count = |key: &str| fields.get(key).and_then(count);
    // The sum of those that are there.
    let any = |keys: &[&str]| {
        let counts = keys.iter().filter_map(|key| count(key));
        counts.reduce(u64::saturating_add)
    };
    let under = |prefix: &str| {
        let counts = fields.iter().filter(|(key, _)| {
            key.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        });
        let counts = counts.filter_map(|(_, value)| self::count(value));
        counts.reduce(u64::saturating_add)
    };
    let written_1h = any(&[
        "input_cache_creation_1h",
        "input_cache_creation_ephemeral_1h",
        "input_ephemeral_1h_input_tokens",
        "cache_creation_ephemeral_1h_input_tokens",
    ]);
    let written_5m = any(&[
        "input_cache_creation_5m",
        "input_cache_creation_ephemeral_5m",
        "input_ephemeral_5m_input_tokens",
        "cache_creation_ephemeral_5m_input_tokens",
    ]);
    let plain = any(&[
        "input_cache_creation",
        "input_cache_write",
        "input_cache_write_tokens",
    ]);
    // Anthropic's names, as its users pass them on; the sum includes both lifetimes.
    let of_anthropic = count("cache_creation_input_tokens");
    let beside_plain = sum(
        plain,
        any(&["input_cache_creation_1h", "input_cache_creation_5m"]),
    );
    let cache_written = beside_plain
        .max(sum(written_5m, written_1h))
        .max(of_anthropic);
    let cached_elsewhere = any(&["cache_read_input_tokens", "cached_tokens"]);
    let cached_by_modality = under("cached_modality");
    let cached = any(&[
        "input_cache_read",
        "input_cached_tokens",
        "input_cached",
        "input_cache_read_tokens",
        "input_cache_read_input_tokens",
    ]);
    let all_cached = sum(cached, sum(cached_elsewhere, cached_by_modality));
    let beside = sum(cached_elsewhere, sum(cached_by_modality, of_anthropic)).unwrap_or(0);
    let of_prompt = sum(under("input"), Some(beside));
    let of_completion = under("output");
    let total = count("total");
    let (input, output) = (count("input"), count("output"));
    // A total shows that the parts are in the whole, against the rule: some users' own objects are like that.
    let is_total = |prompt, completion| total.is_some() && total == sum(prompt, completion);
    let (prompt, completion, rule) = if is_total(input, output) && input.is_some() {
        (input, output, PartsRule::ByNumbers)
    } else if is_total(of_prompt, output) {
        (of_prompt, output, PartsRule::Included)
    } else {
        (of_prompt, of_completion, PartsRule::Included)
    };
    let counts = Counts {
        prompt: prompt.filter(|_| fields.keys().any(|key| key.contains("input"))),
        completion,
        total,
        cached: all_cached,
        cache_written,
        cache_written_1h: written_1h,
        input_audio: any(&["input_audio", "input_audio_tokens", "input_modality_AUDIO"]),
        input_image: any(&["input_image", "input_image_tokens", "input_modality_IMAGE"]),
        reasoning: any(&["output_reasoning", "output_reasoning_tokens"]),
        output_audio: any(&[
            "output_audio",
            "output_audio_tokens",
            "output_modality_AUDIO",
        ]),
        requests: count("web_search_requests"),
        service_tier: None,
        cost: None,
    };
    counts.with_parts(rule, rule)
}
