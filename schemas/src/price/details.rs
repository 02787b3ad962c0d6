//! The text of special rates in the table of prices, and how it is read.
//!
//! A JSON object: rates in USD per token under the names of their kinds, `request`, `tiers` and `service_tiers`, each
//! number with all its digits. Empty for none. A field that this version does not know is ignored, so that a former
//! version can read the table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::factor::Factor;
use super::kinds::{KindRates, RateKind};
use super::rate::{Per, Rate};
use super::{RateTier, ServiceTier, SpecialRates};

type Numbers = BTreeMap<String, Box<RawValue>>;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Text {
    #[serde(skip_serializing_if = "Numbers::is_empty")]
    kinds: Numbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<Tier>,
    #[serde(skip_serializing_if = "Numbers::is_empty")]
    service_tiers: Numbers,
}

#[derive(Serialize, Deserialize)]
struct Tier {
    above_input_tokens: u64,
    kinds: Numbers,
}

/// The text is not that of special rates.
#[derive(Debug, thiserror::Error)]
#[error("the details of a price are damaged: {0}")]
pub struct DetailsFault(String);

impl SpecialRates {
    pub fn to_text(&self) -> String {
        let text = Text {
            kinds: numbers(&self.kinds),
            request: self.request.and_then(number),
            tiers: self
                .tiers
                .iter()
                .map(|tier| Tier {
                    above_input_tokens: tier.above_input_tokens,
                    kinds: numbers(&tier.rates),
                })
                .collect(),
            service_tiers: self
                .service_tiers
                .iter()
                .filter_map(|tier| Some((tier.name.to_string(), raw(tier.factor.to_string())?)))
                .collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// `None` for an empty text.
    pub fn from_text(text: &str) -> Result<Option<Box<Self>>, DetailsFault> {
        if text.is_empty() {
            return Ok(None);
        }
        let text: Text =
            serde_json::from_str(text).map_err(|error| DetailsFault(error.to_string()))?;
        let tier = |tier: Tier| {
            Ok(RateTier {
                above_input_tokens: tier.above_input_tokens,
                rates: kinds(&tier.kinds)?,
            })
        };
        let service_tier = |(name, factor): (String, Box<RawValue>)| {
            let factor =
                Factor::read(factor.get()).map_err(|fault| DetailsFault(fault.to_string()))?;
            Ok(ServiceTier {
                name: name.into(),
                factor,
            })
        };
        let special = Self {
            kinds: kinds(&text.kinds)?,
            request: text.request.as_deref().map(rate).transpose()?,
            tiers: text.tiers.into_iter().map(tier).collect::<Result<_, _>>()?,
            service_tiers: text
                .service_tiers
                .into_iter()
                .map(service_tier)
                .collect::<Result<_, _>>()?,
        };
        Ok(special.boxed())
    }
}

fn numbers(rates: &KindRates) -> Numbers {
    let rates = rates.iter();
    rates
        .filter_map(|(kind, rate)| Some((kind.name().to_owned(), number(rate)?)))
        .collect()
}

fn number(rate: Rate) -> Option<Box<RawValue>> {
    raw(rate.per(Per::One).to_string())
}

/// `None` never: every number is valid JSON.
fn raw(number: String) -> Option<Box<RawValue>> {
    RawValue::from_string(number).ok()
}

fn kinds(numbers: &Numbers) -> Result<KindRates, DetailsFault> {
    let known = numbers
        .iter()
        .filter_map(|(name, number)| Some((RateKind::named(name)?, number)));
    known
        .map(|(kind, number)| Ok((kind, rate(number)?)))
        .collect()
}

fn rate(number: &RawValue) -> Result<Rate, DetailsFault> {
    Rate::read(number.get(), Per::One).map_err(|fault| DetailsFault(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn special() -> SpecialRates {
        let rate = |text| Rate::read(text, Per::Million).unwrap();
        SpecialRates {
            kinds: [
                (RateKind::CacheWrite, rate("3.75")),
                (RateKind::Reasoning, Rate::from_units(1).unwrap()),
            ]
            .into_iter()
            .collect(),
            request: Rate::read("0.01", Per::One).ok(),
            tiers: vec![RateTier {
                above_input_tokens: 200_000,
                rates: [(RateKind::Input, rate("6"))].into_iter().collect(),
            }],
            service_tiers: vec![ServiceTier {
                name: "it's \"x\"".into(),
                factor: Factor::read("0.5").unwrap(),
            }],
        }
    }

    #[test]
    fn special_rates_have_the_text_that_tables_hold_r1() {
        let text = r#"{"kinds":{"cache_write":0.00000375,"reasoning":0.000000000000000001},"request":0.01,"tiers":[{"above_input_tokens":200000,"kinds":{"input":0.000006}}],"service_tiers":{"it's \"x\"":0.5}}"#;
        assert_eq!(special().to_text(), text);
        assert_eq!(*SpecialRates::from_text(text).unwrap().unwrap(), special());
    }

    #[test]
    fn a_later_versions_text_is_read_as_far_as_it_is_known() {
        let text = r#"{"kinds":{"input_video":1,"cache_write":0.5},"night":2}"#;
        let read = SpecialRates::from_text(text).unwrap().unwrap();
        assert_eq!(read.to_text(), r#"{"kinds":{"cache_write":0.5}}"#);
        for nothing in ["", "{}", r#"{"night":2}"#] {
            assert_eq!(SpecialRates::from_text(nothing).unwrap(), None);
        }
    }

    #[test]
    fn a_damaged_text_is_no_price() {
        for text in [
            "x",
            "7",
            r#"{"kinds":{"cache_write":-1}}"#,
            r#"{"request":"1"}"#,
            r#"{"tiers":[{}]}"#,
            r#"{"service_tiers":{"batch":-1}}"#,
        ] {
            assert!(SpecialRates::from_text(text).is_err(), "{text}");
        }
    }
}
