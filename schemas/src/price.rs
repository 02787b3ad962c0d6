//! The price table and the cost of a model call: interface 6.3, exact to the last digit, no clock and no store.
//!
//! Rates are whole units of 10^-18 USD per token ([`rate::Rate`]), tokens are whole, so a charge is a sum of products
//! of integers. A row applies from a date; the price of a call is the one of its run's start.

pub mod rate;
pub mod shipped;
mod table;
pub mod written;

use rust_decimal::Decimal;

use crate::money::SCALE;
use crate::timestamp::UnixMs;
use rate::Rate;

pub use table::PriceTable;

/// Upper bound on the cost of one call, in units of 10^-18 USD: 10^12 USD, the bound on costs from clients. Only token
/// counts that no model has reach it; they cost this.
const AMOUNT_MAX: u128 = 1_000_000_000_000 * 1_000_000_000_000_000_000;

/// Model and token counts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// USD per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub input: Rate,
    pub output: Rate,
    /// Defaults to the rate of the prompt.
    pub cached_input: Option<Rate>,
    /// Applies where only the total is known; defaults to the rate of the prompt, and then the cost is an estimate.
    pub total: Option<Rate>,
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

impl Rates {
    /// The cost of a call at these rates. Prompt and completion count if both are known, else the total.
    ///
    /// Cached tokens are part of the prompt, and at most all of it; reasoning is part of the completion. So no token is
    /// counted twice.
    pub fn charge(&self, usage: Usage<'_>) -> Charge {
        let (units, is_estimated) = match (usage.prompt, usage.completion) {
            (Some(prompt), Some(completion)) => {
                let cached = usage.cached.unwrap_or(0).min(prompt);
                let parts = [
                    self.input.times(prompt - cached),
                    self.cached_input.unwrap_or(self.input).times(cached),
                    self.output.times(completion),
                ];
                // Each product is below 2^124, so the sum of three fits.
                (parts.iter().sum(), false)
            }
            _ => {
                let total = usage.total.unwrap_or(0);
                let rate = self.total.unwrap_or(self.input);
                (rate.times(total), self.total.is_none())
            }
        };
        Charge {
            amount: dollars(units),
            is_estimated,
        }
    }
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
