//! Tokens and model calls of a run itself.

use std::iter::Sum;

use crate::event::{Tokens, UsageParts};

/// Tokens and model calls of a run, without its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// Tokens of all its calls. The total is as given, else what is known of prompt and completion.
    pub tokens: Tokens,
    /// Parts of these tokens that have prices of their own, and requests.
    pub parts: UsageParts,
    pub calls: u64,
}

impl OwnUsage {
    pub(super) fn of(tokens: Tokens, parts: UsageParts, calls: u64) -> Self {
        let Tokens {
            prompt,
            completion,
            total,
            ..
        } = tokens;
        Self {
            tokens: Tokens {
                total: total.or_else(|| sum(prompt, completion)),
                ..tokens
            },
            parts,
            calls,
        }
    }
}

impl Sum for OwnUsage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sums, next| Self {
            tokens: Tokens {
                prompt: sum(sums.tokens.prompt, next.tokens.prompt),
                completion: sum(sums.tokens.completion, next.tokens.completion),
                total: sum(sums.tokens.total, next.tokens.total),
                cached: sum(sums.tokens.cached, next.tokens.cached),
                reasoning: sum(sums.tokens.reasoning, next.tokens.reasoning),
            },
            parts: UsageParts {
                cache_write: sum(sums.parts.cache_write, next.parts.cache_write),
                cache_write_1h: sum(sums.parts.cache_write_1h, next.parts.cache_write_1h),
                input_audio: sum(sums.parts.input_audio, next.parts.input_audio),
                input_image: sum(sums.parts.input_image, next.parts.input_image),
                output_audio: sum(sums.parts.output_audio, next.parts.output_audio),
                requests: sum(sums.parts.requests, next.parts.requests),
            },
            calls: sums.calls + next.calls,
        })
    }
}

/// The sum of what is known; `None` if nothing is.
fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (left, right) => left.or(right),
    }
}
