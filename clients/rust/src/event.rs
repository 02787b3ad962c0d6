//! One event, in the format of `/api/report`.
//!
//! Absent fields are omitted. Input and output of a step are arbitrary JSON, kept as text: serialized once, when the
//! event is made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::identity::event_id;

/// Upper bound on an event's name, in bytes.
const NAME_BYTES: usize = 512;

/// An event. Construct one with [`Event::new`] and fill in the known fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// `<name of the run>_start`, `_end` or `_error` (see [`event_name`]), `chat`, `feedback`, `saved` or `unsaved`. At
    /// most 512 bytes.
    pub name: String,
    /// The identity: an event that arrives twice is stored once. Without it, the content is the identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Defaults to the metadata's `app_id`, else to the app of the key's project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// The run, or for `chat` the message. At most 256 bytes.
    pub run_id: String,
    /// The run's parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    pub timestamp: Timestamp,
    /// What kind of step the run is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Further attributes of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, serde_json::Value>,
    /// Any JSON; see [`json`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// Any JSON; see [`json`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// The model of a model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of a model call, and requests billed beside them.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// The tier of a model call: `batch`, `flex`, `priority` and others; the standard tier needs no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// What the provider charged for a model call, USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What a model call costs by a price list of the program, USD; counts only where the server has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<f64>,
    /// Milliseconds from the start of a model call until its first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// The identifier that the provider gave to the response: runs of one response are counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The user on whose behalf the run works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_email: Option<String>,
    /// The acting agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The author of a `chat` message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Text of a `chat` message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Rating of a `feedback` event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<Rating>,
    /// Comment of a `feedback` event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Event {
    /// An event with the current time and a new identity.
    pub fn new(name: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self {
            event_id: Some(event_id()),
            ..Self::at(name, run_id, Timestamp::now())
        }
    }

    /// An event with the given time and no identity.
    pub fn at(name: impl Into<String>, run_id: impl Into<String>, timestamp: Timestamp) -> Self {
        Self {
            name: name.into(),
            event_id: None,
            app_id: None,
            run_id: run_id.into(),
            parent_run_id: None,
            timestamp,
            kind: None,
            metadata: BTreeMap::new(),
            input: None,
            output: None,
            model: None,
            tokens: Tokens::default(),
            service_tier: None,
            cost: None,
            estimated_cost: None,
            ttft_ms: None,
            response_id: None,
            error: None,
            tags: Vec::new(),
            user_email: None,
            agent: None,
            thread_id: None,
            role: None,
            content: None,
            rating: None,
            comment: None,
        }
    }

    pub fn to_json(&self) -> String {
        // Every key is text and every value is JSON already: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A time in microseconds since 1970. Serialized as ISO 8601 UTC with milliseconds, or with microseconds if it is more
/// precise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// How far timestamps may run ahead of a clock that was set back, microseconds.
const AHEAD_US: i64 = 1_000_000;

impl Timestamp {
    /// The current time, but later than every earlier result in this process: Spindle orders events of one millisecond
    /// by their microseconds. A clock before 1970 counts as 1970.
    pub fn now() -> Self {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let clock_us = since.map_or(0, |since| {
            i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
        });
        let step = |last| Some(after(last, clock_us));
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        Self(after(last.unwrap_or_default(), clock_us))
    }

    /// From milliseconds since 1970.
    pub fn from_ms(unix_ms: i64) -> Self {
        Self(unix_ms.saturating_mul(1000))
    }

    /// In milliseconds since 1970.
    pub fn as_ms(self) -> i64 {
        self.0.div_euclid(1000)
    }

    fn is_fine(self) -> bool {
        self.0.rem_euclid(1000) != 0
    }
}

/// The timestamp after `last` at a clock time: never one of whole milliseconds, which would be serialized without
/// microseconds and lose its order.
fn after(last: i64, clock_us: i64) -> i64 {
    let next = match last.saturating_sub(clock_us) {
        ..AHEAD_US => clock_us.max(last.saturating_add(1)),
        _ => clock_us,
    };
    next + i64::from(next.rem_euclid(1000) == 0)
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = DateTime::<Utc>::from_timestamp_micros(self.0).unwrap_or_default();
        let digits = match self.is_fine() {
            true => SecondsFormat::Micros,
            false => SecondsFormat::Millis,
        };
        f.write_str(&time.to_rfc3339_opts(digits, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DateTime::<Utc>::deserialize(deserializer).map(|time| Self(time.timestamp_micros()))
    }
}

/// The kind of step that a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Decides what to do.
    Agent,
    /// Several steps in order.
    Chain,
    /// Executes a tool.
    Tool,
    /// A call of a model.
    Llm,
    /// A process that the platform starts.
    Process,
}

impl Kind {
    /// The serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Agent => "agent",
            Kind::Chain => "chain",
            Kind::Tool => "tool",
            Kind::Llm => "llm",
            Kind::Process => "process",
        }
    }
}

/// The effect of an event on its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Opens it.
    Start,
    /// Closes it.
    End,
    /// Closes it as failed.
    Error,
}

/// The name of an event of a run: the run's name and the phase, cut to the length of a name.
pub fn event_name(run: &str, phase: Phase) -> String {
    let phase = match phase {
        Phase::Start => "_start",
        Phase::End => "_end",
        Phase::Error => "_error",
    };
    // The same length for every phase, so that the run keeps one name.
    let mut end = run.len().min(NAME_BYTES - "_start".len());
    while !run.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{phase}", &run[..end])
}

/// Tokens of a model call, as far as they are known.
///
/// `prompt` and `completion` include everything; the other tokens are parts of them, and no token is in two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    #[serde(rename = "prompt_tokens", skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Tokens of the completion, reasoning included.
    #[serde(rename = "completion_tokens", skip_serializing_if = "Option::is_none")]
    pub completion: Option<u64>,
    /// The sum, if only that is known.
    #[serde(rename = "total_tokens", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Prompt tokens read from a cache.
    #[serde(rename = "cached_tokens", skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Prompt tokens written to a cache of the default lifetime.
    #[serde(rename = "cache_write_tokens", skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Prompt tokens written to a cache of one hour.
    #[serde(
        rename = "cache_write_1h_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub cache_write_1h: Option<u64>,
    /// Prompt tokens of audio.
    #[serde(rename = "input_audio_tokens", skip_serializing_if = "Option::is_none")]
    pub input_audio: Option<u64>,
    /// Prompt tokens of images.
    #[serde(rename = "input_image_tokens", skip_serializing_if = "Option::is_none")]
    pub input_image: Option<u64>,
    /// Completion tokens used for reasoning.
    #[serde(rename = "reasoning_tokens", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Completion tokens of audio.
    #[serde(
        rename = "output_audio_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_audio: Option<u64>,
    /// Requests billed beside tokens, such as searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

impl Tokens {
    pub fn new(prompt: u64, completion: u64) -> Self {
        Self {
            prompt: Some(prompt),
            completion: Some(completion),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The type of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub message: String,
    /// The stack trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    /// The agent.
    Assistant,
}

/// A user's rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    Positive,
    Negative,
}

/// Serializes an input or output. A value that cannot be serialized (its keys are no strings, or its own code fails)
/// becomes a text that says so.
pub fn json(value: impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(&value)
        .or_else(|error| to_raw_value(&format!("(this value is no JSON: {error})")))
        .ok()
}

#[cfg(test)]
mod tests;
