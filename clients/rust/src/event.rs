//! One event, in the shape in which `/api/report` takes it.
//!
//! Fields that are not given are not written. What goes in and comes out of a step is any JSON, kept as text: it is
//! written once, where the event is made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::identity::event_id;

/// Bytes of an event's name that the server takes at most.
const NAME_BYTES: usize = 512;

/// An event. Make one with [`Event::new`] and fill in what is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// What happened: `<name of the run>_start`, `_end` or `_error` (see [`event_name`]), `chat`, `feedback`, `saved`
    /// or `unsaved`. At most 512 bytes.
    pub name: String,
    /// Its identity: an event that arrives twice is kept once. Without it, its content is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The app; without it the metadata's `app_id`, or the app of the key's project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// The run, or for `chat` the message. At most 256 bytes.
    pub run_id: String,
    /// The run it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// What kind of step the run is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Anything else about the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, serde_json::Value>,
    /// What went in: any JSON. See [`json`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// What came out: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// The model of a model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of a model call.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The user it is done for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_email: Option<String>,
    /// The agent that acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Who says it, in a `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What is said, in a `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The judgement, in a `feedback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<Rating>,
    /// The judgement in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Event {
    /// An event of now, with an identity of its own and nothing else in it.
    pub fn new(name: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self {
            event_id: Some(event_id()),
            ..Self::at(name, run_id, Timestamp::now())
        }
    }

    /// An event of a moment, without an identity.
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

    /// The event as JSON.
    pub fn to_json(&self) -> String {
        // Every key is text and every value was JSON before: there is nothing that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A moment, in microseconds since 1970. Written as ISO 8601 UTC, with milliseconds, or with microseconds where it is
/// finer than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// How far moments may run ahead of a clock that was set back, microseconds.
const AHEAD_US: i64 = 1_000_000;

impl Timestamp {
    /// Now, but later than every moment that this process was given before: Spindle orders events of one millisecond by
    /// their microseconds. A clock before 1970 says 1970.
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

    /// A moment in milliseconds since 1970.
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

/// The moment after `last` at a time of the clock: never one of whole milliseconds, which would be written without its
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

/// What kind of step a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Decides what to do.
    Agent,
    /// Several steps in order.
    Chain,
    /// Does something.
    Tool,
    /// A call of a model.
    Llm,
    /// A process that the platform starts.
    Process,
}

impl Kind {
    /// As it is written.
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

/// What an event does to its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Opens it.
    Start,
    /// Closes it.
    End,
    /// Closes it as failed.
    Error,
}

/// The name of an event of a run: the run's own, then the phase. It is cut where it is longer than a name may be.
pub fn event_name(run: &str, phase: Phase) -> String {
    let phase = match phase {
        Phase::Start => "_start",
        Phase::End => "_end",
        Phase::Error => "_error",
    };
    // The same cut for every phase, so that the run keeps one name.
    let mut end = run.len().min(NAME_BYTES - "_start".len());
    while !run.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{phase}", &run[..end])
}

/// Tokens of a model call, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Of the prompt, cached ones included.
    #[serde(rename = "prompt_tokens", skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Of the answer, reasoning included.
    #[serde(rename = "completion_tokens", skip_serializing_if = "Option::is_none")]
    pub completion: Option<u64>,
    /// Both together, where that is all there is.
    #[serde(rename = "total_tokens", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The part of the prompt that came from a cache.
    #[serde(rename = "cached_tokens", skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// The part of the answer that was reasoning.
    #[serde(rename = "reasoning_tokens", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Tokens {
    /// Of a prompt and of its answer.
    pub fn new(prompt: u64, completion: u64) -> Self {
        Self {
            prompt: Some(prompt),
            completion: Some(completion),
            ..Self::default()
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it says.
    pub message: String,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// The agent.
    Assistant,
}

/// How a person found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// Good.
    Positive,
    /// Bad.
    Negative,
}

/// A value as the JSON of an input or output. What cannot be written as JSON becomes the text that says so: a value
/// with keys that are no text, or one whose own code fails.
pub fn json(value: impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(&value)
        .or_else(|error| to_raw_value(&format!("(this value is no JSON: {error})")))
        .ok()
}

#[cfg(test)]
mod tests;
