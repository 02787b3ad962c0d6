//! What people say of a run: saved or not, and the newest judgement.
//!
//! Marks may come before their run, so they are part of its state without being part of its life: a run that has
//! nothing but marks is one that was never seen.

use serde::{Deserialize, Serialize};

use super::{Last, Stamp, cut_at};
use crate::event::{Custom, Event, Rating};
use crate::timestamp::UnixMs;

/// Bytes of a comment on a run's row. The history of feedback has it whole.
const COMMENT_BYTES: usize = 2048;

/// The marks on one run; a join-semilattice like the state it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    first_ms: Option<UnixMs>,
    saved: Last<bool>,
    feedback: Last<Feedback>,
}

/// The newest judgement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Feedback {
    rating: Rating,
    comment: Box<str>,
}

/// The newest judgement on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// How it was found.
    pub rating: Rating,
    /// In words, cut to a bound; empty for none.
    pub comment: &'a str,
    /// When.
    pub at_ms: UnixMs,
}

/// Whether an event of this kind leaves a mark on its run.
pub fn is_mark(custom: Custom) -> bool {
    matches!(custom, Custom::Saved | Custom::Unsaved | Custom::Feedback)
}

impl Marks {
    /// Folds one custom event in.
    pub(super) fn apply(&mut self, custom: Custom, event: &Event<'_>, stamp: Stamp) {
        let at = event.timestamp_ms;
        self.first_ms = Some(self.first_ms.map_or(at, |first| first.min(at)));
        match custom {
            Custom::Saved => self.saved.offer(stamp, || true),
            Custom::Unsaved => self.saved.offer(stamp, || false),
            Custom::Feedback => {
                let judgement = event.judgement.as_ref();
                // Words alone are kept in the history; they do not take a rating back.
                let rated = judgement.and_then(|judgement| Some((judgement, judgement.rating?)));
                self.feedback
                    .offer_some(stamp, rated, |(judgement, rating)| Feedback {
                        rating,
                        comment: cut_at(
                            judgement.comment.as_deref().unwrap_or_default(),
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

    pub(super) fn verdict(&self) -> Option<Verdict<'_>> {
        let feedback = self.feedback.get()?;
        Some(Verdict {
            rating: feedback.rating,
            comment: &feedback.comment,
            at_ms: self.feedback.stamp()?.timestamp_ms(),
        })
    }
}
