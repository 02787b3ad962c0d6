//! The commands for dead letters.

use clap::Subcommand;
use serde_json::{Value, json};

use super::print;
use super::server::{Access, Ask, Server};

const LETTERS: &str = "/api/internal/dead-letters";
const REDRIVE: &str = "/api/internal/dead-letters/redrive";

#[derive(Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// Lists dead letters, oldest first.
    List {
        /// Maximum number to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Start with this id
        #[arg(long, value_name = "ID")]
        from: Option<String>,
        /// Print the accepted events, with the content that clients sent
        #[arg(long)]
        payload: bool,
        #[command(flatten)]
        access: Access,
    },
    /// Appends dead letters to the log again, after the cause is fixed. Safe to repeat.
    Redrive {
        /// All dead letters that were not redriven
        #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
        all: bool,
        /// Ids as listed
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        access: Access,
    },
}

pub(super) async fn run(command: DeadLetterCommand) -> anyhow::Result<()> {
    match command {
        DeadLetterCommand::List {
            limit,
            from,
            payload,
            access,
        } => {
            let ask = Ask::get(LETTERS)
                .with("limit", Some(&limit.to_string()))
                .with("cursor", from.as_deref())
                .with("payload", payload.then_some("true"));
            let answer = asked(&Server::of(&access)?, &ask).await?;
            print(&answer, &access);
            if let Some(next) = answer["next_cursor"].as_str().filter(|_| !access.json) {
                println!("there are more: --from {next}");
            }
            Ok(())
        }
        DeadLetterCommand::Redrive { all, ids, access } => {
            let server = Server::of(&access)?;
            let body = if all {
                json!({"all": true})
            } else {
                json!({"letters": ids})
            };
            let (mut letters, mut events) = (0, 0);
            loop {
                let answer = asked(&server, &Ask::post(REDRIVE, &body)).await?;
                letters += answer["letters"].as_u64().unwrap_or(0);
                events += answer["events"].as_u64().unwrap_or(0);
                if all && answer["more"] == true {
                    continue;
                }
                let mut whole = answer;
                whole["letters"] = letters.into();
                whole["events"] = events.into();
                print(&whole, &access);
                return Ok(());
            }
        }
    }
}

async fn asked(server: &Server, ask: &Ask) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&server.ask(ask).await?)?)
}
