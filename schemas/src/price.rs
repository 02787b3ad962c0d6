//! The price table and what a model call costs by it: interface 6.3, exact to the last digit, no clock and no store.

use rust_decimal::Decimal;

use crate::timestamp::UnixMs;

/// What a model call is priced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage<'a> {
    /// The model, as the client named it.
    pub model: &'a str,
    /// Tokens of the prompt, cached ones included.
    pub prompt: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub completion: Option<u64>,
    /// Tokens in all.
    pub total: Option<u64>,
    /// The part of the prompt that came from a cache.
    pub cached: Option<u64>,
    /// When the run started: the price in force then counts.
    pub at_ms: UnixMs,
}

/// What a model call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// USD, at most 18 digits after the point.
    pub amount: Decimal,
    /// Whether only the total of tokens was known, so that the split had to be guessed.
    pub is_estimated: bool,
}

/// Every price there is. Immutable: a change makes a new table.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {}

impl PriceTable {
    /// What the call costs; `None` when no row is in force for the model. The caller has made sure that there are
    /// tokens to count: prompt and completion, or the total.
    pub fn charge(&self, _usage: Usage<'_>) -> Option<Charge> {
        None
    }
}
