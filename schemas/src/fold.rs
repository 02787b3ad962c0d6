//! The fold of events into a run.
//!
//! A run is a pure function of the *set* of its events (P2). The state is a join-semilattice: minima, maxima, unions
//! and registers stamped with (timestamp, event id), so [`RunState::apply`] and [`RunState::join`] are commutative,
//! associative and idempotent. Any order, any duplication and any division into batches give the same state. The `runs`
//! table stores it beside the columns, so that folding continues from there, without the run's history.
//!
//! The state is narrow: previews instead of input and output, and bounded sets. [`full::FullRun`] folds the same events
//! with all of their content, for the view of one run.

mod call_details;
mod calls;
mod cost;
pub mod full;
mod marks;
mod own_calls;
mod own_usage;
mod register;
mod state;
mod status;
mod stored;
mod totals;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub use cost::Cost;
pub use marks::{LatestFeedback, is_mark};
pub use own_calls::{ModelCall, OneCall};
pub use own_usage::OwnUsage;
pub use register::{First, Last, Stamp};
pub use state::{ErrorSummary, Previews, RunState, StateFault};
pub use status::{CostStatus, RunStatus};
pub use totals::Totals;

use crate::{limits, turn_text};

/// The beginning of a JSON value for lists: text without its quotes, other values as JSON.
pub fn preview(value: &RawValue) -> Box<str> {
    let raw = value.get();
    let quoted = raw.starts_with('"');
    // Decoding a megabyte to show 256 characters would be waste: an escape is at most 12 bytes for one character. One
    // character more than shown, because the cut may halve the last one.
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

/// The beginning of an output for lists: of the answer in a message, where it is one, else [`preview`].
pub fn answer_preview(value: &RawValue) -> Box<str> {
    match turn_text::spoken_answer(value) {
        Some(text) => first_chars(&text).into(),
        None => preview(value),
    }
}

/// Decodes the longest valid prefix of the inside of a JSON string.
fn decode_prefix(inside: &str) -> String {
    // The cut may have halved an escape: an escape is at most 12 bytes, so one of these prefixes is valid.
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

/// The longest prefix of at most `bytes` bytes that ends at a character boundary.
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
