//! A run's own cost: interface 6.3.

use rust_decimal::Decimal;

use super::CostStatus;
use crate::price::{PriceTable, Usage};

/// Without the cost of its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// USD.
    pub amount: Decimal,
    pub status: CostStatus,
    /// Whether the split of the tokens had to be estimated.
    pub is_estimated: bool,
}

impl Cost {
    /// No cost, with the reason.
    pub fn none(status: CostStatus) -> Self {
        Self {
            amount: Decimal::ZERO,
            status,
            is_estimated: false,
        }
    }

    /// The cost from the client.
    pub fn provided(amount: Decimal) -> Self {
        Self {
            amount,
            status: CostStatus::Provided,
            is_estimated: false,
        }
    }

    /// The cost of both. Where only one of them has a price, the sum is `priced`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        use CostStatus::{Priced, Provided, UnpricedModel};
        let either = [self.status, other.status];
        let status = if self.status == other.status {
            self.status
        } else if either.contains(&Priced) || either.contains(&Provided) {
            Priced
        } else {
            UnpricedModel
        };
        Self {
            amount: self.amount.saturating_add(other.amount),
            status,
            is_estimated: self.is_estimated || other.is_estimated,
        }
    }

    /// The cost of a run of this type (`llm`, ...) for which the client sent none.
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
            Some(priced) => Self {
                amount: priced.charge.amount,
                status: CostStatus::Priced,
                is_estimated: priced.charge.is_estimated,
            },
            None => Self::none(CostStatus::UnpricedModel),
        }
    }
}
