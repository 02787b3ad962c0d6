//! Sums over a tree of runs.

use serde::Deserialize;

use super::{RunState, RunStatus};

/// Declares the sums, each with its column of `runs`.
macro_rules! totals {
    ($($(#[$attribute:meta])* $field:ident: $number:ty = $column:literal,)*) => {
        /// Sums over a run, or over a run and all its descendants. They wrap instead of saturating, so that an added
        /// value can be subtracted again; single amounts are bounded far below where a sum could overflow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        pub struct Totals {
            $($(#[$attribute])* pub $field: $number,)*
        }

        impl Totals {
            /// The columns of the subtree totals, in the order of the fields.
            pub const COLUMNS: &[&str] = &[$($column),*];

            pub fn add(&mut self, other: &Totals) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }

            pub fn subtract(&mut self, other: &Totals) {
                $(self.$field = self.$field.wrapping_sub(other.$field);)*
            }
        }
    };
}

totals! {
    /// USD times 10^18.
    cost: i128 = "total_cost",
    prompt_tokens: u64 = "total_prompt_tokens",
    completion_tokens: u64 = "total_completion_tokens",
    tokens: u64 = "total_tokens_with_children",
    /// Model calls.
    llm_calls: u64 = "llm_calls",
    errors: u64 = "error_count",
}

impl Totals {
    /// A run's own totals; `cost` is USD times 10^18.
    pub fn own(state: &RunState, cost: i128) -> Self {
        let usage = state.usage();
        Self {
            cost,
            prompt_tokens: usage.tokens.prompt.unwrap_or(0),
            completion_tokens: usage.tokens.completion.unwrap_or(0),
            tokens: usage.tokens.total.unwrap_or(0),
            llm_calls: usage.calls,
            errors: u64::from(state.status() == RunStatus::Error),
        }
    }
}
