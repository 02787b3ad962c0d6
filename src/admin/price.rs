//! The commands for prices.

mod given;
mod import;
mod lists;
mod shown;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};

use super::server::{Access, Ask, Server};
use given::Given;
use import::ImportArgs;
use shown::{Listed, Removed, table};

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
        given: Box<Given>,
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
    /// Sets the prices of a file or of a public price list; all of it is validated before anything is written.
    Import(ImportArgs),
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Origin {
    Shipped,
    Changed,
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
        PriceCommand::Import(args) => import::run(args).await,
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
