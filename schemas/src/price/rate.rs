//! A price per token or request, parsed exactly from a price for one, a thousand or a million.

use crate::money::{Dollars, SCALE};

/// USD per token (or per request) in units of 10^-18: exact, and small enough that its product with any token count fits into 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// The number of tokens (or requests) of a written price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    One,
    Thousand,
    /// The unit that vendors publish.
    Million,
}

impl Per {
    /// The power of ten.
    fn exponent(self) -> u32 {
        match self {
            Per::One => 0,
            Per::Thousand => 3,
            Per::Million => 6,
        }
    }
}

/// Why a text is no valid price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateFault {
    /// Not a JSON number (text, `NaN`, `Infinity`), or too long.
    #[error("has to be a number of at most {TEXT_BYTES} characters")]
    NotANumber,
    /// Below zero.
    #[error("must not be negative")]
    Negative,
    /// More than a dollar per token.
    #[error("must be at most 1 USD per token or request: 1000 per 1k, 1000000 per 1m")]
    TooLarge,
    /// Could only be stored rounded.
    #[error(
        "has more digits than can be kept exactly: 18 after the point per token, which is 15 per 1k and 12 per 1m"
    )]
    TooFine,
}

/// Longest number that is parsed: enough for every digit of a rate (X1).
const TEXT_BYTES: usize = 100;

impl Rate {
    /// 1 USD per token.
    pub const MAX: Rate = Rate(1_000_000_000_000_000_000);

    /// From units of 10^-18 USD per token, as in the tables; `None` when out of bounds.
    pub fn from_units(units: i128) -> Option<Self> {
        let rate = Self(u64::try_from(units).ok()?);
        (rate <= Self::MAX).then_some(rate)
    }

    /// Units of 10^-18 USD per token.
    pub fn units(self) -> i128 {
        i128::from(self.0)
    }

    /// The cost of this many tokens, in units of 10^-18 USD.
    pub fn times(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }

    /// Parses a JSON number, USD for so many tokens, without rounding.
    pub fn read(text: &str, per: Per) -> Result<Self, RateFault> {
        let number = Number::read(text).ok_or(RateFault::NotANumber)?;
        let units = number.units(SCALE - per.exponent())?;
        u64::try_from(units)
            .ok()
            .map(Self)
            .filter(|rate| *rate <= Self::MAX)
            .ok_or(RateFault::TooLarge)
    }

    /// Like [`Rate::read`], but rounds half up to 18 digits after the point per token: price lists that were computed
    /// with floats have more.
    pub fn read_rounded(text: &str, per: Per) -> Result<Self, RateFault> {
        match Self::read(text, per) {
            Err(RateFault::TooFine) => {}
            result => return result,
        }
        let number = Number::read(text).ok_or(RateFault::NotANumber)?;
        let shift = number.exponent + i64::from(SCALE - per.exponent());
        let divisor = u32::try_from(-shift)
            .ok()
            .and_then(|shift| 10u128.checked_pow(shift));
        let units = divisor.map_or(0, |divisor| {
            number.digits.saturating_add(divisor / 2) / divisor
        });
        Self::from_units(i128::try_from(units).unwrap_or(i128::MAX)).ok_or(RateFault::TooLarge)
    }

    /// USD for so many tokens, exact.
    pub fn per(self, per: Per) -> Dollars {
        Dollars(self.units() * 10i128.pow(per.exponent()))
    }
}

/// A JSON number: `digits` times ten to `exponent`, `digits` without trailing zeros.
pub(super) struct Number {
    is_negative: bool,
    digits: u128,
    exponent: i64,
}

impl Number {
    /// The number in units of ten to minus `scale`, exact.
    pub(super) fn units(&self, scale: u32) -> Result<u128, RateFault> {
        if self.digits == 0 {
            return Ok(0);
        }
        if self.is_negative {
            return Err(RateFault::Negative);
        }
        // The digits are a whole number of units if enough powers of ten are left for them.
        let shift = self.exponent + i64::from(scale);
        let shift = u32::try_from(shift).map_err(|_| RateFault::TooFine)?;
        10u128
            .checked_pow(shift)
            .and_then(|power| self.digits.checked_mul(power))
            .ok_or(RateFault::TooLarge)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES {
            return None;
        }
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, part) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let all = [whole, part].concat();
        if !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let kept = all.trim_end_matches('0');
        let dropped = all.len() - kept.len();
        let digits = match kept.trim_start_matches('0') {
            "" => 0,
            // A number with more digits than fit into 128 bits is neither exact nor a price; its magnitude decides the
            // error.
            digits => digits.parse().unwrap_or(u128::MAX),
        };
        Some(Self {
            is_negative,
            digits,
            exponent: exponent + dropped as i64 - part.len() as i64,
        })
    }
}

/// The number after `e`, cut where it no longer makes a difference.
fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let most = 10_000;
    let size = digits.parse().unwrap_or(most).min(most);
    Some(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_way_to_write_a_price_means_the_same() {
        for (text, per, units) in [
            ("2.5", Per::Million, 2_500_000_000_000),
            ("2.50", Per::Million, 2_500_000_000_000),
            ("25e-1", Per::Million, 2_500_000_000_000),
            ("0.25E+1", Per::Million, 2_500_000_000_000),
            ("0.0025", Per::Thousand, 2_500_000_000_000),
            ("0.000000000001", Per::Million, 1),
            ("1e-15", Per::Thousand, 1),
            ("0", Per::Million, 0),
            ("-0.0", Per::Million, 0),
            ("0e-400", Per::Million, 0),
            ("1000000", Per::Million, 1_000_000_000_000_000_000),
            ("1e3", Per::Thousand, 1_000_000_000_000_000_000),
        ] {
            assert_eq!(Rate::read(text, per).map(Rate::units), Ok(units), "{text}");
        }
    }

    #[test]
    fn what_is_no_price_is_refused_with_its_reason() {
        for (text, fault) in [
            ("", RateFault::NotANumber),
            ("\"1\"", RateFault::NotANumber),
            ("NaN", RateFault::NotANumber),
            ("Infinity", RateFault::NotANumber),
            ("-Infinity", RateFault::NotANumber),
            ("1.", RateFault::NotANumber),
            (".5", RateFault::NotANumber),
            ("01", RateFault::NotANumber),
            ("1e", RateFault::NotANumber),
            ("1_000", RateFault::NotANumber),
            ("+1", RateFault::NotANumber),
            ("null", RateFault::NotANumber),
            ("-0.1", RateFault::Negative),
            ("-1e400", RateFault::Negative),
            ("1000000.000000000001", RateFault::TooLarge),
            ("1e400", RateFault::TooLarge),
            ("0.0000000000001", RateFault::TooFine),
            ("1e-400", RateFault::TooFine),
            ("1.0000000000001", RateFault::TooFine),
            (
                "340282366920938463463374607431768211456.5",
                RateFault::TooLarge,
            ),
        ] {
            assert_eq!(Rate::read(text, Per::Million), Err(fault), "{text}");
        }
        for (text, units) in [
            ("1.0000000000000002e-06", Ok(1_000_000_000_000)),
            ("0.0000000000000000015", Ok(2)),
            ("0.0000000000000000014", Ok(1)),
            ("1e-400", Ok(0)),
            ("0.000003", Ok(3_000_000_000_000)),
            ("1.00000000000000000001", Ok(1_000_000_000_000_000_000)),
            ("1.1000000000000000000000001", Err(RateFault::TooLarge)),
            ("-0.00000000000000000001", Err(RateFault::Negative)),
            ("x", Err(RateFault::NotANumber)),
        ] {
            let read = Rate::read_rounded(text, Per::One).map(Rate::units);
            assert_eq!(read, units, "{text}");
        }
        assert_eq!(Rate::from_units(-1), None);
        assert_eq!(Rate::from_units(Rate::MAX.units() + 1), None);
    }

    proptest! {
        #[test]
        fn a_rate_reads_back_as_it_is_written(units in 0i128..=1_000_000_000_000_000_000) {
            let rate = Rate::from_units(units).unwrap();
            for per in [Per::One, Per::Thousand, Per::Million] {
                prop_assert_eq!(Rate::read(&rate.per(per).to_string(), per), Ok(rate));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+.0-9eE]{0,60}") {
            let _ = Rate::read(&text, Per::Million);
        }
    }
}
