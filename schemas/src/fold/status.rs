//! The states of a run and of its cost: their names in the API and their numbers in the tables.

use serde::{Deserialize, Serialize};

/// Declares an enumeration with the number and the text of each variant. The number is stored and never changes.
macro_rules! stored_enum {
    ($(#[$attribute:meta])* $name:ident {
        $($(#[$variant_attribute:meta])* $variant:ident = $number:literal $text:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(i8)]
        pub enum $name {
            $($(#[$variant_attribute])* #[serde(rename = $text)] $variant = $number,)*
        }

        impl $name {
            /// The name on the API.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl TryFrom<i8> for $name {
            /// The unknown number.
            type Error = i8;

            fn try_from(number: i8) -> Result<Self, i8> {
                match number {
                    $($number => Ok($name::$variant),)*
                    unknown => Err(unknown),
                }
            }
        }
    };
}

stored_enum! {
    RunStatus {
        /// No closing event has been seen.
        #[default]
        Started = 1 "started",
        /// Closed without an error.
        Success = 2 "success",
        /// An error was reported; no later event takes that back.
        Error = 3 "error",
    }
}

impl CostStatus {
    /// Whether a row of the price table made it.
    pub fn is_from_the_table(self) -> bool {
        matches!(self, Self::Priced | Self::PartlyPriced)
    }
}

stored_enum! {
    /// Why a run's cost is what it is.
    CostStatus {
        /// Computed from the price table.
        Priced = 1 "priced",
        /// Given by the client.
        Provided = 2 "provided",
        /// Only model calls cost anything.
        #[default]
        NotLlm = 3 "not_llm",
        /// A model call that names no model.
        NoModel = 4 "no_model",
        /// A model call without the token counts that pricing needs.
        NoTokens = 5 "no_tokens",
        /// No price for the model yet.
        UnpricedModel = 6 "unpriced_model",
        /// Computed from the price table, which has no rate for a kind of its usage.
        PartlyPriced = 7 "partly_priced",
        /// Another run reports the same call, and counts it.
        CountedElsewhere = 8 "counted_elsewhere",
    }
}
