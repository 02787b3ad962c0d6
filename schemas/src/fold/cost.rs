//! A run's own cost: interface 6.3.

use rust_decimal::Decimal;

use super::CostStatus;
use crate::price::kinds::UnpricedKinds;
use crate::price::{PriceTable, Priced, Usage};

/// Without the cost of its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// USD.
    pub amount: Decimal,
    pub status: CostStatus,
    /// Whether the split of the tokens had to be estimated.
    pub is_estimated: bool,
    /// The kinds of usage without a rate of their own, where it is [`CostStatus::PartlyPriced`].
    pub unpriced: UnpricedKinds,
}

impl Cost {
    /// No cost, with the reason.
    pub fn none(status: CostStatus) -> Self {
        Self {
            amount: Decimal::ZERO,
            status,
            is_estimated: false,
            unpriced: UnpricedKinds::default(),
        }
    }

    /// The cost from the client.
    pub fn provided(amount: Decimal) -> Self {
        Self {
            amount,
            ..Self::none(CostStatus::Provided)
        }
    }

    /// What the client computed by a price list of its own, where the table has no price.
    #[must_use]
    pub(super) fn or_estimated(self, estimated: Option<Decimal>) -> Self {
        use CostStatus::{NoModel, NoTokens, UnpricedModel};
        match (self.status, estimated) {
            (NoModel | NoTokens | UnpricedModel, Some(amount)) => Self::provided(amount),
            _ => self,
        }
    }

    /// The cost of both. Where only one of them has a price, the sum is `priced`; where a kind of either has no rate,
    /// it is `partly_priced`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        use CostStatus::{PartlyPriced, Priced, Provided, UnpricedModel};
        let either = [self.status, other.status];
        let status = if self.status == other.status {
            self.status
        } else if either.contains(&PartlyPriced) {
            PartlyPriced
        } else if either.contains(&Priced) || either.contains(&Provided) {
            Priced
        } else {
            UnpricedModel
        };
        Self {
            amount: self.amount.saturating_add(other.amount),
            status,
            is_estimated: self.is_estimated || other.is_estimated,
            unpriced: self.unpriced.union(other.unpriced),
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
            Some(Priced { charge, .. }) => Self {
                amount: charge.amount,
                status: match charge.unpriced.is_empty() {
                    true => CostStatus::Priced,
                    false => CostStatus::PartlyPriced,
                },
                is_estimated: charge.is_estimated,
                unpriced: charge.unpriced,
            },
            None => Self::none(CostStatus::UnpricedModel),
        }
    }
}
