//! The cost of a run, as stored in its row.

use schemas::fold::{Cost, CostStatus, RunState};
use schemas::money::Dollars;
use schemas::price::PriceTable;

/// What a run itself costs, without its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCost {
    /// USD times 10^18.
    pub amount: i128,
    pub status: CostStatus,
    /// Whether the split of the tokens had to be estimated.
    pub is_estimated: bool,
}

impl OwnCost {
    pub fn of(state: &RunState, prices: &PriceTable) -> Self {
        state.cost(prices).into()
    }
}

impl OwnCost {
    /// Of a call that another run counts.
    pub fn counted_elsewhere() -> Self {
        Self {
            amount: 0,
            status: CostStatus::CountedElsewhere,
            is_estimated: false,
        }
    }
}

impl From<Cost> for OwnCost {
    fn from(cost: Cost) -> Self {
        Self {
            amount: Dollars::from(cost.amount).0,
            status: cost.status,
            is_estimated: cost.is_estimated,
        }
    }
}
