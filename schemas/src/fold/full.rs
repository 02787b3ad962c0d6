//! The fold with the full content of the events, for the view of one run.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{First, Last, RunState, Stamp};
use crate::event::Event;
use crate::ids::EventId;

/// A run with its full input, output, error, metadata and unknown fields.
#[derive(Debug, Default)]
pub struct FullRun {
    state: RunState,
    input: First<Box<str>>,
    output: Last<Box<str>>,
    error: Last<FullError>,
    metadata: BTreeMap<Box<str>, Last<Box<str>>>,
    others: BTreeMap<Box<str>, Last<Box<str>>>,
}

/// An error with everything that was reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullError {
    /// The type of the error.
    pub name: Option<Box<str>>,
    pub message: Box<str>,
    /// The stack trace.
    pub stack: Option<Box<str>>,
}

impl FullRun {
    /// Folds one event in, like [`RunState::apply`], in any order and any number of times.
    pub fn apply(&mut self, event: &Event<'_>, id: EventId) {
        self.state.apply(event, id);
        if event.custom.is_some() {
            return;
        }
        let stamp = Stamp::new(event.timestamp_ms, id);
        let json = |value: &RawValue| value.get().into();
        self.input.offer_some(stamp, event.input, json);
        self.output.offer_some(stamp, event.output, json);
        self.error
            .offer_some(stamp, event.error.as_ref(), |error| FullError {
                name: error.name.as_deref().map(Into::into),
                message: error.message.as_ref().into(),
                stack: error.stack.as_deref().map(Into::into),
            });
        for (fields, kept) in [
            (&event.metadata, &mut self.metadata),
            (&event.others, &mut self.others),
        ] {
            for (key, value) in fields {
                kept.entry(key.as_ref().into())
                    .or_default()
                    .offer(stamp, || json(value));
            }
        }
    }

    /// The narrow state of the same events.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// JSON.
    pub fn input(&self) -> Option<&str> {
        self.input.get().map(AsRef::as_ref)
    }

    /// JSON.
    pub fn output(&self) -> Option<&str> {
        self.output.get().map(AsRef::as_ref)
    }

    pub fn error(&self) -> Option<&FullError> {
        self.error.get()
    }

    /// Each key with its JSON.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.metadata)
    }

    /// Unknown fields: each key with its JSON.
    pub fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.others)
    }
}

fn pairs(kept: &BTreeMap<Box<str>, Last<Box<str>>>) -> impl Iterator<Item = (&str, &str)> {
    kept.iter()
        .filter_map(|(key, value)| Some((key.as_ref(), value.get()?.as_ref())))
}
