//! A price in the API's JSON: numbers are parsed digit by digit, never through a float.

use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::rate::{Per, Rate, RateFault};
use super::{PriceKey, PriceRow, Rates};
use crate::limits::{EARLIEST_TIMESTAMP_MS, NAME_BYTES};
use crate::timestamp::{UnixMs, parse_text};

/// The last start of validity, 2199-12-31T23:59:59.999Z: well inside of the range of the table's column.
const LATEST_MS: UnixMs = 7_258_118_399_999;

/// Prices in USD, all per thousand tokens or all per million.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenPrice {
    /// A thousand tokens of the prompt.
    pub input_per_1k: Option<Box<RawValue>>,
    /// A thousand tokens of the answer.
    pub output_per_1k: Option<Box<RawValue>>,
    /// A thousand tokens of the prompt that came from a cache; the price of the prompt without it.
    pub cached_input_per_1k: Option<Box<RawValue>>,
    /// A thousand tokens where only their total is known; the price of the prompt without it, as an estimate.
    pub total_per_1k: Option<Box<RawValue>>,
    /// A million tokens of the prompt.
    pub input_per_1m: Option<Box<RawValue>>,
    /// A million tokens of the answer.
    pub output_per_1m: Option<Box<RawValue>>,
    /// A million tokens of the prompt that came from a cache; the price of the prompt without it.
    pub cached_input_per_1m: Option<Box<RawValue>>,
    /// A million tokens where only their total is known; the price of the prompt without it, as an estimate.
    pub total_per_1m: Option<Box<RawValue>>,
    /// From when the price is in force: ISO 8601, or a date, whose first moment in UTC is meant. Since ever without it.
    pub effective_from: Option<String>,
    /// Whether it is for all models whose names begin so.
    pub prefix: Option<bool>,
}

/// Why a price is invalid; names the field and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceFault {
    #[error("`{field}` {fault}, not {value}")]
    Rate {
        field: &'static str,
        fault: RateFault,
        /// The value, cut.
        value: String,
    },
    /// Input or output is missing.
    #[error(
        "`{0}` is required: the price of input and of output, both `_per_1k` or both `_per_1m`"
    )]
    Missing(&'static str),
    /// Mixes prices per thousand and per million.
    #[error("`{0}` and `{1}` cannot stand together: all `_per_1k` or all `_per_1m`")]
    Mixed(&'static str, &'static str),
    /// Not a time, or out of bounds.
    #[error(
        "`effective_from` has to be an ISO 8601 time or a date from 2000-01-01 to 2199-12-31, not `{0}`; leave it out \
         for a price in force since ever"
    )]
    Date(String),
    /// A name that no event can have.
    #[error("a model has a name of 1 to {NAME_BYTES} bytes")]
    Model,
}

/// Parses the start of validity: a time, or a date, which means its first moment in UTC.
pub fn moment_ms(text: &str) -> Option<UnixMs> {
    let date = || {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
    };
    parse_text(text)
        .or_else(date)
        .filter(|time_ms| (EARLIEST_TIMESTAMP_MS..=LATEST_MS).contains(time_ms))
}

type Field<'a> = (&'static str, &'a Option<Box<RawValue>>);

impl WrittenPrice {
    pub fn row(&self, model: &str) -> Result<PriceRow, PriceFault> {
        if model.is_empty() || model.len() > NAME_BYTES {
            return Err(PriceFault::Model);
        }
        let effective_from = match &self.effective_from {
            None => None,
            Some(text) => Some(moment_ms(text).ok_or_else(|| PriceFault::Date(cut(text)))?),
        };
        Ok(PriceRow {
            key: PriceKey {
                model: model.to_owned(),
                is_prefix: self.prefix.unwrap_or_default(),
                effective_from,
            },
            rates: self.rates()?,
        })
    }

    fn rates(&self) -> Result<Rates, PriceFault> {
        let thousand: [Field<'_>; 4] = [
            ("input_per_1k", &self.input_per_1k),
            ("output_per_1k", &self.output_per_1k),
            ("cached_input_per_1k", &self.cached_input_per_1k),
            ("total_per_1k", &self.total_per_1k),
        ];
        let million: [Field<'_>; 4] = [
            ("input_per_1m", &self.input_per_1m),
            ("output_per_1m", &self.output_per_1m),
            ("cached_input_per_1m", &self.cached_input_per_1m),
            ("total_per_1m", &self.total_per_1m),
        ];
        let given = |fields: &[Field<'_>]| {
            let mut given = fields.iter().filter(|(_, value)| value.is_some());
            given.next().map(|(name, _)| *name)
        };
        let (fields, per) = match (given(&thousand), given(&million)) {
            (Some(one), Some(other)) => return Err(PriceFault::Mixed(one, other)),
            (Some(_), None) => (thousand, Per::Thousand),
            (None, _) => (million, Per::Million),
        };
        let rate = |(field, value): Field<'_>| {
            let read = |number: &RawValue| {
                Rate::read(number.get(), per).map_err(|fault| PriceFault::Rate {
                    field,
                    fault,
                    value: cut(number.get()),
                })
            };
            value.as_deref().map(read).transpose()
        };
        let [input, output, cached_input, total] = fields;
        Ok(Rates {
            input: rate(input)?.ok_or(PriceFault::Missing(input.0))?,
            output: rate(output)?.ok_or(PriceFault::Missing(output.0))?,
            cached_input: rate(cached_input)?,
            total: rate(total)?,
            special: None,
        })
    }
}

/// The part of a value that a message quotes.
fn cut(text: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<PriceRow, String> {
        let written: WrittenPrice =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        written.row("m").map_err(|fault| fault.to_string())
    }

    #[test]
    fn per_thousand_and_per_million_mean_the_same_row() {
        let thousand = read(
            r#"{"input_per_1k": 0.0025, "output_per_1k": 0.01, "cached_input_per_1k": 1.25e-3, "prefix": true}"#,
        );
        let million = read(
            r#"{"input_per_1m": 2.5, "output_per_1m": 10.0, "cached_input_per_1m": 1.25, "prefix": true, "total_per_1m": null}"#,
        );
        assert_eq!(thousand, million);
        let row = thousand.unwrap();
        assert!(row.key.is_prefix && row.key.effective_from.is_none());
        assert_eq!(row.rates.output.units(), 10_000_000_000_000);
    }

    #[test]
    fn digits_that_a_float_would_lose_are_kept() {
        let row =
            read(r#"{"input_per_1k": 999.999999999999999, "output_per_1k": 0.000000000000001}"#)
                .unwrap();
        assert_eq!(row.rates.input.units(), 999_999_999_999_999_999);
        assert_eq!(row.rates.output.units(), 1);
    }

    #[test]
    fn a_date_means_its_first_moment() {
        let from = |text: &str| {
            let json =
                format!(r#"{{"input_per_1m": 1, "output_per_1m": 1, "effective_from": "{text}"}}"#);
            read(&json).map(|row| row.key.effective_from)
        };
        let expected = Ok(Some(1_795_132_800_000));
        assert_eq!(from("2026-11-20"), expected);
        assert_eq!(from("2026-11-20T00:00:00Z"), expected);
        assert_eq!(from("2026-11-20T02:00:00+02:00"), expected);
        for refused in ["", "soon", "1999-12-31", "2200-01-01", "2026-13-01"] {
            assert!(
                from(refused).unwrap_err().contains("effective_from"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (json, named) in [
            ("{}", "`input_per_1m` is required"),
            (r#"{"input_per_1k": 1}"#, "`output_per_1k` is required"),
            (
                r#"{"input_per_1k": 1, "output_per_1m": 1}"#,
                "`input_per_1k` and `output_per_1m`",
            ),
            (
                r#"{"input_per_1k": -1, "output_per_1k": 1}"#,
                "`input_per_1k` must not be negative",
            ),
            (
                r#"{"input_per_1k": "1", "output_per_1k": 1}"#,
                "`input_per_1k` has to be a number",
            ),
            (
                r#"{"input_per_1k": 1e999, "output_per_1k": 1}"#,
                "at most 1 USD per token",
            ),
            (
                r#"{"input_per_1m": 1, "output_per_1m": 1e-13}"#,
                "`output_per_1m` has more digits",
            ),
            (
                r#"{"input_per_1m": 1, "output_per_1m": 1, "colour": 1}"#,
                "colour",
            ),
            (r#"{"input_per_1m": NaN, "output_per_1m": 1}"#, "expected"),
        ] {
            let message = read(json).unwrap_err();
            assert!(message.contains(named), "{json}: {message}");
        }
        assert_eq!(WrittenPrice::default().row(""), Err(PriceFault::Model));
        assert_eq!(
            WrittenPrice::default().row(&"x".repeat(NAME_BYTES + 1)),
            Err(PriceFault::Model)
        );
    }
}
