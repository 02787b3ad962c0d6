//! Amounts of money, separate because prices and runs both need them.

use rust_decimal::Decimal;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Digits after the decimal point of an amount, and of a rate in the price table.
pub const SCALE: u32 = 18;

/// Dollars times 10^18: an exact amount, serialized as a JSON number with all its digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dollars(pub i128);

impl From<Decimal> for Dollars {
    /// Amounts are bounded where they come in, so that all of them fit; digits beyond the 18th do not exist.
    fn from(amount: Decimal) -> Self {
        let missing = SCALE.saturating_sub(amount.scale());
        let factor = 10i128.saturating_pow(missing);
        Self(amount.mantissa().saturating_mul(factor))
    }
}

impl std::fmt::Display for Dollars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ONE: u128 = 1_000_000_000_000_000_000;
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) = (self.0.unsigned_abs() / ONE, self.0.unsigned_abs() % ONE);
        if part == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{part:018}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string())
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_written_with_every_digit_and_no_more() {
        for (units, text) in [
            (0, "0"),
            (1, "0.000000000000000001"),
            (1_500_000_000_000_000_000, "1.5"),
            (-250_000_000_000_000_000, "-0.25"),
            (100_000_000_000_000_000_000, "100"),
        ] {
            assert_eq!(serde_json::to_string(&Dollars(units)).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn an_amount_reads_back_exactly(units in -1_000_000_000_000_000_000_000_000i128..1_000_000_000_000_000_000_000_000) {
            let read: Decimal = Dollars(units).to_string().parse().unwrap();
            prop_assert_eq!(read, Decimal::from_i128_with_scale(units, 18));
            prop_assert_eq!(Dollars::from(read), Dollars(units));
        }
    }
}
