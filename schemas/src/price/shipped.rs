//! The shipped prices: `schemas/prices/starting.json`, compiled in.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::rate::{Per, Rate, RateFault};
use super::written::moment_ms;
use super::{PriceKey, PriceRow, Rates};

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
    #[serde(rename = "maker")]
    _maker: &'a RawValue,
    #[serde(rename = "source")]
    _source: &'a RawValue,
    #[serde(rename = "as_of")]
    _as_of: &'a RawValue,
    #[serde(rename = "note")]
    _note: Option<&'a RawValue>,
    #[serde(borrow)]
    per_1m: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    model: String,
    /// Adds a row for all names with this prefix: names with a date at the end.
    prefix: Option<String>,
    from: Option<String>,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow)]
    output: &'a RawValue,
    #[serde(borrow)]
    cached_input: Option<&'a RawValue>,
    #[serde(borrow)]
    total: Option<&'a RawValue>,
}

pub fn shipped() -> Result<Shipped, ShippedFault> {
    read(STARTING)
}

fn read(text: &str) -> Result<Shipped, ShippedFault> {
    let file: File<'_> = serde_json::from_str(text)?;
    let mut rows = Vec::new();
    for entry in file.makers.into_iter().flat_map(|maker| maker.per_1m) {
        let rates = entry.rates()?;
        let effective_from = entry.effective_from()?;
        let names = [(Some(entry.model), false), (entry.prefix, true)];
        rows.extend(names.into_iter().filter_map(|(model, is_prefix)| {
            let key = PriceKey {
                model: model?,
                is_prefix,
                effective_from,
            };
            let rates = rates.clone();
            Some(PriceRow { key, rates })
        }));
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

impl Entry<'_> {
    fn rates(&self) -> Result<Rates, ShippedFault> {
        let rate = |number: &RawValue| {
            Rate::read(number.get(), Per::Million).map_err(|fault| ShippedFault::Rate {
                model: self.model.clone(),
                fault,
            })
        };
        Ok(Rates {
            input: rate(self.input)?,
            output: rate(self.output)?,
            cached_input: self.cached_input.map(rate).transpose()?,
            total: self.total.map(rate).transpose()?,
            special: None,
        })
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

    use super::super::PriceTable;
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
    }
}
