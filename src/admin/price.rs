//! The commands for prices.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use schemas::price::written::moment_ms;
use schemas::price::{PriceKey, Rates};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::price_file::{self, Entry, FILE_BYTES, Fields};
use super::read_file;
use super::server::{Access, Ask, Server};

const PRICES: &str = "/api/internal/prices";

#[derive(Subcommand)]
pub(crate) enum PriceCommand {
    /// Lists the effective prices, in USD per million tokens.
    List {
        /// Only prices of exactly this name
        model: Option<String>,
        /// Only shipped prices, or only changed prices
        #[arg(long, value_enum)]
        origin: Option<Origin>,
        #[command(flatten)]
        access: Access,
    },
    /// Sets the price of a model, in USD per thousand or per million tokens.
    Set {
        /// Name of the model, as it is reported
        model: String,
        #[command(flatten)]
        given: Given,
        #[command(flatten)]
        access: Access,
    },
    /// Removes prices of a model, including shipped prices.
    Remove {
        /// Name of the model
        model: String,
        /// Only the price that starts at this date, or `none` for the price without a start date
        #[arg(long, value_name = "DATE")]
        from: Option<String>,
        /// Only prices of prefixes, or with `false` only prices of whole names
        #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
        prefix: Option<bool>,
        #[command(flatten)]
        access: Access,
    },
    /// Sets the prices in a file, JSON or CSV; all of it is validated before anything is written.
    Import {
        /// The file; its fields or columns are the fields of the API
        file: PathBuf,
        #[command(flatten)]
        access: Access,
    },
}

#[derive(Args)]
pub(crate) struct Given {
    /// USD per million tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_per_1m: Option<String>,
    /// USD per million tokens of the completion
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_per_1m: Option<String>,
    /// USD per million cached tokens of the prompt [default: as other tokens of the prompt]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cached_input_per_1m: Option<String>,
    /// USD per million tokens where only the total is known [default: as the prompt, as an estimate]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    total_per_1m: Option<String>,
    /// USD per thousand tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_per_1k: Option<String>,
    /// USD per thousand tokens of the completion
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_per_1k: Option<String>,
    /// USD per thousand cached tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cached_input_per_1k: Option<String>,
    /// USD per thousand tokens where only the total is known
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    total_per_1k: Option<String>,
    /// Applies to runs that start at or after this time or date (UTC) [default: no start date]
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Applies to all models with this prefix that have no price of their own
    #[arg(long)]
    prefix: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Origin {
    Shipped,
    Changed,
}

impl Given {
    /// The price in the format of the API.
    fn entry(self, model: String) -> Result<Entry, String> {
        let values = [
            ("model", Some(model)),
            ("input_per_1m", self.input_per_1m),
            ("output_per_1m", self.output_per_1m),
            ("cached_input_per_1m", self.cached_input_per_1m),
            ("total_per_1m", self.total_per_1m),
            ("input_per_1k", self.input_per_1k),
            ("output_per_1k", self.output_per_1k),
            ("cached_input_per_1k", self.cached_input_per_1k),
            ("total_per_1k", self.total_per_1k),
            ("effective_from", self.from),
            ("prefix", self.prefix.then(|| "true".to_owned())),
        ];
        let given = values
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let fields: Result<Fields, String> = given
            .map(|(name, value)| Ok((name.to_owned(), price_file::field(name, value)?)))
            .collect();
        price_file::entry(fields?)
    }
}

/// A price in a response, with its numbers unchanged.
#[derive(Deserialize)]
struct Shown {
    model: String,
    prefix: bool,
    effective_from: Option<String>,
    input_per_1m: Box<RawValue>,
    output_per_1m: Box<RawValue>,
    cached_input_per_1m: Option<Box<RawValue>>,
    total_per_1m: Option<Box<RawValue>>,
    origin: String,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Shown>,
}

#[derive(Deserialize)]
struct Removed {
    removed: Vec<Shown>,
}

pub(super) async fn run(command: PriceCommand) -> anyhow::Result<()> {
    match command {
        PriceCommand::List {
            model,
            origin,
            access,
        } => {
            let origin = origin.map(super::word);
            let ask = Ask::get(PRICES)
                .with("model", model.as_deref())
                .with("origin", origin.as_deref());
            let answer = Server::of(&access)?.ask(&ask).await?;
            let text = |answer: &str| Ok(table(&serde_json::from_str::<Listed>(answer)?.data));
            show(&access, &answer, text)
        }
        PriceCommand::Set {
            model,
            given,
            access,
        } => {
            let entry = given.entry(model).map_err(anyhow::Error::msg)?;
            let ask = Ask::put(PRICES, &entry.row.key.model, entry.body)?;
            let answer = Server::of(&access)?.ask(&ask).await?;
            show(&access, &answer, |answer| {
                Ok(table(&[serde_json::from_str(answer)?]))
            })
        }
        PriceCommand::Remove {
            model,
            from,
            prefix,
            access,
        } => {
            let prefix = prefix.map(|prefix| prefix.to_string());
            let ask = Ask::delete(PRICES, &model)?
                .with("effective_from", from.as_deref())
                .with("prefix", prefix.as_deref());
            let answer = Server::of(&access)?.ask(&ask).await?;
            show(&access, &answer, |answer| {
                let Removed { removed } = serde_json::from_str(answer)?;
                Ok(format!("removed:\n{}", table(&removed)))
            })
        }
        PriceCommand::Import { file, access } => import(&file, &access).await,
    }
}

fn show(
    access: &Access,
    answer: &str,
    text: impl FnOnce(&str) -> serde_json::Result<String>,
) -> anyhow::Result<()> {
    if access.json {
        println!("{answer}");
    } else {
        print!(
            "{}",
            text(answer).context("the answer of the server is not a list of prices")?
        );
    }
    Ok(())
}

fn table(rows: &[Shown]) -> String {
    if rows.is_empty() {
        return "none\n".to_owned();
    }
    let number = |number: &Option<Box<RawValue>>| {
        let text = number.as_ref().map_or("-", |number| number.get());
        text.to_owned()
    };
    let head = [
        "model", "input", "output", "cached", "total", "from", "origin",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let beginning = if row.prefix { "..." } else { "" };
        [
            format!("{}{beginning}", row.model),
            row.input_per_1m.get().to_owned(),
            row.output_per_1m.get().to_owned(),
            number(&row.cached_input_per_1m),
            number(&row.total_per_1m),
            row.effective_from.clone().unwrap_or_else(|| "-".to_owned()),
            row.origin.clone(),
        ]
    }));
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

async fn import(path: &Path, access: &Access) -> anyhow::Result<()> {
    let text = read_file(path, FILE_BYTES)?;
    let entries = price_file::read(&text)
        .map_err(|faults| anyhow::anyhow!("nothing was written: {}\n{faults}", path.display()))?;
    let server = Server::of(access)?;
    let answer = server.ask(&Ask::get(PRICES)).await?;
    let known: Listed = serde_json::from_str(&answer)
        .context("the answer of the server is not a list of prices")?;
    let known: HashMap<PriceKey, Rates> = known.data.into_iter().filter_map(Shown::row).collect();
    let (mut new, mut changed, mut equal) = (0, 0, 0);
    for Entry { row, body } in entries {
        match known.get(&row.key) {
            Some(rates) if *rates == row.rates => {
                equal += 1;
                continue;
            }
            Some(_) => changed += 1,
            None => new += 1,
        }
        let ask = Ask::put(PRICES, &row.key.model, body)?;
        server.ask(&ask).await.with_context(|| {
            let written = new + changed - 1;
            format!(
                "stopped at `{}`; {written} prices were written; repeat the import to continue",
                row.key.model
            )
        })?;
    }
    if access.json {
        println!(r#"{{"new":{new},"changed":{changed},"as_they_were":{equal}}}"#);
    } else {
        println!("{new} new, {changed} changed, {equal} unchanged");
    }
    Ok(())
}

impl Shown {
    /// The price for comparisons; `None` if this program cannot read it.
    fn row(self) -> Option<(PriceKey, Rates)> {
        use schemas::price::rate::{Per, Rate};
        let rate = |number: &RawValue| Rate::read(number.get(), Per::Million).ok();
        let optional = |number: &Option<Box<RawValue>>| match number {
            None => Some(None),
            Some(number) => rate(number).map(Some),
        };
        let effective_from = match &self.effective_from {
            None => None,
            Some(text) => Some(moment_ms(text)?),
        };
        let rates = Rates {
            input: rate(&self.input_per_1m)?,
            output: rate(&self.output_per_1m)?,
            cached_input: optional(&self.cached_input_per_1m)?,
            total: optional(&self.total_per_1m)?,
            special: None,
        };
        let key = PriceKey {
            model: self.model,
            is_prefix: self.prefix,
            effective_from,
        };
        Some((key, rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = r#"[
        {"model": "gpt-4o", "prefix": false, "effective_from": null, "input_per_1m": 2.5, "output_per_1m": 10,
         "cached_input_per_1m": 1.25, "total_per_1m": null, "origin": "shipped"},
        {"model": "our", "prefix": true, "effective_from": "2026-12-01T00:00:00.000Z",
         "input_per_1m": 999999.999999999999, "output_per_1m": 0, "cached_input_per_1m": null, "total_per_1m": 1,
         "origin": "changed"}]"#;

    #[test]
    fn prices_are_shown_in_columns_with_every_digit() {
        let rows: Vec<Shown> = serde_json::from_str(LISTED).unwrap();
        let expected = "USD per million tokens\n\
            model   input                output  cached  total  from                      origin\n\
            gpt-4o  2.5                  10      1.25    -      -                         shipped\n\
            our...  999999.999999999999  0       -       1      2026-12-01T00:00:00.000Z  changed\n";
        assert_eq!(table(&rows), expected);
        assert_eq!(table(&[]), "none\n");
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
            assert_eq!(shown.row(), Some((entry.row.key, entry.row.rates)));
        }
    }
}
