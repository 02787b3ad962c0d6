//! A price in the API's JSON: numbers are parsed digit by digit, never through a float.

use std::collections::HashSet;

use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::factor::{Factor, FactorFault};
use super::fields::Fields;
use super::kinds::{KindRates, RateKind};
use super::rate::{Per, Rate, RateFault};
use super::{PriceKey, PriceRow, RateTier, Rates, ServiceTier, SpecialRates};
use crate::limits::{EARLIEST_TIMESTAMP_MS, NAME_BYTES};
use crate::timestamp::{UnixMs, parse_text};

/// The last start of validity, 2199-12-31T23:59:59.999Z: well inside of the range of the table's column.
const LATEST_MS: UnixMs = 7_258_118_399_999;
/// Tiers of a row by length of the prompt, and by service: vendors have two of each (X1).
pub const TIERS_MAX: usize = 16;
/// The longest name of a service tier.
pub const SERVICE_TIER_BYTES: usize = 64;
/// More tokens than any prompt has: the bound on counts, 2^53.
pub const ABOVE_TOKENS_MAX: u64 = 1 << 53;

/// The fields of a price beside its rates.
const OTHERS: [&str; 5] = [
    "request",
    "tiers",
    "service_tiers",
    "effective_from",
    "prefix",
];

/// Prices in USD, all per thousand tokens or all per million: `input_per_1k`, `cache_write_per_1m`, ... for each
/// [`RateKind`]; `request` for one request; `tiers`, a list of objects with `above_input_tokens` and rates;
/// `service_tiers`, an object of factors; `effective_from`; and `prefix`. `null` is absent.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Fields")]
pub struct WrittenPrice {
    rates: Vec<WrittenRate>,
    request: Option<Box<RawValue>>,
    tiers: Vec<WrittenTier>,
    service_tiers: Fields,
    effective_from: Option<String>,
    prefix: bool,
}

#[derive(Debug)]
struct WrittenRate {
    kind: RateKind,
    per: Per,
    field: String,
    value: Box<RawValue>,
}

#[derive(Debug)]
struct WrittenTier {
    above_input_tokens: u64,
    rates: Vec<WrittenRate>,
}

/// Why a price is invalid; names the field and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceFault {
    #[error("`{field}` {fault}, not {value}")]
    Rate {
        field: String,
        fault: RateFault,
        /// The value, cut.
        value: String,
    },
    /// Input or output is missing.
    #[error(
        "`{0}` is required: the price of input and of output, both `_per_1k` or both `_per_1m`"
    )]
    Missing(String),
    /// Mixes prices per thousand and per million.
    #[error("`{0}` and `{1}` cannot stand together: all `_per_1k` or all `_per_1m`")]
    Mixed(String, String),
    /// Not a time, or out of bounds.
    #[error(
        "`effective_from` has to be an ISO 8601 time or a date from 2000-01-01 to 2199-12-31, not `{0}`; leave it out \
         for a price in force since ever"
    )]
    Date(String),
    /// A name that no event can have.
    #[error("a model has a name of 1 to {NAME_BYTES} bytes")]
    Model,
    /// Too many tiers.
    #[error("`{0}` has at most {TIERS_MAX} entries")]
    Many(&'static str),
    #[error(
        "`tiers[{0}].above_input_tokens` has to be a whole number from 1 to {ABOVE_TOKENS_MAX} that no other tier has"
    )]
    Above(usize),
    #[error("`tiers[{0}]` has no rate: it needs at least one, such as `input_per_1m`")]
    EmptyTier(usize),
    #[error(
        "`service_tiers` has names of 1 to {SERVICE_TIER_BYTES} bytes that differ in more than case, not `{0}`"
    )]
    TierName(String),
    #[error("`service_tiers.{name}` {fault}, not {value}")]
    Factor {
        name: String,
        fault: FactorFault,
        /// The value, cut.
        value: String,
    },
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

/// The kind and the unit of a field such as `cache_write_per_1m`.
pub fn rate_field(name: &str) -> Option<(RateKind, Per)> {
    let units = [("_per_1k", Per::Thousand), ("_per_1m", Per::Million)];
    let mut rates = units.into_iter().filter_map(|(unit, per)| {
        let kind = RateKind::named(name.strip_suffix(unit)?)?;
        Some((kind, per))
    });
    rates.next()
}

/// Every field of a price, in order.
pub fn fields() -> impl Iterator<Item = String> {
    let units = ["_per_1k", "_per_1m"].into_iter();
    let rates = units.flat_map(|unit| RateKind::ALL.map(|kind| format!("{}{unit}", kind.name())));
    rates.chain(OTHERS.map(str::to_owned))
}

impl TryFrom<Fields> for WrittenPrice {
    type Error = String;

    fn try_from(mut fields: Fields) -> Result<Self, String> {
        let price = Self {
            request: fields.take("request"),
            tiers: match fields.take_as::<Vec<Fields>>("tiers")? {
                Some(tiers) => tiers
                    .into_iter()
                    .enumerate()
                    .map(|(at, fields)| {
                        WrittenTier::of(fields).map_err(|fault| format!("`tiers[{at}]`: {fault}"))
                    })
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
            service_tiers: fields.take_as("service_tiers")?.unwrap_or_default(),
            effective_from: fields.take_as("effective_from")?,
            prefix: fields.take_as("prefix")?.unwrap_or_default(),
            rates: rates_of(fields, &OTHERS)?,
        };
        Ok(price)
    }
}

impl WrittenTier {
    fn of(mut fields: Fields) -> Result<Self, String> {
        const ABOVE: &str = "above_input_tokens";
        let above = fields.take_as::<u64>(ABOVE)?;
        let tier = Self {
            above_input_tokens: above.ok_or_else(|| format!("`{ABOVE}` is required"))?,
            rates: rates_of(fields, &[ABOVE])?,
        };
        // Where only the total is known, the length of the prompt is not.
        let mut totals = tier
            .rates
            .iter()
            .filter(|rate| rate.kind == RateKind::Total);
        match totals.next() {
            Some(total) => Err(format!("`{}` has no tiers", total.field)),
            None => Ok(tier),
        }
    }
}

/// All fields that are left have to be rates.
fn rates_of(fields: Fields, others: &[&str]) -> Result<Vec<WrittenRate>, String> {
    let mut rates = Vec::new();
    for (field, value) in fields {
        let Some((kind, per)) = rate_field(&field) else {
            let kinds = RateKind::ALL.map(RateKind::name).join("`, `");
            return Err(format!(
                "unknown field `{}`, expected `{}` or, with `_per_1k` or `_per_1m` behind it, `{kinds}`",
                cut(&field),
                others.join("`, `"),
            ));
        };
        rates.push(WrittenRate {
            kind,
            per,
            field,
            value,
        });
    }
    Ok(rates)
}

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
                is_prefix: self.prefix,
                effective_from,
            },
            rates: self.rates()?,
        })
    }

    fn rates(&self) -> Result<Rates, PriceFault> {
        let unit = self.unit()?;
        let kinds = read_rates(&self.rates, "")?;
        let special = SpecialRates {
            kinds: KindRates::default(),
            request: match &self.request {
                Some(value) => Some(read_rate("request", value, Per::One)?),
                None => None,
            },
            tiers: self.tiers()?,
            service_tiers: self.service_tiers()?,
        };
        for kind in [RateKind::Input, RateKind::Output] {
            if kinds.get(kind).is_none() {
                return Err(PriceFault::Missing(format!("{}{unit}", kind.name())));
            }
        }
        Ok(Rates::of(&kinds, special).unwrap_or_default())
    }

    /// The unit of all rates.
    fn unit(&self) -> Result<&'static str, PriceFault> {
        let in_tiers = self.tiers.iter().flat_map(|tier| &tier.rates);
        let all: Vec<&WrittenRate> = self.rates.iter().chain(in_tiers).collect();
        let first = |per: Per| {
            let mut rates = all.iter().filter(|rate| rate.per == per);
            rates.next().map(|rate| rate.field.clone())
        };
        match (first(Per::Thousand), first(Per::Million)) {
            (Some(one), Some(other)) => Err(PriceFault::Mixed(one, other)),
            (Some(_), None) => Ok("_per_1k"),
            (None, _) => Ok("_per_1m"),
        }
    }

    fn tiers(&self) -> Result<Vec<RateTier>, PriceFault> {
        if self.tiers.len() > TIERS_MAX {
            return Err(PriceFault::Many("tiers"));
        }
        let mut seen = HashSet::new();
        let tiers = self.tiers.iter().enumerate().map(|(at, tier)| {
            let above_input_tokens = tier.above_input_tokens;
            let is_valid = (1..=ABOVE_TOKENS_MAX).contains(&above_input_tokens);
            if !is_valid || !seen.insert(above_input_tokens) {
                return Err(PriceFault::Above(at));
            }
            let rates = read_rates(&tier.rates, &format!("tiers[{at}]."))?;
            if rates.is_empty() {
                return Err(PriceFault::EmptyTier(at));
            }
            Ok(RateTier {
                above_input_tokens,
                rates,
            })
        });
        tiers.collect()
    }

    fn service_tiers(&self) -> Result<Vec<ServiceTier>, PriceFault> {
        if self.service_tiers.len() > TIERS_MAX {
            return Err(PriceFault::Many("service_tiers"));
        }
        let mut seen = HashSet::new();
        let tiers = self.service_tiers.iter().map(|(name, value)| {
            let is_valid = (1..=SERVICE_TIER_BYTES).contains(&name.len());
            if !is_valid || !seen.insert(name.to_ascii_lowercase()) {
                return Err(PriceFault::TierName(cut(name)));
            }
            let factor = Factor::read(value.get()).map_err(|fault| PriceFault::Factor {
                name: name.to_owned(),
                fault,
                value: cut(value.get()),
            })?;
            Ok(ServiceTier {
                name: name.into(),
                factor,
            })
        });
        tiers.collect()
    }
}

fn read_rates(rates: &[WrittenRate], place: &str) -> Result<KindRates, PriceFault> {
    let rate = |written: &WrittenRate| {
        let field = format!("{place}{}", written.field);
        Ok((
            written.kind,
            read_rate(&field, &written.value, written.per)?,
        ))
    };
    rates.iter().map(rate).collect()
}

fn read_rate(field: &str, value: &RawValue, per: Per) -> Result<Rate, PriceFault> {
    Rate::read(value.get(), per).map_err(|fault| PriceFault::Rate {
        field: field.to_owned(),
        fault,
        value: cut(value.get()),
    })
}

/// The part of a value that a message quotes.
fn cut(text: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests;
