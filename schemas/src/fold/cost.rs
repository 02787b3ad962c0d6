//! A run's own cost: interface 6.3.

use rust_decimal::Decimal;

use super::CostStatus;
use crate::price::{PriceTable, Usage};

/// A run's own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// USD.
    pub amount: Decimal,
    /// Why it is that.
    pub status: CostStatus,
    /// Whether the split of the tokens had to be guessed.
    pub is_estimated: bool,
}

impl Cost {
    /// No cost, and why.
    pub fn none(status: CostStatus) -> Self {
        Self {
            amount: Decimal::ZERO,
            status,
            is_estimated: false,
        }
    }

    /// What the client says it cost.
    pub fn provided(amount: Decimal) -> Self {
        Self {
            amount,
            status: CostStatus::Provided,
            is_estimated: false,
        }
    }

    /// The cost of a run of this type (`llm`, ...) for which the client gave none.
    pub fn of(kind: &str, usage: Usage<'_>, prices: &PriceTable) -> Self {
        if kind != "llm" {
            return Self::none(CostStatus::NotLlm);
        }
        if usage.model.is_empty() {
            return Self::none(CostStatus::NoModel);
        }
        let has_both = usage.prompt.is_some() && usage.completion.is_some();
        if !has_both && usage.total.is_none() {
            return Self::none(CostStatus::NoTokens);
        }
        match prices.charge(usage) {
            Some(charge) => Self {
                amount: charge.amount,
                status: CostStatus::Priced,
                is_estimated: charge.is_estimated,
            },
            None => Self::none(CostStatus::UnpricedModel),
        }
    }
}
