//! The state of a run, from which its row is made.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::call_details::DetailRegisters;
use super::calls::{Call, Calls};
use super::marks::{LatestFeedback, Marks};
use super::stored::{self, boxed_marks, preview_stamp, stored_fields, value};
use super::{First, Last, RunStatus, Stamp, answer_preview, cut_at, preview};
use crate::event::{ErrorInfo, Event, text_of};
use crate::ids::EventId;
use crate::limits;
use crate::timestamp::UnixMs;

/// Distinct tags in a run's row: the first in alphabetical order, so that the bound too is independent of the order of
/// events.
const RUN_TAGS: usize = 128;
/// Metadata keys in a run's row, first in alphabetical order. The view of one run shows all of them.
const RUN_METADATA_KEYS: usize = 64;
/// Bytes of a metadata value in a run's row. The view of one run shows all of it.
const METADATA_VALUE_BYTES: usize = 512;
/// Bytes of an error's message in a run's row. The view of one run shows all of it.
const ERROR_MESSAGE_BYTES: usize = 2048;

/// The fold of the events of one run; see [`crate::fold`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunState {
    first_event_ms: Option<UnixMs>,
    last_event_ms: Option<UnixMs>,
    opened_ms: Option<UnixMs>,
    closed_ms: Option<UnixMs>,
    failed: bool,
    pub(super) kind: First<Box<str>>,
    name: First<Box<str>>,
    parent: First<Box<str>>,
    input: First<Box<str>>,
    output: Last<Box<str>>,
    error: Last<ErrorSummary>,
    pub(super) model: Last<Box<str>>,
    pub(super) prompt_tokens: Last<u64>,
    pub(super) completion_tokens: Last<u64>,
    pub(super) total_tokens: Last<u64>,
    pub(super) cached_tokens: Last<u64>,
    pub(super) reasoning_tokens: Last<u64>,
    pub(super) cost: Last<ExactDecimal>,
    agent: Last<Box<str>>,
    user_email: Last<Box<str>>,
    thread_id: Last<Box<str>>,
    tags: BTreeSet<Box<str>>,
    metadata: BTreeMap<Box<str>, Last<Box<str>>>,
    /// Few runs have any, so they are separate, in memory and in the bytes.
    marks: Option<Box<Marks>>,
    /// The model calls, where they are not just the one that the registers above make: see `own_calls.rs`.
    pub(super) calls: Option<Box<Calls>>,
    /// The identifier that the model's provider gave to the response.
    response_id: Last<Box<str>>,
    /// What few model calls report beside their tokens.
    pub(super) call_details: Option<Box<DetailRegisters>>,
}

// Numbers and types of stored fields never change; new fields are added at the end, each of a type whose default means
// absent. Types inside a field, such as `Marks`, keep their shape.
stored_fields!(RunState {
    0: first_event_ms = value,
    1: last_event_ms = value,
    2: opened_ms = value,
    3: closed_ms = value,
    4: failed = value,
    5: kind = value,
    6: name = value,
    7: parent = value,
    8: input = preview_stamp,
    9: output = preview_stamp,
    10: error = value,
    11: model = value,
    12: prompt_tokens = value,
    13: completion_tokens = value,
    14: total_tokens = value,
    15: cached_tokens = value,
    16: reasoning_tokens = value,
    17: cost = value,
    18: agent = value,
    19: user_email = value,
    20: thread_id = value,
    21: tags = value,
    22: metadata = value,
    23: marks = boxed_marks,
    24: calls = value,
    25: response_id = value,
    26: call_details = value,
});

/// An error for lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The type of the error, cut to a bound; may be empty.
    pub name: Box<str>,
    /// Cut to a bound.
    pub message: Box<str>,
}

impl ErrorSummary {
    fn of(error: &ErrorInfo<'_>) -> Self {
        Self {
            name: cut_at(
                error.name.as_deref().unwrap_or_default(),
                limits::NAME_BYTES,
            )
            .into(),
            message: cut_at(&error.message, ERROR_MESSAGE_BYTES).into(),
        }
    }
}

/// A decimal as its 16 bytes: the state must not depend on how a decimal is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExactDecimal(pub(super) Decimal);

impl Serialize for ExactDecimal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExactDecimal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[u8; 16]>::deserialize(deserializer).map(|bytes| Self(Decimal::deserialize(bytes)))
    }
}

/// Bytes that are not the state of a run.
#[derive(Debug, thiserror::Error)]
pub enum StateFault {
    /// Written by a newer version, or not by Spindle.
    #[error(
        "run state format must be between 1 and {newest}, got {format}: a newer version wrote it"
    )]
    UnknownFormat {
        format: u8,
        /// The newest format that this version reads.
        newest: u8,
    },
    /// Cut off or damaged.
    #[error("run state is damaged: {0}")]
    Damaged(#[from] postcard::Error),
    #[error("run state is empty")]
    Empty,
}

fn least<T: Ord + Copy>(kept: &mut Option<T>, offered: Option<T>) {
    *kept = match (*kept, offered) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    };
}

fn greatest<T: Ord + Copy>(kept: &mut Option<T>, offered: Option<T>) {
    *kept = (*kept).max(offered);
}

impl RunState {
    /// Folds one event in. `id` is the event's identity. Custom events that mark a run set their mark; other custom
    /// events change nothing.
    pub fn apply(&mut self, event: &Event<'_>, id: EventId) {
        let stamp = Stamp::new(event.timestamp_ms, id);
        if let Some(custom) = event.custom {
            if super::is_mark(custom) {
                self.marks
                    .get_or_insert_default()
                    .apply(custom, event, stamp);
            }
            return;
        }
        let calls = self.take_calls();
        least(&mut self.first_event_ms, Some(event.timestamp_ms));
        greatest(&mut self.last_event_ms, Some(event.timestamp_ms));
        least(&mut self.opened_ms, event.effect.opened_at_ms);
        greatest(&mut self.closed_ms, event.effect.closed_at_ms);
        self.failed |= event.effect.failed;
        self.kind
            .offer_some(stamp, event.kind.as_deref(), Into::into);
        self.name
            .offer_some(stamp, event.run_name.as_deref(), Into::into);
        self.parent
            .offer_some(stamp, event.parent_run_id.as_deref(), Into::into);
        self.input.offer_some(stamp, event.input, preview);
        self.output.offer_some(stamp, event.output, answer_preview);
        self.error
            .offer_some(stamp, event.error.as_ref(), ErrorSummary::of);
        self.model
            .offer_some(stamp, event.model.as_deref(), Into::into);
        self.prompt_tokens
            .offer_some(stamp, event.tokens.prompt, |count| count);
        self.completion_tokens
            .offer_some(stamp, event.tokens.completion, |count| count);
        self.total_tokens
            .offer_some(stamp, event.tokens.total, |count| count);
        self.cached_tokens
            .offer_some(stamp, event.tokens.cached, |count| count);
        self.reasoning_tokens
            .offer_some(stamp, event.tokens.reasoning, |count| count);
        self.cost.offer_some(stamp, event.cost, ExactDecimal);
        if let Some(details) = &event.call_details {
            let registers = self.call_details.get_or_insert_default();
            registers.apply(details, stamp);
        }
        if let Some(fingerprint) = event.call_fingerprint {
            let registers = self.call_details.get_or_insert_default();
            registers.apply_fingerprint(fingerprint, stamp);
        }
        self.response_id
            .offer_some(stamp, event.response_id.as_deref(), Into::into);
        self.agent
            .offer_some(stamp, event.agent.as_deref(), Into::into);
        self.user_email
            .offer_some(stamp, event.user_email.as_deref(), Into::into);
        self.thread_id
            .offer_some(stamp, event.thread_id.as_deref(), Into::into);
        for tag in &event.tags {
            if !self.tags.contains(tag.as_ref()) {
                self.tags.insert(tag.as_ref().into());
            }
        }
        for (key, value) in &event.metadata {
            let make = || {
                let text = text_of(value);
                cut_at(text.as_deref().unwrap_or(value.get()), METADATA_VALUE_BYTES).into()
            };
            match self.metadata.get_mut(key.as_ref()) {
                Some(register) => register.offer(stamp, make),
                None => self
                    .metadata
                    .entry(key.as_ref().into())
                    .or_default()
                    .offer(stamp, make),
            }
        }
        let call = Call::of(event).map(|call| (stamp, call));
        self.put_calls(calls.and(call));
        self.bound();
    }

    /// Joins both states: the fold of both sets of events.
    pub fn join(&mut self, mut other: Self) {
        let calls = self.take_calls();
        let others = other.take_calls();
        least(&mut self.first_event_ms, other.first_event_ms);
        greatest(&mut self.last_event_ms, other.last_event_ms);
        least(&mut self.opened_ms, other.opened_ms);
        greatest(&mut self.closed_ms, other.closed_ms);
        self.failed |= other.failed;
        self.kind.join(other.kind);
        self.name.join(other.name);
        self.parent.join(other.parent);
        self.input.join(other.input);
        self.output.join(other.output);
        self.error.join(other.error);
        self.model.join(other.model);
        self.prompt_tokens.join(other.prompt_tokens);
        self.completion_tokens.join(other.completion_tokens);
        self.total_tokens.join(other.total_tokens);
        self.cached_tokens.join(other.cached_tokens);
        self.reasoning_tokens.join(other.reasoning_tokens);
        self.cost.join(other.cost);
        self.response_id.join(other.response_id);
        if let Some(details) = other.call_details {
            self.call_details.get_or_insert_default().join(*details);
        }
        self.agent.join(other.agent);
        self.user_email.join(other.user_email);
        self.thread_id.join(other.thread_id);
        self.tags.extend(other.tags);
        for (key, value) in other.metadata {
            self.metadata.entry(key).or_default().join(value);
        }
        if let Some(marks) = other.marks {
            self.marks.get_or_insert_default().join(*marks);
        }
        self.put_calls(calls.join(others));
        self.bound();
    }

    /// Keeping the alphabetically first is itself a join: what is cut here would be cut in any order.
    fn bound(&mut self) {
        while self.tags.len() > RUN_TAGS {
            self.tags.pop_last();
        }
        while self.metadata.len() > RUN_METADATA_KEYS {
            self.metadata.pop_last();
        }
    }

    /// Whether no event of the run itself was folded in: it may have marks, but it was never seen.
    pub fn is_unseen(&self) -> bool {
        self.first_event_ms.is_none()
    }

    /// Whether any mark on the run was folded in.
    pub fn has_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// The earliest opening event, else the earliest event; for a run that was never seen, the earliest mark.
    pub fn started_at_ms(&self) -> UnixMs {
        self.opened_ms
            .or(self.first_event_ms)
            .or(self.marks.as_ref().and_then(|marks| marks.first_ms()))
            .unwrap_or_default()
    }

    pub fn is_saved(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.is_saved())
    }

    pub fn latest_feedback(&self) -> Option<LatestFeedback<'_>> {
        self.marks
            .as_ref()
            .and_then(|marks| marks.latest_feedback())
    }

    /// The latest closing event.
    pub fn ended_at_ms(&self) -> Option<UnixMs> {
        self.closed_ms
    }

    /// Never below zero, whatever the clocks say. `None` while unfinished.
    pub fn latency_ms(&self) -> Option<i64> {
        self.closed_ms
            .map(|closed| closed.saturating_sub(self.started_at_ms()).max(0))
    }

    /// Timestamps of the first and last event: where to look for its events.
    pub fn event_span_ms(&self) -> (UnixMs, UnixMs) {
        (
            self.first_event_ms.unwrap_or_default(),
            self.last_event_ms.unwrap_or_default(),
        )
    }

    pub fn status(&self) -> RunStatus {
        match (self.failed, self.closed_ms) {
            (true, _) => RunStatus::Error,
            (false, Some(_)) => RunStatus::Success,
            (false, None) => RunStatus::Started,
        }
    }

    /// Milliseconds from the request to the first token, of the latest call that reports them.
    pub fn ttft_ms(&self) -> Option<u64> {
        self.details().ttft_ms
    }

    pub fn error(&self) -> Option<&ErrorSummary> {
        self.error.get()
    }

    /// In alphabetical order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(AsRef::as_ref)
    }

    /// By key: text without quotes, other values as JSON, cut to a bound.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata
            .iter()
            .filter_map(|(key, value)| Some((key.as_ref(), value.get()?.as_ref())))
    }

    /// The bytes for the `runs` table: everything but the previews, which have separate columns.
    pub fn encode(&self) -> Result<Vec<u8>, StateFault> {
        stored::encode(self)
    }

    /// Decodes bytes of this or an earlier version, with the previews.
    pub fn decode(bytes: &[u8], previews: Previews<'_>) -> Result<Self, StateFault> {
        let mut state: Self = stored::decode(bytes)?;
        let calls = state.take_calls();
        state.put_calls(calls);
        state.input = First::from_parts(state.input.stamp(), previews.input.into());
        state.output = Last::from_parts(state.output.stamp(), previews.output.into());
        Ok(state)
    }

    /// The previews that [`RunState::decode`] needs besides the bytes.
    pub fn previews(&self) -> Previews<'_> {
        Previews {
            input: self.input_preview(),
            output: self.output_preview(),
        }
    }
}

/// The beginnings of a run's input and output; may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Previews<'a> {
    pub input: &'a str,
    pub output: &'a str,
}

macro_rules! text_getters {
    ($($(#[$doc:meta])* $getter:ident = $field:ident),+ $(,)?) => {
        impl RunState {
            $($(#[$doc])*
            pub fn $getter(&self) -> &str {
                self.$field.get().map(AsRef::as_ref).unwrap_or_default()
            })+
        }
    };
}

text_getters! {
    /// May be empty.
    kind = kind,
    /// May be empty.
    name = name,
    /// May be empty.
    parent_run_id = parent,
    input_preview = input,
    output_preview = output,
    /// May be empty.
    model = model,
    /// The agent in the run's own events; may be empty. Ancestors' agents do not count here.
    own_agent = agent,
    /// The user in the run's own events; may be empty.
    own_user_email = user_email,
    /// The thread in the run's own events; may be empty. Ancestors' threads do not count here.
    thread_id = thread_id,
    /// The identifier that the model's provider gave to the response; may be empty.
    response_id = response_id,
}
