//! A run on the API: in a list, and in full.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::event::{Tokens, UsageParts};
use crate::fold::{CostStatus, RunStatus};
use crate::money::Dollars;
use crate::timestamp::{UnixMs, to_text};

/// Serialized as ISO 8601 UTC with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub UnixMs);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_text(self.0))
    }
}

/// Milliseconds, serialized as seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub i64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The shortest decimal that parses to this float has the three digits that it came from.
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

/// A run in a list. What is not known is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Run {
    /// The project, only where the caller reaches more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub project_id: Option<String>,
    /// The run.
    pub run_id: String,
    /// The app inside the project.
    pub app_id: String,
    /// Its parent, `null` for a root.
    pub parent_run_id: Option<String>,
    /// Its topmost known ancestor; itself when it has none.
    pub root_run_id: String,
    /// Name.
    pub name: Option<String>,
    /// `agent`, `llm`, `tool`, ...
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where it stands.
    #[schema(value_type = String, pattern = "^(started|success|error)$")]
    pub status: RunStatus,
    /// Whether it has been `started` for more than five minutes.
    pub stale: bool,
    /// Its own agent or the nearest ancestor's.
    pub agent: Option<String>,
    /// Model of a model call.
    pub model: Option<String>,
    /// Its own user or the nearest ancestor's.
    pub user_email: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Conversation it belongs to.
    pub thread_id: Option<String>,
    /// The earliest time at which one of its events opens it: an event whose name ends in `_start`, or a one-shot event
    /// (`llm_call`, or another name with an `output`). Without such an event, the time of its earliest event.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Instant,
    /// The latest time at which one of its events closes it, `null` while none does: an event whose name ends in `_end`
    /// or `_error`, an event with an error, another event than a start with a `status`, or a one-shot event, which
    /// closes `duration_ms` after its own time.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Instant>,
    /// End minus start in seconds, at least 0, `null` while unfinished.
    #[schema(value_type = Option<f64>)]
    pub latency_s: Option<Seconds>,
    /// Its own tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Its own tokens of the completion.
    pub completion_tokens: Option<u64>,
    /// All its own tokens.
    pub total_tokens: Option<u64>,
    /// Milliseconds from the request of a model call to its first token.
    pub ttft_ms: Option<u64>,
    /// Completion tokens a second, from the first token where its time is known, else from the start.
    pub tokens_per_second: Option<f64>,
    /// Its own cost in USD, exact.
    #[schema(value_type = f64)]
    pub cost: Dollars,
    /// Why the cost is what it is.
    #[schema(value_type = String, pattern = "^(priced|provided|not_llm|no_model|no_tokens|unpriced_model|partly_priced|counted_elsewhere)$")]
    pub cost_status: CostStatus,
    /// The run that counts this model call, where `cost_status` is `counted_elsewhere`: another instrumentation reported
    /// the call too, and nothing of this run counts in any sum.
    pub counted_run_id: Option<String>,
    /// Cost with all descendants in USD, exact.
    #[schema(value_type = f64)]
    pub total_cost: Dollars,
    /// Tokens with all descendants.
    pub total_tokens_with_children: u64,
    /// Model calls, descendants included.
    pub llm_calls: u64,
    /// Errors, descendants included.
    pub error_count: u64,
    /// What went wrong.
    pub error: Option<RunError>,
    /// Whether it is kept past retention.
    pub saved: bool,
    /// Newest feedback.
    pub feedback: Option<Feedback>,
    /// Beginning of the input.
    pub input_preview: Option<String>,
    /// Beginning of the output: of the answer's text, where the output is a message.
    pub output_preview: Option<String>,
}

/// An error of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunError {
    /// Its kind.
    pub name: Option<String>,
    /// What it says.
    pub message: String,
    /// Where it came from; only on the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stack: Option<String>,
}

/// Feedback on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Feedback {
    /// `positive` or `negative`; in a history `null` where an old client gave only words.
    #[schema(value_type = Option<String>, pattern = "^(positive|negative)$")]
    pub rating: Option<String>,
    /// What was said with it.
    pub comment: Option<String>,
    /// When it was given.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Instant>,
}

/// A page of the run list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub data: Vec<Run>,
    /// Give it as `cursor` to go on; `null` on the last page.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
    /// How many runs match, where `count=true` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub count: Option<u64>,
    /// Whether there are more than `count` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub count_capped: Option<bool>,
}

/// A run and everything below it, parents before their children.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RunTree {
    /// The run that was asked for.
    pub run_id: String,
    /// It and its descendants.
    pub data: Vec<Run>,
    /// Whether there are more than are here.
    pub truncated: bool,
}

/// A whole run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunDetail {
    /// What the list shows of it.
    #[serde(flatten)]
    pub run: Run,
    /// Part of the prompt's tokens that came from a cache.
    pub cached_tokens: Option<u64>,
    /// Part of the completion's tokens spent on reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Its own tokens by kind, `null` where none are known.
    pub usage: Option<UsageByKind>,
    /// Kinds of its usage without a rate of their own, at the prices of now: why `cost_status` is `partly_priced`.
    pub unpriced_kinds: Vec<&'static str>,
    /// The identifier that the model's provider gave to the response.
    pub response_id: Option<String>,
    /// Whether the cost is an estimate.
    pub cost_estimated: bool,
    /// Prompt tokens with all descendants.
    pub total_prompt_tokens: u64,
    /// Completion tokens with all descendants.
    pub total_completion_tokens: u64,
    /// Input, any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<Box<RawValue>>,
    /// Output, any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<Box<RawValue>>,
    /// The run that input and output are taken from, where this one reported neither: another report of the same model
    /// call.
    pub content_run_id: Option<String>,
    /// Metadata.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub metadata: BTreeMap<String, Box<RawValue>>,
    /// Fields of its events that have no meaning here.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub fields: BTreeMap<String, Box<RawValue>>,
    /// Its own model calls by time, at the prices of now. One for each event of type `llm` with usage; a start and an
    /// end are one.
    pub calls: Vec<RunCall>,
    /// Every feedback, oldest first.
    pub feedback_history: Vec<Feedback>,
    /// Its events by time.
    pub events: Vec<RunEvent>,
    /// Whether there are more events than are here; then calls, input, output and the rest are of those that are here.
    pub events_truncated: bool,
    /// Other apps of the same project that have a run of this id, where `app_id` chose none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_in_apps: Vec<String>,
}

/// A model call of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunCall {
    /// The event that completes it, `null` where none does yet.
    pub event_id: Option<String>,
    /// Time of that event, else the start of the run.
    #[schema(value_type = String, format = DateTime)]
    pub at: Instant,
    /// Model.
    pub model: Option<String>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the completion.
    pub completion_tokens: Option<u64>,
    /// All its tokens.
    pub total_tokens: Option<u64>,
    /// Part of the prompt's tokens that came from a cache.
    pub cached_tokens: Option<u64>,
    /// Part of the completion's tokens spent on reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Its tokens by kind, `null` where none are known.
    pub usage: Option<UsageByKind>,
    /// The service tier, such as `batch`, `flex` or `priority`.
    pub service_tier: Option<String>,
    /// Milliseconds from the request to the first token.
    pub ttft_ms: Option<u64>,
    /// Cost in USD, exact.
    #[schema(value_type = f64)]
    pub cost: Dollars,
    /// Why the cost is what it is.
    #[schema(value_type = String, pattern = "^(priced|provided|not_llm|no_model|no_tokens|unpriced_model|partly_priced|counted_elsewhere)$")]
    pub cost_status: CostStatus,
    /// Whether the cost is an estimate.
    pub cost_estimated: bool,
    /// Kinds of its usage without a rate of their own, charged like other tokens of the prompt or the completion.
    pub unpriced_kinds: Vec<&'static str>,
    /// The row of the price table that it is priced by.
    pub price: Option<UsedPrice>,
}

/// Tokens by kind: each token is counted in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageByKind {
    /// Prompt tokens of no kind below.
    pub input: u64,
    /// Prompt tokens read from a cache.
    pub cache_read: u64,
    /// Prompt tokens written to a cache of the default lifetime.
    pub cache_write: u64,
    /// Prompt tokens written to a cache that lasts an hour.
    pub cache_write_1h: u64,
    /// Prompt tokens of audio.
    pub input_audio: u64,
    /// Prompt tokens of images.
    pub input_image: u64,
    /// Completion tokens of no kind below.
    pub output: u64,
    /// Completion tokens spent on reasoning.
    pub reasoning: u64,
    /// Completion tokens of audio.
    pub output_audio: u64,
    /// Requests that are billed beside tokens.
    pub requests: u64,
}

impl UsageByKind {
    /// `None` where neither prompt nor completion is known.
    pub fn of(tokens: Tokens, parts: UsageParts) -> Option<Self> {
        tokens.prompt.or(tokens.completion).or(parts.requests)?;
        let mut prompt = tokens.prompt.unwrap_or(0);
        let mut completion = tokens.completion.unwrap_or(0);
        // Parts that are more than the whole are cut, so that the kinds add up to it.
        fn take(rest: &mut u64, part: Option<u64>) -> u64 {
            let part = part.unwrap_or(0).min(*rest);
            *rest -= part;
            part
        }
        let cache_read = take(&mut prompt, tokens.cached);
        let cache_write = take(&mut prompt, parts.cache_write);
        let cache_write_1h = take(&mut prompt, parts.cache_write_1h);
        let input_audio = take(&mut prompt, parts.input_audio);
        let input_image = take(&mut prompt, parts.input_image);
        let reasoning = take(&mut completion, tokens.reasoning);
        let output_audio = take(&mut completion, parts.output_audio);
        Some(Self {
            input: prompt,
            cache_read,
            cache_write,
            cache_write_1h,
            input_audio,
            input_image,
            output: completion,
            reasoning,
            output_audio,
            requests: parts.requests.unwrap_or(0),
        })
    }
}

/// A row of the price table that priced a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsedPrice {
    /// Its model: the name as sent, the name without provider, region or date, or a prefix of it.
    pub model: String,
    /// Whether it applies to all names with this prefix.
    pub prefix: bool,
    /// When it begins to apply; `null` for always.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub effective_from: Option<Instant>,
}

/// A page of the model calls of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunCalls {
    /// The calls, in order of time.
    pub data: Vec<RunCall>,
    /// Give it as `cursor` to go on; `null` on the last page.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
    /// How many the run has.
    pub count: u64,
}

/// An event of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunEvent {
    /// Identity.
    pub event_id: String,
    /// Name.
    pub name: String,
    /// Its own time.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Instant,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Instant,
    /// As it was reported.
    #[schema(value_type = serde_json::Value)]
    pub payload: Box<RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_are_written_to_the_millisecond() {
        for (ms, text) in [
            (0, "0.0"),
            (1, "0.001"),
            (1234, "1.234"),
            (-5, "-0.005"),
            (86_400_123, "86400.123"),
        ] {
            assert_eq!(serde_json::to_string(&Seconds(ms)).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn seconds_read_back_exactly(ms in -10_000_000_000_000i64..10_000_000_000_000) {
            let read: f64 = serde_json::from_str(&serde_json::to_string(&Seconds(ms)).unwrap()).unwrap();
            prop_assert_eq!((read * 1000.0).round() as i64, ms);
        }
    }
}
