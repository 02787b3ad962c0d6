//! Prices as the server lists them.

use schemas::price::rate::{Per, Rate};
use schemas::price::written::fields;
use schemas::price::{PriceKey, Rates, SpecialRates};
use schemas::timestamp::to_text;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::price_file::{self, Fields};

/// A price in a response.
pub(super) struct Shown {
    pub(super) key: PriceKey,
    pub(super) rates: Rates,
    origin: String,
}

#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) data: Vec<Shown>,
}

#[derive(Deserialize)]
pub(super) struct Removed {
    pub(super) removed: Vec<Shown>,
}

impl<'de> Deserialize<'de> for Shown {
    /// Through the format in which prices are set: what a later server shows besides is ignored.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut shown = Fields::deserialize(deserializer)?;
        let origin = shown.remove("origin");
        let origin = origin.and_then(|origin| serde_json::from_str(origin.get()).ok());
        shown.retain(|name, _| name == "model" || fields().any(|field| field == *name));
        drop_thousands(&mut shown);
        if let Some(tiers) = shown.get_mut("tiers") {
            *tiers = tiers_per_million(tiers).map_err(serde::de::Error::custom)?;
        }
        let entry = price_file::entry(shown).map_err(serde::de::Error::custom)?;
        Ok(Self {
            key: entry.row.key,
            rates: entry.row.rates,
            origin: origin.unwrap_or_default(),
        })
    }
}

/// The server shows both units; only one can be set.
fn drop_thousands(shown: &mut Fields) {
    shown.retain(|name, _| !name.ends_with("_per_1k"));
}

fn tiers_per_million(tiers: &RawValue) -> serde_json::Result<Box<RawValue>> {
    let mut tiers: Vec<Fields> = serde_json::from_str(tiers.get())?;
    tiers.iter_mut().for_each(drop_thousands);
    serde_json::value::to_raw_value(&tiers)
}

pub(super) fn table(rows: &[Shown]) -> String {
    if rows.is_empty() {
        return "none\n".to_owned();
    }
    let number = |rate: Option<Rate>| rate.map_or_else(|| "-".to_owned(), million);
    let head = [
        "model", "input", "output", "cached", "total", "from", "origin", "also",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(|Shown { key, rates, origin }| {
        let beginning = if key.is_prefix { "..." } else { "" };
        [
            format!("{}{beginning}", key.model),
            million(rates.input),
            million(rates.output),
            number(rates.cached_input),
            number(rates.total),
            key.effective_from.map_or_else(|| "-".to_owned(), to_text),
            origin.clone(),
            rates.special.as_deref().map_or_else(String::new, also),
        ]
    }));
    if rows.iter().all(|row| row.rates.special.is_none()) {
        lines[0][head.len() - 1].clear();
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let lengths = lines.iter().map(|line| line[column].chars().count());
            lengths.max().unwrap_or_default()
        })
        .collect();
    let mut text = String::from("USD per million tokens\n");
    for line in &lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn million(rate: Rate) -> String {
    rate.per(Per::Million).to_string()
}

/// The rates of other kinds, of requests, long prompts and service tiers, in words.
fn also(special: &SpecialRates) -> String {
    let rates = |kinds: &schemas::price::kinds::KindRates| {
        let rates = kinds.iter();
        rates
            .map(|(kind, rate)| format!("{}={}", kind.name(), million(rate)))
            .collect::<Vec<_>>()
    };
    let mut all = rates(&special.kinds);
    all.extend(
        special
            .request
            .map(|rate| format!("request={}", rate.per(Per::One))),
    );
    let tiers = special.tiers.iter();
    all.extend(tiers.map(|tier| {
        format!(
            ">{}:{}",
            tier.above_input_tokens,
            rates(&tier.rates).join(",")
        )
    }));
    let factors = special.service_tiers.iter();
    all.extend(factors.map(|tier| format!("{}*{}", tier.name, tier.factor)));
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = r#"[
        {"model": "gpt-4o", "prefix": false, "effective_from": null, "input_per_1m": 2.5, "output_per_1m": 10,
         "input_per_1k": 0.0025, "output_per_1k": 0.01, "cached_input_per_1m": 1.25, "total_per_1m": null,
         "origin": "shipped", "later": {}},
        {"model": "our", "prefix": true, "effective_from": "2026-12-01T00:00:00.000Z",
         "input_per_1m": 999999.999999999999, "output_per_1m": 0, "cached_input_per_1m": null, "total_per_1m": 1,
         "origin": "changed", "changed_at": "2026-11-01T00:00:00.000Z"}]"#;
    const TIERED: &str = r#"[{"model": "m", "prefix": false, "effective_from": null, "input_per_1m": 3,
        "output_per_1m": 15, "input_per_1k": 0.003, "cache_write_per_1m": 3.75, "cache_write_per_1k": 0.00375,
        "request": 0.01, "service_tiers": {"batch": 0.5}, "origin": "shipped",
        "tiers": [{"above_input_tokens": 200000, "input_per_1k": 0.006, "input_per_1m": 6, "output_per_1m": 22.5}]}]"#;

    #[test]
    fn prices_are_shown_in_columns_with_every_digit() {
        let rows: Vec<Shown> = serde_json::from_str(LISTED).unwrap();
        let expected = "USD per million tokens\n\
            model   input                output  cached  total  from                      origin\n\
            gpt-4o  2.5                  10      1.25    -      -                         shipped\n\
            our...  999999.999999999999  0       -       1      2026-12-01T00:00:00.000Z  changed\n";
        assert_eq!(table(&rows), expected);
        assert_eq!(table(&[]), "none\n");
        let rows: Vec<Shown> = serde_json::from_str(TIERED).unwrap();
        let expected = "USD per million tokens\n\
            model  input  output  cached  total  from  origin   also\n\
            m      3      15      -       -      -     shipped  cache_write=3.75 request=0.01 \
            >200000:input=6,output=22.5 batch*0.5\n";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn what_the_server_shows_equals_what_was_set() {
        let rows: Vec<Shown> = serde_json::from_str(LISTED).unwrap();
        let set = price_file::read(
            "model,input_per_1m,output_per_1m,cached_input_per_1m,total_per_1m,effective_from,prefix\n\
             gpt-4o,2.50,10.0,1.25,,,false\nour,999999.999999999999,0,,1,2026-12-01,true\n",
        )
        .unwrap();
        for (shown, entry) in rows.into_iter().zip(set) {
            assert_eq!((shown.key, shown.rates), (entry.row.key, entry.row.rates));
        }
        let shown: Vec<Shown> = serde_json::from_str(TIERED).unwrap();
        let set = price_file::read(
            "model,input_per_1m,output_per_1m,cache_write_per_1m,request,service_tiers,tiers\n\
             m,3,15,3.75,0.01,\"{\"\"batch\"\": 0.5}\",\
             \"[{\"\"above_input_tokens\"\": 200000, \"\"input_per_1m\"\": 6, \"\"output_per_1m\"\": 22.5}]\"\n",
        )
        .unwrap();
        assert_eq!(shown[0].rates, set[0].row.rates);
    }
}
