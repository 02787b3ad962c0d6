//! The price table and what a model call costs by it: interface 6.3, exact to the last digit, no clock and no store.
//!
//! Rates are whole units of 10^-18 USD per token ([`rate::Rate`]), tokens are whole, so a charge is a sum of products of
//! integers. A row says from when it is in force; the price of a call is that of the moment at which its run started.

pub mod rate;
pub mod shipped;
mod table;
pub mod written;

use rust_decimal::Decimal;

use crate::timestamp::UnixMs;
use rate::Rate;

pub use table::PriceTable;

/// Digits after the point of a rate and of an amount: what the tables hold.
pub const SCALE: u32 = 18;
/// The most one call costs, in units of 10^-18 USD: 10^12 USD, the bound on costs that clients give. Only token counts
/// that no model has reach it; they are charged this.
const AMOUNT_MAX: u128 = 1_000_000_000_000 * 1_000_000_000_000_000_000;

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
    /// USD, at most 18 digits after the point. Exact up to 79 billion USD, rounded to 16 digits after the point above
    /// that, and at most 10^12 USD.
    pub amount: Decimal,
    /// Whether only the total of tokens was known, so that the split had to be guessed.
    pub is_estimated: bool,
}

/// What the tokens of a model cost, USD per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// A token of the prompt.
    pub input: Rate,
    /// A token of the answer.
    pub output: Rate,
    /// A token of the prompt that came from a cache; the rate of the prompt without it.
    pub cached_input: Option<Rate>,
    /// Any token, where only their total is known; the rate of the prompt without it, and then the cost is an estimate.
    pub total: Option<Rate>,
}

/// What names a row: at most one row has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceKey {
    /// Name of the model, or the beginning of names.
    pub model: String,
    /// Whether `model` is the beginning of names.
    pub is_prefix: bool,
    /// From when the row is in force, Unix milliseconds; since ever without it.
    pub effective_from: Option<UnixMs>,
}

/// A row of the price table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    /// What it is for.
    pub key: PriceKey,
    /// What tokens cost.
    pub rates: Rates,
}

impl Rates {
    /// What the call costs at these rates. Prompt and completion count where both are known, else the total.
    ///
    /// Cached tokens are part of the prompt, and no more than it; reasoning is part of the completion. So no token is
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
                // Each product is below 2^124, so three of them fit.
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
