//! The commands for projects, keys, tokens, prices, caches and dead letters: they ask the running server over its administration API.
//!
//! The server is the only one who writes credentials and prices, so its caches know of every change at once.

mod cache;
mod dead_letter;
mod discover;
mod price;
mod price_file;
mod process;
pub(crate) mod server;

use std::fmt::Write as _;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

pub(crate) use cache::CacheCommand;
pub(crate) use dead_letter::DeadLetterCommand;
pub(crate) use discover::DiscoverArgs;
pub(crate) use price::PriceCommand;
pub(crate) use process::ProcessCommand;
use server::{Access, Ask, Server};

#[derive(Subcommand)]
pub(crate) enum ProjectCommand {
    /// Makes a project.
    Create {
        /// Its name: a-z, 0-9 and -
        project: String,
        /// App of events that name none
        #[arg(long)]
        default_app: Option<String>,
        /// App ids whose events are accepted without a key, for old clients that can send none
        #[arg(long = "keyless-app", value_name = "APP")]
        keyless_apps: Vec<String>,
        /// Days after which its data is dropped, saved runs apart; 0 keeps it for ever [default: 30]
        #[arg(long, value_name = "DAYS")]
        retention_days: Option<u32>,
        #[command(flatten)]
        access: Access,
    },
    /// Changes a project; what is not given stays as it is.
    Set {
        /// Its name
        project: String,
        /// App of events that name none
        #[arg(long)]
        default_app: Option<String>,
        /// Days after which its data is dropped, saved runs apart; 0 keeps it for ever
        #[arg(long, value_name = "DAYS")]
        retention_days: Option<u32>,
        #[command(flatten)]
        access: Access,
    },
    /// Lists the projects.
    List {
        #[command(flatten)]
        access: Access,
    },
}

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Makes an API key and shows its secret once.
    Create {
        /// Project whose data it reaches
        #[arg(long, default_value = "default")]
        project: String,
        /// What the key is for
        #[arg(long, default_value = "")]
        name: String,
        /// What it may do
        #[arg(long = "scope", value_enum, default_values_t = [Scope::Report, Scope::Read])]
        scopes: Vec<Scope>,
        #[command(flatten)]
        access: Access,
    },
    /// Lists the keys, without their secrets.
    List {
        #[command(flatten)]
        access: Access,
    },
    /// Makes a key useless at once.
    Revoke {
        /// Identifier of the key, as listed
        id: String,
        #[command(flatten)]
        access: Access,
    },
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Makes a token and shows its secret once.
    Create {
        /// What its bearer may do
        #[arg(long, value_enum)]
        role: Role,
        /// Projects it is limited to; all without this
        #[arg(long = "project")]
        projects: Vec<String>,
        /// Whose token it is
        #[arg(long, default_value = "")]
        name: String,
        /// How long it is good, such as 12h or 30d; for ever without this
        #[arg(long, value_name = "DURATION")]
        expires_in: Option<String>,
        #[command(flatten)]
        access: Access,
    },
    /// Lists the tokens, without their secrets.
    List {
        #[command(flatten)]
        access: Access,
    },
    /// Makes a token useless at once.
    Revoke {
        /// Identifier of the token, as listed
        id: String,
        #[command(flatten)]
        access: Access,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Scope {
    Report,
    Read,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    Viewer,
    Starter,
    Operator,
    Admin,
}

/// Any of the commands here.
pub(crate) enum AdminCommand {
    Project(ProjectCommand),
    Key(KeyCommand),
    Token(TokenCommand),
}

/// Does what a command about prices says.
pub(crate) fn run_price(command: PriceCommand) -> anyhow::Result<()> {
    server::wait(price::run(command))
}

/// Does what a command about caches says.
pub(crate) fn run_cache(command: CacheCommand) -> anyhow::Result<()> {
    server::wait(cache::run(command))
}

/// Does what a command about builds and their processes says.
pub(crate) fn run_process(command: ProcessCommand) -> anyhow::Result<()> {
    server::wait(process::run(command))
}

/// Does what a command about dead letters says.
pub(crate) fn run_dead_letter(command: DeadLetterCommand) -> anyhow::Result<()> {
    server::wait(dead_letter::run(command))
}

/// Has the server scan the platform and prints what it found.
pub(crate) fn run_discover(args: DiscoverArgs) -> anyhow::Result<()> {
    server::wait(discover::run(args))
}

/// Asks the server and prints what it says.
pub(crate) fn run(command: AdminCommand) -> anyhow::Result<()> {
    let (ask, access) = plan(command)?;
    let answer = server::wait(async { Server::of(&access)?.ask(&ask).await })?;
    print(&serde_json::from_str(&answer).unwrap_or_default(), &access);
    Ok(())
}

/// Prints an answer, for a program or for a person.
pub(crate) fn print(answer: &Value, access: &Access) {
    if access.json {
        println!("{answer}");
    } else {
        print!("{}", render(answer));
    }
}

fn plan(command: AdminCommand) -> anyhow::Result<(Ask, Access)> {
    const PROJECTS: &str = "/api/internal/projects";
    const KEYS: &str = "/api/internal/keys";
    const TOKENS: &str = "/api/internal/tokens";
    Ok(match command {
        AdminCommand::Project(ProjectCommand::Create {
            project,
            default_app,
            keyless_apps,
            retention_days,
            access,
        }) => {
            let body = json!({
                "project_id": project, "keyless_app_ids": keyless_apps, "default_app": default_app,
                "retention_days": retention_days,
            });
            (Ask::post(PROJECTS, &body), access)
        }
        AdminCommand::Project(ProjectCommand::Set {
            project,
            default_app,
            retention_days,
            access,
        }) => {
            let body = json!({
                "project_id": project, "default_app": default_app, "retention_days": retention_days,
            });
            (Ask::post(PROJECTS, &body), access)
        }
        AdminCommand::Project(ProjectCommand::List { access }) => (Ask::get(PROJECTS), access),
        AdminCommand::Key(KeyCommand::Create {
            project,
            name,
            scopes,
            access,
        }) => {
            let scopes: Vec<String> = scopes.iter().map(|scope| word(*scope)).collect();
            (
                Ask::post(
                    KEYS,
                    &json!({"project_id": project, "name": name, "scopes": scopes}),
                ),
                access,
            )
        }
        AdminCommand::Key(KeyCommand::List { access }) => (Ask::get(KEYS), access),
        AdminCommand::Key(KeyCommand::Revoke { id, access }) => (Ask::delete(KEYS, &id)?, access),
        AdminCommand::Token(TokenCommand::Create {
            role,
            projects,
            name,
            expires_in,
            access,
        }) => {
            let mut body = json!({"role": word(role), "name": name, "expires_in": expires_in});
            if !projects.is_empty() {
                body["projects"] = projects.into();
            }
            (Ask::post(TOKENS, &body), access)
        }
        AdminCommand::Token(TokenCommand::List { access }) => (Ask::get(TOKENS), access),
        AdminCommand::Token(TokenCommand::Revoke { id, access }) => {
            (Ask::delete(TOKENS, &id)?, access)
        }
    })
}

fn word(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// A list as one line per thing, a thing as one line per field.
fn render(answer: &Value) -> String {
    let mut text = String::new();
    match answer.get("data").unwrap_or(answer) {
        Value::Array(rows) if rows.is_empty() => text.push_str("none\n"),
        Value::Array(rows) => {
            for row in rows {
                let fields = row
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(_, value)| !value.is_null());
                let fields: Vec<String> = fields
                    .map(|(name, value)| format!("{name}={}", plain(value)))
                    .collect();
                text.push_str(&fields.join("  "));
                text.push('\n');
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name}: {}", plain(value));
            }
        }
        _ => {}
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_a_line_each_and_things_a_line_per_field() {
        let list = json!({"data": [{"id": "a", "scopes": ["report", "read"], "revoked_at": null}]});
        assert_eq!(render(&list), "id=a  scopes=report,read\n");
        assert_eq!(
            render(&json!({"id": "a", "secret": "s"})),
            "id: a\nsecret: s\n"
        );
        assert_eq!(render(&json!({"data": []})), "none\n");
    }
}
