//! The shipped prices: `schemas/prices/starting.json`, compiled in.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::factor::{Factor, FactorFault};
use super::fields::Fields;
use super::kinds::{KindRates, RateKind};
use super::rate::{Per, Rate, RateFault};
use super::written::moment_ms;
use super::{PriceKey, PriceRow, RateTier, Rates, ServiceTier, SpecialRates};

const STARTING: &str = include_str!("../../prices/starting.json");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// The date of their collection, `YYYY-MM-DD`. The file has each vendor's own date.
    pub collected_on: String,
    pub rows: Vec<PriceRow>,
}

/// Why a file of prices is invalid. A test makes sure that the compiled-in one is valid.
#[derive(Debug, thiserror::Error)]
pub enum ShippedFault {
    /// Not the JSON of such a file.
    #[error("the shipped prices are damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// An invalid price.
    #[error("the shipped price of `{model}` {fault}")]
    Rate { model: String, fault: RateFault },
    #[error("a service tier of the shipped price of `{model}` {fault}")]
    Factor { model: String, fault: FactorFault },
    /// An invalid date.
    #[error("the shipped price of `{0}` has no good date")]
    Date(String),
    /// Two rows with the same key.
    #[error("the shipped price of `{0}` stands there twice")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    #[serde(rename = "about")]
    _about: &'a RawValue,
    collected_on: String,
    #[serde(borrow)]
    makers: Vec<Maker<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker<'a> {
    #[serde(rename = "maker", borrow)]
    _maker: &'a RawValue,
    #[serde(rename = "source")]
    _source: &'a RawValue,
    #[serde(rename = "as_of")]
    _as_of: &'a RawValue,
    #[serde(rename = "note")]
    _note: Option<&'a RawValue>,
    /// What gateways write before the names. Each model has a row with it too, because another host has other prices for
    /// the same name.
    #[serde(default)]
    hosts: Vec<String>,
    /// Of the models that have none of their own.
    #[serde(default)]
    service_tiers: Fields,
    per_1m: Vec<Entry>,
}

/// The prices of a model: a field for each [`RateKind`], and these.
#[derive(Deserialize)]
#[serde(try_from = "Fields")]
struct Entry {
    model: String,
    /// Other names of the model.
    also: Vec<String>,
    /// Adds a row for all names with this prefix: names with a date at the end.
    prefix: Option<String>,
    from: Option<String>,
    /// USD per request.
    request: Option<Box<RawValue>>,
    /// With rates per million like the entry.
    tiers: Vec<Tier>,
    service_tiers: Option<Fields>,
    rates: Vec<(RateKind, Box<RawValue>)>,
}

struct Tier {
    above_input_tokens: u64,
    rates: Vec<(RateKind, Box<RawValue>)>,
}

impl TryFrom<Fields> for Entry {
    type Error = String;

    fn try_from(mut fields: Fields) -> Result<Self, String> {
        let tier = |mut fields: Fields| {
            let above = fields.take_as("above_input_tokens")?;
            Ok::<_, String>(Tier {
                above_input_tokens: above.ok_or("a tier has `above_input_tokens`")?,
                rates: rates_of(fields)?,
            })
        };
        let tiers: Vec<Fields> = fields.take_as("tiers")?.unwrap_or_default();
        let entry = Self {
            model: fields.take_as("model")?.ok_or("an entry has a `model`")?,
            also: fields.take_as("also")?.unwrap_or_default(),
            prefix: fields.take_as("prefix")?,
            from: fields.take_as("from")?,
            request: fields.take("request"),
            tiers: tiers.into_iter().map(tier).collect::<Result<_, _>>()?,
            service_tiers: fields.take_as("service_tiers")?,
            rates: rates_of(fields)?,
        };
        let has = |kind| entry.rates.iter().any(|(other, _)| *other == kind);
        match has(RateKind::Input) && has(RateKind::Output) {
            true => Ok(entry),
            false => Err(format!("`{}` has no `input` or `output`", entry.model)),
        }
    }
}

fn rates_of(fields: Fields) -> Result<Vec<(RateKind, Box<RawValue>)>, String> {
    let rate = |(name, value): (String, Box<RawValue>)| {
        let kind = RateKind::named(&name).ok_or_else(|| format!("unknown field `{name}`"))?;
        Ok((kind, value))
    };
    fields.into_iter().map(rate).collect()
}

pub fn shipped() -> Result<Shipped, ShippedFault> {
    read(STARTING)
}

fn read(text: &str) -> Result<Shipped, ShippedFault> {
    let file: File<'_> = serde_json::from_str(text)?;
    let mut rows = Vec::new();
    for maker in &file.makers {
        for entry in &maker.per_1m {
            let rates = entry.rates(&maker.service_tiers)?;
            let effective_from = entry.effective_from()?;
            for (model, is_prefix) in entry.names(&maker.hosts) {
                let key = PriceKey {
                    model,
                    is_prefix,
                    effective_from,
                };
                let rates = rates.clone();
                rows.push(PriceRow { key, rates });
            }
        }
    }
    let mut seen = HashSet::new();
    if let Some(row) = rows.iter().find(|row| !seen.insert(&row.key)) {
        return Err(ShippedFault::Twice(row.key.model.clone()));
    }
    Ok(Shipped {
        collected_on: file.collected_on,
        rows,
    })
}

impl Entry {
    /// The names that have rows, and whether they are prefixes.
    fn names(&self, hosts: &[String]) -> Vec<(String, bool)> {
        let exact = [&self.model].into_iter().chain(&self.also);
        let plain = exact.map(|name| (name, false));
        let plain: Vec<_> = plain
            .chain(self.prefix.iter().map(|name| (name, true)))
            .collect();
        let hosted = hosts.iter().flat_map(|host| {
            let hosted =
                move |(name, is_prefix): &(&String, bool)| (format!("{host}/{name}"), *is_prefix);
            plain.iter().map(hosted)
        });
        let bare = plain
            .iter()
            .map(|(name, is_prefix)| ((*name).clone(), *is_prefix));
        bare.chain(hosted).collect()
    }

    fn rates(&self, service_tiers: &Fields) -> Result<Rates, ShippedFault> {
        let rate = |number: &RawValue, per| {
            Rate::read(number.get(), per).map_err(|fault| ShippedFault::Rate {
                model: self.model.clone(),
                fault,
            })
        };
        let kinds = |rates: &[(RateKind, Box<RawValue>)]| -> Result<KindRates, ShippedFault> {
            let rates = rates.iter();
            rates
                .map(|(kind, number)| Ok((*kind, rate(number, Per::Million)?)))
                .collect()
        };
        let tier = |tier: &Tier| {
            Ok(RateTier {
                above_input_tokens: tier.above_input_tokens,
                rates: kinds(&tier.rates)?,
            })
        };
        let service_tier = |(name, factor): (&str, &RawValue)| {
            let factor = Factor::read(factor.get()).map_err(|fault| ShippedFault::Factor {
                model: self.model.clone(),
                fault,
            })?;
            Ok(ServiceTier {
                name: name.into(),
                factor,
            })
        };
        let service_tiers = self.service_tiers.as_ref().unwrap_or(service_tiers);
        let special = SpecialRates {
            kinds: KindRates::default(),
            request: match &self.request {
                Some(number) => Some(rate(number, Per::One)?),
                None => None,
            },
            tiers: self
                .tiers
                .iter()
                .map(tier)
                .collect::<Result<_, ShippedFault>>()?,
            service_tiers: service_tiers
                .iter()
                .map(service_tier)
                .collect::<Result<_, ShippedFault>>()?,
        };
        // An entry has rates for input and output.
        Ok(Rates::of(&kinds(&self.rates)?, special).unwrap_or_default())
    }

    fn effective_from(&self) -> Result<Option<i64>, ShippedFault> {
        let moment =
            |text: &String| moment_ms(text).ok_or_else(|| ShippedFault::Date(self.model.clone()));
        self.from.as_ref().map(moment).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{PriceTable, Usage};
    use super::*;
    use crate::limits::NAME_BYTES;

    #[test]
    fn the_shipped_prices_are_many_and_plausible() {
        let shipped = shipped().unwrap();
        let exact = shipped.rows.iter().filter(|row| !row.key.is_prefix);
        let models: BTreeSet<&str> = exact.map(|row| row.key.model.as_str()).collect();
        assert!(models.len() >= 60, "{} models", models.len());
        for PriceRow { key, rates } in &shipped.rows {
            let name = &key.model;
            assert!(!name.is_empty() && name.len() <= NAME_BYTES);
            // No vendor charges more than a thousand dollars for a million tokens, and none gives them away.
            let dearest = Rate::read("1000", Per::Million).unwrap();
            assert!(
                rates.input > Rate::default() && rates.input <= dearest,
                "{name}"
            );
            assert!(rates.output <= dearest, "{name}");
            // Embeddings have no output; all other models charge at least as much for it as for input.
            let is_embedding = rates.output == Rate::default();
            assert!(is_embedding || rates.output >= rates.input, "{name}");
            assert_eq!(is_embedding, rates.total == Some(rates.input), "{name}");
            assert!(
                rates.cached_input.is_none_or(|cached| cached < rates.input),
                "{name}"
            );
            let written = rates.get(RateKind::CacheWrite);
            assert!(
                written.is_none_or(|written| written >= rates.input),
                "{name}"
            );
            let for_an_hour = rates.get(RateKind::CacheWrite1h);
            assert!(for_an_hour.is_none() || for_an_hour > written, "{name}");
            for tier in rates.special.iter().flat_map(|special| &special.tiers) {
                for (kind, rate) in tier.rates.iter() {
                    assert!(Some(rate) >= rates.get(kind), "{name}: {}", kind.name());
                }
                let base = [
                    RateKind::CachedInput,
                    RateKind::CacheWrite,
                    RateKind::InputImage,
                ];
                for kind in base {
                    let in_both = tier.rates.get(kind).is_some() == rates.get(kind).is_some();
                    assert!(in_both, "{name}: {}", kind.name());
                }
            }
            // A prefix that ends inside of a word or a version would match names of more expensive siblings.
            assert!(!key.is_prefix || name.ends_with(['-', '0']), "{name}");
        }
    }

    #[test]
    fn a_dated_version_costs_what_its_model_costs_and_a_sibling_what_the_sibling_does() {
        let table = PriceTable::new(shipped().unwrap().rows);
        let late_ms = 1_795_132_900_000;
        let input = |model: &str| {
            let rates = table.rates(model, late_ms);
            rates.map(|rates| rates.input.per(Per::Million).to_string())
        };
        for (model, expected) in [
            ("gpt-4o", Some("2.5")),
            ("gpt-4o-2024-08-06", Some("2.5")),
            ("gpt-4o-2024-05-13", Some("5")),
            ("gpt-4o-mini-2024-07-18", Some("0.15")),
            ("gpt-4o-audio-preview", None),
            ("gpt-5-2025-08-07", Some("1.25")),
            ("gpt-5-mini-2025-08-07", Some("0.25")),
            ("gpt-5.6-terra", Some("2")),
            ("o1-mini-2024-09-12", Some("1.1")),
            ("claude-sonnet-4-20250514", Some("3")),
            ("claude-opus-4-5-20251101", Some("5")),
            ("claude-opus-4-1-20250805", Some("15")),
            ("claude-3-5-sonnet-20241022", Some("3")),
            ("gemini-2.0-flash-lite-001", Some("0.075")),
            ("gemini-2.0-flash-001", Some("0.1")),
            ("mistral-large-5", None),
        ] {
            assert_eq!(input(model).as_deref(), expected, "{model}");
        }
    }

    #[test]
    fn calls_cost_what_the_vendors_charge() {
        let table = PriceTable::new(shipped().unwrap().rows);
        let call = |model, prompt, completion| Usage {
            model,
            prompt: Some(prompt),
            completion: Some(completion),
            at_ms: 1_795_564_800_000,
            ..Usage::default()
        };
        let cached = |usage, cached| Usage {
            cached: Some(cached),
            ..usage
        };
        let sonnet = cached(call("claude-sonnet-4-5", 20 + 900 + 8000, 11), 8000);
        for (usage, expected) in [
            (cached(call("gpt-4o-mini", 37, 11), 8), "0.00001155"),
            (cached(call("gpt-5", 37, 75), 8), "0.00078725"),
            (cached(call("gemini-2.5-flash", 37, 75), 8), "0.00019644"),
            (call("text-embedding-3-small", 9, 0), "0.00000018"),
            (
                Usage {
                    cache_write: Some(900),
                    ..sonnet
                },
                "0.006",
            ),
            // 900 * 6 instead of 900 * 3.75.
            (
                Usage {
                    cache_write_1h: Some(900),
                    ..sonnet
                },
                "0.008025",
            ),
            // 250,000 * 2.5 + 1000 * 15.
            (call("gemini-2.5-pro", 250_000, 1000), "0.64"),
            // 900 audio tokens at 1, 100 of text at 0.3.
            (
                Usage {
                    input_audio: Some(900),
                    ..call("gemini-2.5-flash", 1000, 0)
                },
                "0.00093",
            ),
            (
                Usage {
                    service_tier: "flex",
                    ..call("gpt-5", 1000, 100)
                },
                "0.001125",
            ),
            (
                Usage {
                    service_tier: "priority",
                    ..call("gpt-4.1", 1000, 100)
                },
                "0.0049",
            ),
            (
                Usage {
                    service_tier: "batch",
                    ..call("claude-haiku-4-5", 1000, 100)
                },
                "0.00075",
            ),
            (
                call("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 1000, 0),
                "0.0033",
            ),
            (
                Usage {
                    requests: Some(2),
                    ..call("sonar-pro", 1000, 0)
                },
                "0.015",
            ),
        ] {
            let charge = table.charge(usage).unwrap().charge;
            assert_eq!(charge.amount.normalize().to_string(), expected, "{usage:?}");
            assert!(
                charge.unpriced.is_empty() && !charge.is_estimated,
                "{usage:?}"
            );
        }
    }

    #[test]
    fn an_entry_has_its_makers_hosts_and_service_tiers_and_other_names() {
        let file = r#"{"about": "", "collected_on": "2026-11-21", "makers": [{
            "maker": "", "source": "", "as_of": "", "hosts": ["h"], "service_tiers": {"batch": 0.5}, "per_1m": [
                {"model": "m", "also": ["n"], "prefix": "m-20", "input": 1, "output": 2},
                {"model": "o", "input": 1, "output": 2, "cache_write": 3, "request": 0.5, "service_tiers": {},
                 "tiers": [{"above_input_tokens": 9, "input": 4}]}]}]}"#;
        let rows = read(file).unwrap().rows;
        let shown = rows.iter().map(|row| {
            let special = row.rates.special.as_deref().map(SpecialRates::to_text);
            let mark = if row.key.is_prefix { "..." } else { "" };
            format!("{}{mark} {}", row.key.model, special.unwrap_or_default())
        });
        let batch = r#"{"service_tiers":{"batch":0.5}}"#;
        let own = r#"{"kinds":{"cache_write":0.000003},"request":0.5,"tiers":[{"above_input_tokens":9,"kinds":{"input":0.000004}}]}"#;
        let expected = ["m", "n", "m-20...", "h/m", "h/n", "h/m-20..."]
            .map(|name| format!("{name} {batch}"))
            .into_iter()
            .chain(["o", "h/o"].map(|name| format!("{name} {own}")));
        assert!(shown.eq(expected));
    }

    #[test]
    fn a_damaged_file_is_told_apart() {
        let file = |rows: &str| {
            let maker = r#"{"maker": "", "source": "", "as_of": "", "per_1m": ["#;
            read(&format!(
                r#"{{"about": "", "collected_on": "2026-11-21", "makers": [{maker}{rows}]}}]}}"#
            ))
        };
        let row = r#"{"model": "m", "input": 1, "output": 2}"#;
        assert_eq!(file(row).unwrap().rows.len(), 1);
        assert!(matches!(file("{}"), Err(ShippedFault::Damaged(_))));
        assert!(matches!(
            file(&format!("{row}, {row}")),
            Err(ShippedFault::Twice(_))
        ));
        let negative = row.replace('1', "-1");
        assert!(matches!(file(&negative), Err(ShippedFault::Rate { .. })));
        let undated = row.replace("\"model\"", "\"from\": \"soon\", \"model\"");
        assert!(matches!(file(&undated), Err(ShippedFault::Date(_))));
        for (field, damaged) in [
            (r#""colour": 1"#, true),
            (r#""tiers": [{"input": 1}]"#, true),
            (r#""tiers": [{"above_input_tokens": 1, "colour": 1}]"#, true),
            (r#""service_tiers": {"batch": -1}"#, false),
        ] {
            let row = row.replace("\"output\"", &format!("{field}, \"output\""));
            let is_damaged = matches!(file(&row), Err(ShippedFault::Damaged(_)));
            let is_factor = matches!(file(&row), Err(ShippedFault::Factor { .. }));
            assert_eq!((is_damaged, is_factor), (damaged, !damaged), "{field}");
        }
    }
}
