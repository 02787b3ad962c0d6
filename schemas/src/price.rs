//! The price table and the cost of a model call: interface 6.3, exact to the last digit, no clock and no store.
//!
//! Rates are whole units of 10^-18 USD per token ([`rate::Rate`]), tokens are whole, so a charge is a sum of products
//! of integers. A row has a rate for each kind of usage, other rates for long prompts and factors for service tiers
//! ([`Rates`]). It applies from a date; the price of a call is the one of its run's start. A model is looked up by its
//! name, then by what is left of it without providers, regions, versions and dates ([`PriceTable`]).

pub mod details;
pub mod factor;
mod fields;
pub mod kinds;
mod names;
pub mod rate;
mod rates;
pub mod shipped;
mod table;
pub mod written;

use rust_decimal::Decimal;

use crate::money::SCALE;
use crate::timestamp::UnixMs;
use kinds::UnpricedKinds;

pub use rates::{RateTier, Rates, ServiceTier, SpecialRates, is_standard};
pub use table::PriceTable;

/// Upper bound on the cost of one call, in units of 10^-18 USD: 10^12 USD, the bound on costs from clients. Only token
/// counts that no model has reach it; they cost this.
const AMOUNT_MAX: u128 = 1_000_000_000_000 * 1_000_000_000_000_000_000;

/// What a call used. All counts by kind are parts of the prompt or of the completion, and disjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage<'a> {
    /// The model, as the client named it.
    pub model: &'a str,
    /// Tokens of the prompt, cached ones included.
    pub prompt: Option<u64>,
    /// Tokens of the completion, reasoning included.
    pub completion: Option<u64>,
    /// Total tokens.
    pub total: Option<u64>,
    /// Prompt tokens that came from a cache.
    pub cached: Option<u64>,
    /// Prompt tokens written to a cache of the default lifetime.
    pub cache_write: Option<u64>,
    /// Prompt tokens written to a cache that lasts one hour; not in `cache_write`.
    pub cache_write_1h: Option<u64>,
    /// Prompt tokens of audio.
    pub input_audio: Option<u64>,
    /// Prompt tokens of images.
    pub input_image: Option<u64>,
    /// Completion tokens of reasoning.
    pub reasoning: Option<u64>,
    /// Completion tokens of audio.
    pub output_audio: Option<u64>,
    /// Requests that are billed beside the tokens, for example searches.
    pub requests: Option<u64>,
    /// `batch`, `flex`, `priority`, ...; empty, `default` or `standard` for the standard one.
    pub service_tier: &'a str,
    /// The run's start, which decides which price applies.
    pub at_ms: UnixMs,
}

/// The cost of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// USD, at most 18 digits after the decimal point. Exact up to 79 billion USD, rounded to 16 digits after the point
    /// above that, and at most 10^12 USD.
    pub amount: Decimal,
    /// Whether only the total of tokens was known, so the split had to be estimated.
    pub is_estimated: bool,
    /// Used kinds that the row has no rate for. All but requests are in the amount, at the rate of input or output.
    pub unpriced: UnpricedKinds,
}

/// The cost of a model call by the price table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced<'t> {
    pub charge: Charge,
    /// The row whose rates were used.
    pub row: &'t PriceKey,
}

/// The unique key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceKey {
    /// Name of the model, or a prefix of names.
    pub model: String,
    pub is_prefix: bool,
    /// The start of validity, Unix milliseconds; `None` for always.
    pub effective_from: Option<UnixMs>,
}

/// A row of the price table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    pub key: PriceKey,
    pub rates: Rates,
}

/// Units of 10^-18 USD as a decimal.
fn dollars(units: u128) -> Decimal {
    let units = units.min(AMOUNT_MAX) as i128;
    // A decimal has 96 bits: with two digits fewer, every amount up to the bound fits.
    Decimal::try_from_i128_with_scale(units, SCALE)
        .unwrap_or_else(|_| Decimal::from_i128_with_scale((units + 50) / 100, SCALE - 2))
}

#[cfg(test)]
mod tests;
