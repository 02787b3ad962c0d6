//! `spindle price import`.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use schemas::price::{PriceKey, Rates};
use serde_json::json;

use super::super::price_file::{self, Entry, FILE_BYTES};
use super::super::read_file;
use super::super::server::{Access, Ask, Server};
use super::PRICES;
use super::lists::{self, Skipped};
use super::shown::Listed;

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The file
    file: PathBuf,
    /// What the file is: prices with the fields or columns of the API, or a public price list
    #[arg(long, value_enum, default_value = "spindle")]
    format: Format,
    /// Only models whose names begin so; may be repeated
    #[arg(long = "only", value_name = "PREFIX")]
    only: Vec<String>,
    /// Reports what would be written, and writes nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// JSON or CSV with the fields of the API
    Spindle,
    /// `model_prices_and_context_window.json` of litellm
    Litellm,
    /// `data.json` of genai-prices
    GenaiPrices,
}

/// Names shown for each reason why models were skipped.
const NAMES_SHOWN: usize = 5;

pub(super) async fn run(args: ImportArgs) -> anyhow::Result<()> {
    let text = read_file(&args.file, FILE_BYTES)?;
    let read = match args.format {
        Format::Spindle => price_file::read(&text).map(|entries| (entries, Skipped::new())),
        Format::Litellm => lists::litellm::read(&text),
        Format::GenaiPrices => lists::genai_prices::read(&text),
    };
    let (mut entries, mut skipped) = read.map_err(|faults| {
        anyhow::anyhow!("nothing was written: {}\n{faults}", args.file.display())
    })?;
    if !args.only.is_empty() {
        let is_chosen = |name: &str| args.only.iter().any(|prefix| name.starts_with(prefix));
        entries.retain(|entry| is_chosen(&entry.row.key.model));
        for names in skipped.values_mut() {
            names.retain(|name| is_chosen(name));
        }
        skipped.retain(|_, names| !names.is_empty());
    }
    let server = Server::of(&args.access)?;
    let answer = server.ask(&Ask::get(PRICES)).await?;
    let known: Listed = serde_json::from_str(&answer)
        .context("the answer of the server is not a list of prices")?;
    let known = known.data.into_iter().map(|row| (row.key, row.rates));
    let known: HashMap<PriceKey, Rates> = known.collect();
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
        if args.dry_run {
            continue;
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
    if args.access.json {
        let mut said = json!({"new": new, "changed": changed, "as_they_were": equal});
        if !skipped.is_empty() {
            said["skipped"] = json!(skipped);
        }
        println!("{said}");
        return Ok(());
    }
    let would = if args.dry_run { " (dry run)" } else { "" };
    println!("{new} new, {changed} changed, {equal} unchanged{would}");
    for (reason, names) in skipped {
        let shown = names.iter().take(NAMES_SHOWN).map(String::as_str);
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = if names.len() > NAMES_SHOWN {
            ", ..."
        } else {
            ""
        };
        println!("skipped {}: {reason}: {shown}{more}", names.len());
    }
    Ok(())
}
