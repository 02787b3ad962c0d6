//! Marks that users set on a run: saved or not, and the newest feedback.
//!
//! Marks may arrive before their run, so they are part of its state without making it exist: a run with nothing but
//! marks was never seen.

use serde::{Deserialize, Serialize};

use super::{Last, Stamp, cut_at};
use crate::event::{Custom, Event, Rating};
use crate::timestamp::UnixMs;

/// Bytes of a comment in a run's row. The history of feedback has the full comment.
const COMMENT_BYTES: usize = 2048;

/// The marks on one run; a join-semilattice like the state that contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    first_ms: Option<UnixMs>,
    saved: Last<bool>,
    feedback: Last<StoredFeedback>,
}

/// The newest feedback in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct StoredFeedback {
    rating: Rating,
    comment: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestFeedback<'a> {
    pub rating: Rating,
    /// Cut to a bound; empty for none.
    pub comment: &'a str,
    pub at_ms: UnixMs,
}

/// Whether an event of this kind sets a mark on its run.
pub fn is_mark(custom: Custom) -> bool {
    matches!(custom, Custom::Saved | Custom::Unsaved | Custom::Feedback)
}

impl Marks {
    pub(super) fn apply(&mut self, custom: Custom, event: &Event<'_>, stamp: Stamp) {
        let at = event.timestamp_ms;
        self.first_ms = Some(self.first_ms.map_or(at, |first| first.min(at)));
        match custom {
            Custom::Saved => self.saved.offer(stamp, || true),
            Custom::Unsaved => self.saved.offer(stamp, || false),
            Custom::Feedback => {
                let feedback = event.feedback.as_ref();
                // A comment alone is kept in the history; it does not undo a rating.
                let rated = feedback.and_then(|feedback| Some((feedback, feedback.rating?)));
                self.feedback
                    .offer_some(stamp, rated, |(feedback, rating)| StoredFeedback {
                        rating,
                        comment: cut_at(
                            feedback.comment.as_deref().unwrap_or_default(),
                            COMMENT_BYTES,
                        )
                        .into(),
                    });
            }
            Custom::Chat | Custom::Thread => {}
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.first_ms = match (self.first_ms, other.first_ms) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
        self.saved.join(other.saved);
        self.feedback.join(other.feedback);
    }

    pub(super) fn first_ms(&self) -> Option<UnixMs> {
        self.first_ms
    }

    pub(super) fn is_saved(&self) -> bool {
        self.saved.get().copied().unwrap_or(false)
    }

    pub(super) fn latest_feedback(&self) -> Option<LatestFeedback<'_>> {
        let feedback = self.feedback.get()?;
        Some(LatestFeedback {
            rating: feedback.rating,
            comment: &feedback.comment,
            at_ms: self.feedback.stamp()?.timestamp_ms(),
        })
    }
}
