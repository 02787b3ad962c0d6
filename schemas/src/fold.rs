//! How events become a run.
//!
//! A run is a pure function of the *set* of its events (P2). The state is a join-semilattice: minima, maxima, unions
//! and registers stamped with (timestamp, event id), so that [`RunState::apply`] and [`RunState::join`] are
//! commutative, associative and idempotent. Any order, any duplication and any cut into batches give the same state.
//! It is what the `runs` table keeps beside the columns: folding goes on from there, without the run's history.
//!
//! The state is narrow: previews instead of input and output, and bounded sets. [`full::FullRun`] folds the same
//! events with everything they carry, for the view of one run.

mod cost;
pub mod full;
mod marks;
mod register;
mod state;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use cost::Cost;
pub use marks::{Verdict, is_mark};
pub use register::{First, Last, Stamp};
pub use state::{ErrorSummary, Previews, RunState, StateFault};

use crate::limits;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No closing event has been seen.
    Started,
    /// Closed without an error.
    Success,
    /// An error was reported; nothing takes that back.
    Error,
}

impl Status {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Started => "started",
            Status::Success => "success",
            Status::Error => "error",
        }
    }
}

/// Why a run's cost is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostStatus {
    /// Computed from the price table.
    Priced,
    /// Given by the client.
    Provided,
    /// Only model calls cost anything.
    NotLlm,
    /// A model call that names no model.
    NoModel,
    /// A model call without the token counts that pricing needs.
    NoTokens,
    /// No price for the model yet.
    UnpricedModel,
}

impl CostStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            CostStatus::Priced => "priced",
            CostStatus::Provided => "provided",
            CostStatus::NotLlm => "not_llm",
            CostStatus::NoModel => "no_model",
            CostStatus::NoTokens => "no_tokens",
            CostStatus::UnpricedModel => "unpriced_model",
        }
    }
}

/// The beginning of a JSON value as a person reads it: text without its quotes, anything else as JSON.
pub fn preview(value: &RawValue) -> Box<str> {
    let raw = value.get();
    let quoted = raw.starts_with('"');
    // Decoding a megabyte to show 256 characters would be waste: an escape is at most 12 bytes for one character.
    // One character more than shown, because the cut may halve the last one.
    let cut = cut_at(raw, (limits::PREVIEW_CHARS + 1) * 12 + 1);
    if quoted && cut.len() == raw.len() {
        let text = crate::event::text_of(value).unwrap_or(Cow::Borrowed(raw));
        return first_chars(&text).into();
    }
    if quoted {
        let mut decoded = decode_prefix(&cut[1..]);
        let end = first_chars(&decoded).len();
        decoded.truncate(end);
        return decoded.into();
    }
    first_chars(cut).into()
}

/// Decodes as much of the inside of a JSON string as is whole.
fn decode_prefix(inside: &str) -> String {
    // The cut may have halved an escape: an escape is at most 12 bytes, so one of these ends is whole.
    (0..=12)
        .filter_map(|dropped| {
            inside
                .len()
                .checked_sub(dropped)
                .and_then(|end| inside.get(..end))
        })
        .find_map(|part| serde_json::from_str::<String>(&format!("\"{part}\"")).ok())
        .unwrap_or_else(|| inside.to_owned())
}

fn first_chars(text: &str) -> &str {
    match text.char_indices().nth(limits::PREVIEW_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The longest beginning of `text` of at most `bytes` bytes that ends at a character.
pub(crate) fn cut_at(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests;
