//! One reported event, read from its own bytes without copying them.
//!
//! Two dialects come in on the same path and mean the same: the interface's own (`run_id`, `name: "agent_start"`),
//! and that of the llmonitor and lunary clients (`runId`, `type: "agent"` with `event: "start"`). Which one it is
//! shows in the field names; [`Event`] is what both become.
//!
//! `null` means "not given" everywhere. Fields of no known meaning are kept in [`Event::others`].

mod dialect;
mod fields;
mod judgement;
mod message;
mod values;

use std::borrow::Cow;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use fields::Fields;
pub use values::as_text as text_of;

use crate::limits;
use crate::timestamp::UnixMs;

/// A valid event, borrowing from the request body or the log record.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The event's name, `agent_start` for example; for the old clients `type` and `event` joined by `_`.
    pub name: Cow<'a, str>,
    /// What the name makes it, if it is one of the custom events: those carry no state of a run.
    pub custom: Option<Custom>,
    /// The app it names itself, at top level or in its metadata.
    pub app: Option<Cow<'a, str>>,
    /// The run it belongs to.
    pub run_id: Cow<'a, str>,
    /// The run's parent.
    pub parent_run_id: Option<Cow<'a, str>>,
    /// When it happened.
    pub timestamp_ms: UnixMs,
    /// Which microsecond of that millisecond, where the client says so: 0 to 999.
    pub microsecond: Option<u16>,
    /// The identity the client gave it, if it did.
    pub event_id: Option<Cow<'a, str>>,
    /// What it does to the run's state.
    pub effect: Effect,
    /// The run's name.
    pub run_name: Option<Cow<'a, str>>,
    /// The run's type: `agent`, `llm`, `tool`, ...
    pub kind: Option<Cow<'a, str>>,
    /// Input of the step: any JSON value.
    pub input: Option<&'a RawValue>,
    /// Output of the step: any JSON value.
    pub output: Option<&'a RawValue>,
    /// What went wrong.
    pub error: Option<ErrorInfo<'a>>,
    /// The model of a model call.
    pub model: Option<Cow<'a, str>>,
    /// Token counts, as far as they are given.
    pub tokens: Tokens,
    /// Cost in USD as the client computed it: authoritative.
    pub cost: Option<Decimal>,
    /// The agent that acts.
    pub agent: Option<Cow<'a, str>>,
    /// The user it acts for.
    pub user_email: Option<Cow<'a, str>>,
    /// The conversation it belongs to; what an old client's chat message names as its parent.
    pub thread_id: Option<Cow<'a, str>>,
    /// What a chat event says. An old client's chat event may say nothing.
    pub message: Option<Message<'a>>,
    /// What a feedback event says; an old client's chat event may carry one on its own message.
    pub judgement: Option<Judgement<'a>>,
    /// Labels.
    pub tags: Vec<Cow<'a, str>>,
    /// Free-form metadata: key and value, `null` values left out.
    pub metadata: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Fields of no known meaning: key and value, `null` values left out.
    pub others: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// The custom events, which act on runs and threads without being part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custom {
    /// The run outlives retention.
    Saved,
    /// Takes `saved` back.
    Unsaved,
    /// One message of a conversation.
    Chat,
    /// A judgement on a run or a message.
    Feedback,
    /// A conversation announced by an old client.
    Thread,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `user` or `assistant`; old clients also send `system` and `tool`.
    pub role: Cow<'a, str>,
    /// What was said.
    pub content: Cow<'a, str>,
}

/// A judgement on a run or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement<'a> {
    /// `None` only from old clients, which may send a comment alone.
    pub rating: Option<Rating>,
    /// In words.
    pub comment: Option<Cow<'a, str>>,
}

/// How a person found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// Good.
    Positive,
    /// Bad.
    Negative,
}

impl Rating {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Rating::Positive => "positive",
            Rating::Negative => "negative",
        }
    }
}

/// What an event does to the state of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The run began at this moment.
    pub opened_at_ms: Option<UnixMs>,
    /// The run was over at this moment.
    pub closed_at_ms: Option<UnixMs>,
    /// The run failed.
    pub failed: bool,
}

/// Token counts of a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    pub prompt: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub completion: Option<u64>,
    /// Both together, if the client says so itself.
    pub total: Option<u64>,
    /// The part of the prompt that came from a cache.
    pub cached: Option<u64>,
    /// The part of the answer that was reasoning.
    pub reasoning: Option<u64>,
}

/// An error as it was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorInfo<'a> {
    /// Its kind, if one was given.
    pub name: Option<Cow<'a, str>>,
    /// What it says. For an error of unknown shape its JSON text.
    pub message: Cow<'a, str>,
    /// Where it came from.
    pub stack: Option<Cow<'a, str>>,
}

/// Why an event was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFault {
    /// One of [`EventFault::CODES`].
    pub code: &'static str,
    /// For a person; names the event and the field.
    pub message: String,
}

impl EventFault {
    /// Every code there is, so that metrics can have them as labels.
    pub const CODES: [&'static str; 11] = [
        "not_an_object",
        "missing_field",
        "wrong_type",
        "invalid_value",
        "too_long",
        "too_deep",
        "event_too_large",
        "timestamp_out_of_range",
        "timestamp_too_old",
        "too_many_days",
        "app_not_allowed",
    ];
}

/// What is wrong with one field; becomes an [`EventFault`] once the event's position is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldFault {
    pub(crate) code: &'static str,
    /// Continues a sentence that begins with `events[3].`.
    pub(crate) rest: String,
}

impl FieldFault {
    pub(crate) fn new(code: &'static str, rest: impl Into<String>) -> Self {
        Self {
            code,
            rest: rest.into(),
        }
    }
}

impl<'a> Event<'a> {
    /// Makes the event of its fields, or says what is wrong with it. `index` is the event's place in the batch.
    pub fn from_fields(
        fields: Fields<'a>,
        index: usize,
        now_ms: UnixMs,
    ) -> Result<Self, EventFault> {
        dialect::read(fields, now_ms).map_err(|fault| EventFault {
            code: fault.code,
            message: format!("events[{index}].{}", fault.rest),
        })
    }
}

/// What the name and the fields of an event say about its run's beginning and end.
///
/// A one-shot event opens and closes at once; its `duration_ms` is the run's length.
pub(crate) fn effect(name: &str, signs: Signs) -> Effect {
    let at = signs.timestamp_ms;
    let last_part = name.rsplit('_').next().unwrap_or(name);
    let failed = signs.failed || last_part == "error";
    let is_one_shot = name == "llm_call" || signs.has_output;
    let (opens, closes, length_ms) = match last_part {
        "start" => (true, signs.failed, 0),
        "end" | "error" => (false, true, 0),
        _ if is_one_shot => (true, true, signs.duration_ms.unwrap_or(0)),
        _ => (false, signs.failed || signs.succeeded, 0),
    };
    Effect {
        opened_at_ms: opens.then_some(at),
        closed_at_ms: closes.then_some(at.saturating_add(length_ms)),
        failed,
    }
}

/// What [`effect`] looks at beside the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    pub(crate) timestamp_ms: UnixMs,
    pub(crate) duration_ms: Option<i64>,
    /// `status: "error"` or an `error`.
    pub(crate) failed: bool,
    /// `status: "success"`.
    pub(crate) succeeded: bool,
    pub(crate) has_output: bool,
}

/// The run's name in an event of the interface's own shape, which names only the event: without the phase.
pub(crate) fn run_name_of(name: &str) -> &str {
    ["_start", "_end", "_error"]
        .into_iter()
        .find_map(|phase| name.strip_suffix(phase))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

/// Whether a JSON text nests deeper than an event may. Counts first: that is nearly always enough.
pub(crate) fn is_too_deep(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    if memchr::memchr2_iter(b'[', b'{', bytes)
        .take(limits::EVENT_VALUE_DEPTH + 1)
        .count()
        <= limits::EVENT_VALUE_DEPTH
    {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > limits::EVENT_VALUE_DEPTH {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests;
