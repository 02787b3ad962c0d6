//! The state of a run: everything its row is made of.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::marks::{Marks, Verdict};
use super::{Cost, First, Last, Stamp, Status, cut_at, preview};
use crate::event::{ErrorInfo, Event, text_of};
use crate::ids::EventId;
use crate::limits;
use crate::price::{PriceTable, Usage};
use crate::timestamp::UnixMs;

/// Distinct tags kept on a run: the first in alphabetical order, so that the bound too is independent of order.
const RUN_TAGS: usize = 128;
/// Metadata keys kept on a run's row, first in alphabetical order. The view of one run shows all of them.
const RUN_METADATA_KEYS: usize = 64;
/// Bytes of a metadata value on a run's row. The view of one run shows it whole.
const METADATA_VALUE_BYTES: usize = 512;
/// Bytes of an error's message on a run's row. The view of one run shows it whole.
const ERROR_MESSAGE_BYTES: usize = 2048;
/// First byte of an encoded state without marks.
const FORMAT: u8 = 1;
/// First byte of an encoded state that its marks follow.
const FORMAT_WITH_MARKS: u8 = 2;

/// The fold of the events of one run. See the module documentation of [`crate::fold`] for what it promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    first_event_ms: Option<UnixMs>,
    last_event_ms: Option<UnixMs>,
    opened_ms: Option<UnixMs>,
    closed_ms: Option<UnixMs>,
    failed: bool,
    kind: First<Box<str>>,
    name: First<Box<str>>,
    parent: First<Box<str>>,
    #[serde(with = "stamp_only")]
    input: First<Box<str>>,
    #[serde(with = "stamp_only")]
    output: Last<Box<str>>,
    error: Last<ErrorSummary>,
    model: Last<Box<str>>,
    prompt_tokens: Last<u64>,
    completion_tokens: Last<u64>,
    total_tokens: Last<u64>,
    cached_tokens: Last<u64>,
    reasoning_tokens: Last<u64>,
    cost: Last<ExactDecimal>,
    agent: Last<Box<str>>,
    user_email: Last<Box<str>>,
    thread_id: Last<Box<str>>,
    tags: BTreeSet<Box<str>>,
    metadata: BTreeMap<Box<str>, Last<Box<str>>>,
    /// Few runs have any, so they are apart, in memory and in the bytes.
    #[serde(skip)]
    marks: Option<Box<Marks>>,
}

/// An error as lists show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// Its kind, cut to a bound; empty when none was given.
    pub name: Box<str>,
    /// What it says, cut to a bound.
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

/// A decimal in the 16 bytes it is made of: the state must not depend on how a decimal is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ExactDecimal(Decimal);

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

/// Bytes that are no state of a run.
#[derive(Debug, thiserror::Error)]
pub enum StateFault {
    /// Written by a newer version, or not by Spindle.
    #[error("a run's state has the unknown format {0}")]
    UnknownFormat(u8),
    /// Cut off or damaged.
    #[error("a run's state is damaged: {0}")]
    Damaged(#[from] postcard::Error),
    /// Nothing at all.
    #[error("a run's state is empty")]
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
    /// Folds one event in. `id` is the event's identity. Of the custom events, those that mark a run leave their
    /// mark; the others change nothing.
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
        self.output.offer_some(stamp, event.output, preview);
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
        self.bound();
    }

    /// Takes over everything the other state knows: the fold of both sets of events.
    pub fn join(&mut self, other: Self) {
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
        self.bound();
    }

    /// Keeping the alphabetically first is a join of its own: what is cut here would be cut in any order.
    fn bound(&mut self) {
        while self.tags.len() > RUN_TAGS {
            self.tags.pop_last();
        }
        while self.metadata.len() > RUN_METADATA_KEYS {
            self.metadata.pop_last();
        }
    }

    /// Whether no event of the run itself has been folded in: there may be marks on it, but it was never seen.
    pub fn is_unseen(&self) -> bool {
        self.first_event_ms.is_none()
    }

    /// When the run began: its earliest opening event, else its earliest event. For a run that was never seen, its
    /// earliest mark.
    pub fn started_at_ms(&self) -> UnixMs {
        self.opened_ms
            .or(self.first_event_ms)
            .or(self.marks.as_ref().and_then(|marks| marks.first_ms()))
            .unwrap_or_default()
    }

    /// Whether it outlives retention.
    pub fn is_saved(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.is_saved())
    }

    /// The newest judgement on it.
    pub fn verdict(&self) -> Option<Verdict<'_>> {
        self.marks.as_ref().and_then(|marks| marks.verdict())
    }

    /// When it ended: its latest closing event.
    pub fn ended_at_ms(&self) -> Option<UnixMs> {
        self.closed_ms
    }

    /// How long it took, while clocks allow: never below zero. `None` while unfinished.
    pub fn latency_ms(&self) -> Option<i64> {
        self.closed_ms
            .map(|closed| closed.saturating_sub(self.started_at_ms()).max(0))
    }

    /// Timestamps of its first and last event: where to look for its events.
    pub fn event_span_ms(&self) -> (UnixMs, UnixMs) {
        (
            self.first_event_ms.unwrap_or_default(),
            self.last_event_ms.unwrap_or_default(),
        )
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        match (self.failed, self.closed_ms) {
            (true, _) => Status::Error,
            (false, Some(_)) => Status::Success,
            (false, None) => Status::Started,
        }
    }

    /// Its own cost: as the client gave it, else by the price table.
    pub fn cost(&self, prices: &PriceTable) -> Cost {
        if let Some(ExactDecimal(amount)) = self.cost.get() {
            return Cost::provided(*amount);
        }
        let usage = Usage {
            model: self.model(),
            prompt: self.prompt_tokens(),
            completion: self.completion_tokens(),
            total: self.total_tokens.get().copied(),
            cached: self.cached_tokens(),
            at_ms: self.started_at_ms(),
        };
        Cost::of(self.kind(), usage, prices)
    }

    /// Tokens of the prompt, cached ones included.
    pub fn prompt_tokens(&self) -> Option<u64> {
        self.prompt_tokens.get().copied()
    }

    /// Tokens of the answer, reasoning included.
    pub fn completion_tokens(&self) -> Option<u64> {
        self.completion_tokens.get().copied()
    }

    /// Tokens in all: as given, else what is known of prompt and answer.
    pub fn total_tokens(&self) -> Option<u64> {
        match (
            self.total_tokens.get(),
            self.prompt_tokens(),
            self.completion_tokens(),
        ) {
            (Some(total), _, _) => Some(*total),
            (None, None, None) => None,
            (None, prompt, completion) => {
                Some(prompt.unwrap_or(0).saturating_add(completion.unwrap_or(0)))
            }
        }
    }

    /// The cached part of the prompt.
    pub fn cached_tokens(&self) -> Option<u64> {
        self.cached_tokens.get().copied()
    }

    /// The reasoning part of the answer.
    pub fn reasoning_tokens(&self) -> Option<u64> {
        self.reasoning_tokens.get().copied()
    }

    /// What went wrong.
    pub fn error(&self) -> Option<&ErrorSummary> {
        self.error.get()
    }

    /// Labels, in order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(AsRef::as_ref)
    }

    /// Metadata, by key: text without quotes, other values as JSON, cut to a bound.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata
            .iter()
            .filter_map(|(key, value)| Some((key.as_ref(), value.get()?.as_ref())))
    }

    /// The bytes the `runs` table keeps: everything but the previews, which have columns of their own.
    pub fn encode(&self) -> Result<Vec<u8>, StateFault> {
        // A run of two events takes about this much.
        let mut bytes = Vec::with_capacity(384);
        bytes.push(match self.marks {
            None => FORMAT,
            Some(_) => FORMAT_WITH_MARKS,
        });
        let mut bytes = postcard::to_extend(self, bytes)?;
        if let Some(marks) = &self.marks {
            bytes = postcard::to_extend(marks, bytes)?;
        }
        Ok(bytes)
    }

    /// Reads those bytes back, together with the previews.
    pub fn decode(bytes: &[u8], previews: Previews<'_>) -> Result<Self, StateFault> {
        let mut state: Self = match bytes.split_first() {
            None => return Err(StateFault::Empty),
            Some((&FORMAT, rest)) => postcard::from_bytes(rest)?,
            Some((&FORMAT_WITH_MARKS, rest)) => {
                let (mut state, rest) = postcard::take_from_bytes::<Self>(rest)?;
                state.marks = Some(Box::new(postcard::from_bytes(rest)?));
                state
            }
            Some((other, _)) => return Err(StateFault::UnknownFormat(*other)),
        };
        state.input = First::from_parts(state.input.stamp(), previews.input.into());
        state.output = Last::from_parts(state.output.stamp(), previews.output.into());
        Ok(state)
    }

    /// The previews [`RunState::decode`] needs beside the bytes.
    pub fn previews(&self) -> Previews<'_> {
        Previews {
            input: self.input_preview(),
            output: self.output_preview(),
        }
    }
}

/// The beginnings of a run's input and output; empty where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Previews<'a> {
    /// Of the input.
    pub input: &'a str,
    /// Of the output.
    pub output: &'a str,
}

/// Writes only whose value a preview is; the value comes back from its column.
mod stamp_only {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{First, Last, Stamp};

    pub(super) trait Register {
        fn stamp(&self) -> Option<Stamp>;
        fn with_stamp(stamp: Option<Stamp>) -> Self;
    }

    macro_rules! registers {
        ($($register:ident),+) => {$(
            impl Register for $register<Box<str>> {
                fn stamp(&self) -> Option<Stamp> {
                    self.stamp()
                }

                fn with_stamp(stamp: Option<Stamp>) -> Self {
                    Self::from_parts(stamp, Box::default())
                }
            }
        )+};
    }
    registers!(First, Last);

    pub(super) fn serialize<R: Register, S: Serializer>(
        register: &R,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        register.stamp().serialize(to)
    }

    pub(super) fn deserialize<'de, R: Register, D: Deserializer<'de>>(
        from: D,
    ) -> Result<R, D::Error> {
        Option::<Stamp>::deserialize(from).map(R::with_stamp)
    }
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
    /// Its type; empty when none was given.
    kind = kind,
    /// Its name; empty when none was given.
    name = name,
    /// Its parent's id; empty when none was given.
    parent_run_id = parent,
    /// The beginning of its input.
    input_preview = input,
    /// The beginning of its output.
    output_preview = output,
    /// Its model; empty when none was given.
    model = model,
    /// The agent it names itself; empty when none was given. Ancestors' agents are not looked at here.
    own_agent = agent,
    /// The user it names itself; empty when none was given.
    own_user_email = user_email,
    /// Its conversation; empty when none was given.
    thread_id = thread_id,
}
