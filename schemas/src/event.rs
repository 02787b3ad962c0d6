//! One reported event, parsed from its own bytes without copying them.
//!
//! Two dialects arrive on the same path and mean the same: Spindle's own (`run_id`, `name: "agent_start"`), and the
//! dialect of the llmonitor and lunary clients (`runId`, `type: "agent"` with `event: "start"`). The field names show
//! which one it is; both become an [`Event`].
//!
//! `null` means "absent" in every field. Unknown fields are kept in [`Event::others`].

mod call_details;
mod dialect;
mod feedback;
mod fields;
mod message;
pub mod response_id;
mod values;

use std::borrow::Cow;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use call_details::{CallDetails, CallFingerprint, UsageParts};
pub use feedback::thumb_of_score;
pub use fields::Fields;
pub use values::as_text as text_of;

use crate::api_error::EventCode;
use crate::limits;
use crate::timestamp::UnixMs;

/// Whose shape an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The interface's own.
    Documented,
    /// That of the llmonitor and lunary clients.
    Llmonitor,
}

/// A valid event that borrows from the request body or the log record.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub dialect: Dialect,
    /// For example `agent_start`; for the old clients `type` and `event` joined by `_`.
    pub name: Cow<'a, str>,
    /// Set for custom events, which carry no state of a run.
    pub custom: Option<Custom>,
    /// The app in the event, at top level or in its metadata.
    pub app: Option<Cow<'a, str>>,
    /// Empty only for a message that is its own: a chat event of Spindle's own dialect without a `run_id`.
    pub run_id: Cow<'a, str>,
    pub parent_run_id: Option<Cow<'a, str>>,
    pub timestamp_ms: UnixMs,
    /// The microsecond within the millisecond, 0 to 999, if the client sends it.
    pub microsecond: Option<u16>,
    /// The identity from the client.
    pub event_id: Option<Cow<'a, str>>,
    /// The effect on the run's state.
    pub effect: Effect,
    pub run_name: Option<Cow<'a, str>>,
    /// The run's type: `agent`, `llm`, `tool`, ...
    pub kind: Option<Cow<'a, str>>,
    /// Any JSON value.
    pub input: Option<&'a RawValue>,
    /// Any JSON value.
    pub output: Option<&'a RawValue>,
    pub error: Option<ErrorInfo<'a>>,
    pub model: Option<Cow<'a, str>>,
    pub tokens: Tokens,
    /// Cost in USD as the client computed it: authoritative.
    pub cost: Option<Decimal>,
    /// What else it says of the model call.
    pub call_details: Option<Box<CallDetails<'a>>>,
    /// The identifier that the model's provider gave to the response.
    pub response_id: Option<Cow<'a, str>>,
    /// What the reports of one model call in two traces have in common.
    pub call_fingerprint: Option<CallFingerprint>,
    /// The acting agent.
    pub agent: Option<Cow<'a, str>>,
    /// The user on whose behalf the run works.
    pub user_email: Option<Cow<'a, str>>,
    /// The conversation; old clients send it as the parent of a chat message.
    pub thread_id: Option<Cow<'a, str>>,
    /// The message of a chat event, which may be absent from old clients.
    pub message: Option<Message<'a>>,
    /// The feedback of a feedback event; an old client's chat event may contain feedback on its own message.
    pub feedback: Option<EventFeedback<'a>>,
    pub tags: Vec<Cow<'a, str>>,
    /// Without `null` values.
    pub metadata: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Unknown fields, without `null` values.
    pub others: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Values that are stored as they are but have no effect.
    pub warnings: Vec<FieldWarning>,
}

/// Events that act on runs and threads without being part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custom {
    /// Exempts the run from retention.
    Saved,
    /// Undoes `Saved`.
    Unsaved,
    Chat,
    Feedback,
    /// A conversation that an old client announces.
    Thread,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `user` or `assistant`; old clients also send `system` and `tool`.
    pub role: Cow<'a, str>,
    pub content: Cow<'a, str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFeedback<'a> {
    /// `None` only from old clients, which may send a comment alone.
    pub rating: Option<Rating>,
    pub comment: Option<Cow<'a, str>>,
}

/// A user's rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    Positive,
    Negative,
}

impl Rating {
    /// The name on the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Rating::Positive => "positive",
            Rating::Negative => "negative",
        }
    }
}

/// The effect of an event on the state of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The run began at this time.
    pub opened_at_ms: Option<UnixMs>,
    /// The run ended at this time.
    pub closed_at_ms: Option<UnixMs>,
    pub failed: bool,
}

/// Token counts of a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokens {
    /// Tokens of the prompt, cached ones included.
    pub prompt: Option<u64>,
    /// Tokens of the completion, reasoning included.
    pub completion: Option<u64>,
    /// The sum, if the client sends it.
    pub total: Option<u64>,
    /// Prompt tokens that came from a cache.
    pub cached: Option<u64>,
    /// Completion tokens used for reasoning.
    pub reasoning: Option<u64>,
}

/// An error as it was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorInfo<'a> {
    /// The type of the error.
    pub name: Option<Cow<'a, str>>,
    /// For an error of unknown shape, its JSON text.
    pub message: Cow<'a, str>,
    /// The stack trace.
    pub stack: Option<Cow<'a, str>>,
}

/// A value of an accepted event that is stored but ignored otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWarning {
    /// `tags`, `metadata.agent`, ...
    pub field: &'static str,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFault {
    pub code: EventCode,
    /// Names the event and the field.
    pub message: String,
}

/// The fault of one field; becomes an [`EventFault`] once the event's index is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldFault {
    pub(crate) code: EventCode,
    /// Continues a sentence that begins with `events[3].`.
    pub(crate) rest: String,
}

impl FieldFault {
    pub(crate) fn new(code: EventCode, rest: impl Into<String>) -> Self {
        Self {
            code,
            rest: rest.into(),
        }
    }
}

impl<'a> Event<'a> {
    /// `index` is the event's index in the batch.
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

/// The beginning and end of a run, by the name and the fields of an event: the table of `docs/guide/sending-events.md`.
///
/// A one-shot event opens at its time and closes `duration_ms` later. Custom events have an effect too, but are never
/// folded into the run.
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

/// The fields besides the name that [`effect`] depends on.
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

/// The run's name in an event of Spindle's own dialect, which only names the event: without the phase.
pub(crate) fn run_name_of(name: &str) -> &str {
    ["_start", "_end", "_error"]
        .into_iter()
        .find_map(|phase| name.strip_suffix(phase))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

/// Whether a JSON text exceeds the depth of an event. Counts brackets first, which is nearly always enough.
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
