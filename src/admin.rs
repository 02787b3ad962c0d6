//! The commands for projects, keys, tokens, prices, caches and dead letters: clients of the administration API.
//!
//! Only the server writes credentials and prices, so its caches learn of every change at once.

mod cache;
mod dead_letter;
mod discover;
mod price;
mod price_file;
mod process;
pub(crate) mod server;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
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
    /// Creates a project.
    Create {
        /// Its name: a-z, 0-9 and -
        project: String,
        /// Default app, of events without an app
        #[arg(long)]
        default_app: Option<String>,
        /// App ids whose events are accepted without a key, for old clients that cannot send one
        #[arg(long = "keyless-app", value_name = "APP")]
        keyless_apps: Vec<String>,
        /// Days after which its data is dropped, except saved runs; 0 keeps it forever [default: 30]
        #[arg(long, value_name = "DAYS")]
        retention_days: Option<u32>,
        #[command(flatten)]
        access: Access,
    },
    /// Changes a project; settings that are not given stay unchanged.
    Set {
        /// Its name
        project: String,
        /// Default app, of events without an app
        #[arg(long)]
        default_app: Option<String>,
        /// Days after which its data is dropped, except saved runs; 0 keeps it forever
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
    /// Creates an API key and prints its secret once.
    Create {
        /// Project of the key
        #[arg(long, default_value = "default")]
        project: String,
        /// Description of the key
        #[arg(long, default_value = "")]
        name: String,
        /// Permission of the key; repeatable
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
    /// Revokes a key at once.
    Revoke {
        /// Identifier of the key, as listed
        id: String,
        #[command(flatten)]
        access: Access,
    },
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Creates a token and prints its secret once.
    Create {
        /// Role of the token
        #[arg(long, value_enum)]
        role: Role,
        /// Projects that it is limited to [default: all]
        #[arg(long = "project")]
        projects: Vec<String>,
        /// Name of the owner
        #[arg(long, default_value = "")]
        name: String,
        /// Lifetime, such as 12h or 30d [default: unlimited]
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
    /// Revokes a token at once.
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

pub(crate) enum AdminCommand {
    Project(ProjectCommand),
    Key(KeyCommand),
    Token(TokenCommand),
}

pub(crate) fn run_price(command: PriceCommand) -> anyhow::Result<()> {
    server::wait(price::run(command))
}

pub(crate) fn run_cache(command: CacheCommand) -> anyhow::Result<()> {
    server::wait(cache::run(command))
}

pub(crate) fn run_process(command: ProcessCommand) -> anyhow::Result<()> {
    server::wait(process::run(command))
}

pub(crate) fn run_dead_letter(command: DeadLetterCommand) -> anyhow::Result<()> {
    server::wait(dead_letter::run(command))
}

pub(crate) fn run_discover(args: DiscoverArgs) -> anyhow::Result<()> {
    server::wait(discover::run(args))
}

pub(crate) fn run(command: AdminCommand) -> anyhow::Result<()> {
    let (ask, access) = plan(command)?;
    let answer = server::wait(async { Server::of(&access)?.ask(&ask).await })?;
    print(&serde_json::from_str(&answer).unwrap_or_default(), &access);
    Ok(())
}

/// Reads a text file of at most `bytes_max` bytes.
fn read_file(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.take(bytes_max + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > bytes_max {
        bail!("{} has more than {bytes_max} bytes", path.display());
    }
    Ok(text)
}

/// Prints a response as JSON or as text.
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

/// One line per element of a list, one line per field of an object.
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
