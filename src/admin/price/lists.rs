//! Public price lists as prices of ours.
//!
//! Each module reads one format. What a format has and the price table has not is left out; a model of which that leaves
//! no price per token is skipped, with the reason. Numbers have more digits there than exist, so they are rounded to 18
//! digits after the point per token.

pub(super) mod genai_prices;
pub(super) mod litellm;

use std::collections::{BTreeMap, HashSet};

use schemas::price::factor::Factor;
use schemas::price::kinds::{KindRates, RateKind};
use schemas::price::rate::{Per, Rate};
use serde_json::value::RawValue;

use super::super::price_file::{self, Entry, Fields};

/// The names of skipped models (or of parts of prices that were left out), by the reason.
pub(super) type Skipped = BTreeMap<&'static str, Vec<String>>;

pub(super) const NOT_PER_TOKEN: &str = "no price per token";
pub(super) const FREE: &str = "a price of nothing, which lists have for what they do not know";
const BAD_NUMBER: &str = "a price that is no number from 0 to 1 USD per token";
const NO_FACTOR: &str = "a service tier without a common factor, left out";
const TWICE: &str = "a price of this name was there before";

/// What a list has on one model from one date on.
#[derive(Clone, Default)]
struct Draft {
    model: String,
    effective_from: Option<String>,
    kinds: KindRates,
    request: Option<Rate>,
    tiers: BTreeMap<u64, KindRates>,
    service_tiers: BTreeMap<String, Factor>,
}

#[derive(Default)]
struct Taken {
    entries: Vec<Entry>,
    keys: HashSet<schemas::price::PriceKey>,
    skipped: Skipped,
}

impl Taken {
    fn skip(&mut self, reason: &'static str, name: &str) {
        self.skipped
            .entry(reason)
            .or_default()
            .push(name.to_owned());
    }

    fn take(&mut self, mut draft: Draft) -> Result<(), String> {
        let (input, output) = (
            draft.kinds.get(RateKind::Input),
            draft.kinds.get(RateKind::Output),
        );
        if input.unwrap_or_default() == Rate::default()
            && output.unwrap_or_default() == Rate::default()
        {
            self.skip(FREE, &draft.model);
            return Ok(());
        }
        if draft.kinds.get(RateKind::Reasoning) == output {
            draft.kinds.set(RateKind::Reasoning, None);
        }
        let entry = draft.entry()?;
        match self.keys.insert(entry.row.key.clone()) {
            true => self.entries.push(entry),
            false => self.skip(TWICE, &entry.row.key.model),
        }
        Ok(())
    }
}

impl Draft {
    /// Adds the factor of a service tier, if it is the same for input and output.
    fn add_service_tier(
        &mut self,
        name: &str,
        input: Rate,
        output: Option<Rate>,
    ) -> Result<(), &'static str> {
        let own = |kind| self.kinds.get(kind).unwrap_or_default();
        let of_input = ratio(input, own(RateKind::Input)).ok_or(NO_FACTOR)?;
        let of_output = match output {
            Some(output) if own(RateKind::Output) != Rate::default() => {
                ratio(output, own(RateKind::Output))
            }
            _ => Some(of_input),
        };
        // Lists round what is half of an odd price.
        let is_common = of_output.is_some_and(|other| other.abs_diff(of_input) <= of_input / 100);
        let factor = Factor::from_millionths(of_input)
            .filter(|_| is_common)
            .ok_or(NO_FACTOR)?;
        self.service_tiers.insert(name.to_owned(), factor);
        Ok(())
    }

    /// The same as a file of prices would have it.
    fn entry(&self) -> Result<Entry, String> {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let mut all = vec![("model".to_owned(), text(&self.model))];
        all.extend(per_million(&self.kinds));
        all.extend(
            self.effective_from
                .as_deref()
                .map(|from| ("effective_from".to_owned(), text(from))),
        );
        all.extend(
            self.request
                .map(|rate| ("request".to_owned(), rate.per(Per::One).to_string())),
        );
        let tiers = self.tiers.iter().map(|(above, kinds)| {
            let above = ("above_input_tokens".to_owned(), above.to_string());
            object([above].into_iter().chain(per_million(kinds)))
        });
        let tiers: Vec<String> = tiers.collect();
        if !tiers.is_empty() {
            all.push(("tiers".to_owned(), format!("[{}]", tiers.join(","))));
        }
        let factors = self.service_tiers.iter();
        let factors: Vec<_> = factors
            .map(|(name, factor)| (name.clone(), factor.to_string()))
            .collect();
        if !factors.is_empty() {
            all.push(("service_tiers".to_owned(), object(factors.into_iter())));
        }
        let raw = |(name, json)| match RawValue::from_string(json) {
            Ok(value) => Ok((name, value)),
            Err(error) => Err(error.to_string()),
        };
        let fields: Result<Fields, String> = all.into_iter().map(raw).collect();
        price_file::entry(fields?).map_err(|fault| format!("`{}`: {fault}", self.model))
    }
}

fn per_million(kinds: &KindRates) -> impl Iterator<Item = (String, String)> + '_ {
    let rates = kinds.iter();
    rates.map(|(kind, rate)| {
        (
            format!("{}_per_1m", kind.name()),
            rate.per(Per::Million).to_string(),
        )
    })
}

fn object(fields: impl Iterator<Item = (String, String)>) -> String {
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A rate in millionths of another.
fn ratio(rate: Rate, of: Rate) -> Option<u32> {
    let millionths = (rate.units() * 1_000_000).checked_div(of.units())?;
    u32::try_from(millionths).ok()
}

/// A number, which some lists write as text; `None` for `null`.
fn number(value: &RawValue, per: Per) -> Result<Option<Rate>, &'static str> {
    match value.get().trim_matches('"') {
        "null" => Ok(None),
        text => Rate::read_rounded(text, per)
            .map(Some)
            .map_err(|_| BAD_NUMBER),
    }
}

#[cfg(test)]
mod tests {
    use schemas::price::SpecialRates;

    use super::*;

    /// Prices per million and the text of what is special.
    pub(super) fn shown(entries: &[Entry]) -> Vec<String> {
        let million = |rate: Rate| rate.per(Per::Million);
        let show = |Entry { row, .. }: &Entry| {
            let rates = &row.rates;
            let optional = |name: &str, rate: Option<Rate>| {
                rate.map_or_else(String::new, |rate| format!("{name} {} ", million(rate)))
            };
            let from = row.key.effective_from.map(schemas::timestamp::to_text);
            format!(
                "{}{} {}/{} {}{}{}",
                row.key.model,
                from.map_or_else(String::new, |from| format!("@{from}")),
                million(rates.input),
                million(rates.output),
                optional("cached", rates.cached_input),
                optional("total", rates.total),
                rates
                    .special
                    .as_deref()
                    .map_or_else(String::new, SpecialRates::to_text),
            )
        };
        entries.iter().map(show).collect()
    }

    pub(super) fn reasons(skipped: &Skipped) -> Vec<String> {
        let all = skipped.iter();
        all.map(|(reason, names)| format!("{reason}: {}", names.join(", ")))
            .collect()
    }
}
