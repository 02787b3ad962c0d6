//! The factor of a service tier, exact.

use rust_decimal::Decimal;

use super::rate::{Number, RateFault};

/// What a charge of tokens is multiplied by, in millionths: 0.5 for batches, 2 for priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(u32);

/// Digits after the point.
const FACTOR_SCALE: u32 = 6;
const ONE: u32 = 1_000_000;

/// Why a text is no valid factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has to be a number from 0 to 1000 with at most 6 digits after the point")]
pub struct FactorFault;

impl Factor {
    /// A thousand times the price: more than any service costs.
    pub const MAX: Factor = Factor(1000 * ONE);

    /// From millionths; `None` when out of bounds.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= Self::MAX.0).then_some(Self(millionths))
    }

    /// Parses a JSON number, without rounding.
    pub fn read(text: &str) -> Result<Self, FactorFault> {
        let units = Number::read(text)
            .ok_or(RateFault::NotANumber)
            .and_then(|number| number.units(FACTOR_SCALE))
            .map_err(|_| FactorFault)?;
        let millionths = u32::try_from(units).map_err(|_| FactorFault)?;
        Self::from_millionths(millionths).ok_or(FactorFault)
    }

    /// The product with an amount in units of 10^-18 USD, rounded half up to a whole unit: only a rate with more than
    /// 12 digits after the point has to be rounded. Saturates.
    pub fn times(self, units: u128) -> u128 {
        let product = units.saturating_mul(u128::from(self.0));
        product.saturating_add(u128::from(ONE / 2)) / u128::from(ONE)
    }

    pub fn decimal(self) -> Decimal {
        Decimal::new(i64::from(self.0), FACTOR_SCALE).normalize()
    }
}

impl std::fmt::Display for Factor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.decimal().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_read_and_written_to_the_last_digit() {
        for (text, millionths, shown) in [
            ("0.5", 500_000, "0.5"),
            ("5e-1", 500_000, "0.5"),
            ("2.0", 2_000_000, "2"),
            ("1.75", 1_750_000, "1.75"),
            ("0.000001", 1, "0.000001"),
            ("0", 0, "0"),
            ("1000", 1_000_000_000, "1000"),
        ] {
            let factor = Factor::read(text).unwrap();
            assert_eq!(factor, Factor(millionths), "{text}");
            assert_eq!(factor.to_string(), shown);
        }
        for text in [
            "",
            "half",
            "\"2\"",
            "-1",
            "0.0000001",
            "1000.1",
            "1e9",
            "null",
            "NaN",
        ] {
            assert_eq!(Factor::read(text), Err(FactorFault), "{text}");
        }
    }

    #[test]
    fn a_product_is_exact_or_rounded_half_up_and_saturates() {
        let half = Factor::read("0.5").unwrap();
        assert_eq!(half.times(10), 5);
        assert_eq!(half.times(11), 6);
        assert_eq!(Factor::read("1.75").unwrap().times(4_000), 7_000);
        assert_eq!(Factor::MAX.times(u128::MAX), u128::MAX / 1_000_000);
    }
}
