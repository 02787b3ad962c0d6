//! The commands and their flags.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::admin::{self, AdminCommand};
use crate::config::Config;
use crate::jobs::{self, JobsCommand};
use crate::serve::role::Role;
use crate::{health, logs, moving, serve};

/// Observability backend for teams that run AI agents: events in, runs and costs out.
#[derive(Parser)]
#[command(name = "spindle", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all tiers in one process on one port.
    Serve(ServeArgs),
    /// Runs the tier that receives events and appends them to Kafka; any number of processes.
    Ingest(ServeArgs),
    /// Runs the tier that folds events from Kafka into rows in ClickHouse; any number of processes.
    Processor(ServeArgs),
    /// Runs the tier that serves reads, administration and the web UI; any number of processes.
    Query(ServeArgs),
    /// Applies the migrations of the tables and creates the first credentials (`serve` does both itself).
    Migrate(SettingsArgs),
    /// Writes all events of a stopped standalone server to a file, for `replay`.
    ExportLog {
        /// File to write
        file: PathBuf,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Appends a file of `export-log` to the log of these settings; repeat it to resume after an interruption.
    Replay {
        #[command(flatten)]
        what: moving::ReplayArgs,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Prints the effective settings with their sources, and all errors in them.
    CheckConfig(SettingsArgs),
    /// Probes the running process of these settings; exit code 1 if it is unhealthy.
    Health {
        #[command(flatten)]
        asked: health::HealthArgs,
        #[command(flatten)]
        settings: ServeArgs,
    },
    /// API keys of projects: they report events and read runs.
    #[command(subcommand)]
    Key(admin::KeyCommand),
    /// Tokens of users and operators.
    #[command(subcommand)]
    Token(admin::TokenCommand),
    /// Projects: tenants with separate data, keys and retention.
    #[command(subcommand)]
    Project(admin::ProjectCommand),
    /// Prices of models per token.
    #[command(subcommand)]
    Price(admin::PriceCommand),
    /// Builds of applications, and the processes that can be started in them.
    #[command(subcommand)]
    Process(admin::ProcessCommand),
    /// Recomputes the costs of runs after a change of the price table.
    Recalculate(jobs::RecalculateArgs),
    /// Drops data older than its project keeps (the server does it every day).
    Retention(jobs::RetentionArgs),
    /// Rebuilds the table of runs from the stored events.
    Rebuild(jobs::RebuildArgs),
    /// Compares the table of runs with the stored events; exit code 1 if anything differs.
    Check(jobs::CheckArgs),
    /// Jobs of the server: list, follow and cancel them.
    #[command(subcommand)]
    Job(jobs::JobCommand),
    /// Dead letters: accepted records that could not be processed.
    #[command(subcommand)]
    DeadLetter(admin::DeadLetterCommand),
    /// Caches of all processes: list and clear them.
    #[command(subcommand)]
    Cache(admin::CacheCommand),
    /// Scans the platform: state of its services, changes and recommended actions.
    Discover(admin::DiscoverArgs),
    /// The embedded engine; a child process of `serve`.
    #[command(hide = true)]
    Engine,
}

/// Flags that stand for settings; each takes precedence over the environment and the file.
#[derive(Args)]
struct SettingsArgs {
    /// Settings file [default: spindle.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of the log, the engine and the credentials file [default: ./spindle-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// A ClickHouse server to use instead of the embedded engine; several replicas separated by commas
    #[arg(long, value_name = "URL")]
    clickhouse_url: Option<String>,
    /// Kafka brokers, `host:port` separated by commas, to use instead of the embedded log
    #[arg(long, value_name = "BROKERS")]
    kafka_brokers: Option<String>,
}

#[derive(Args)]
struct ServeArgs {
    /// Address and port of the API and the UI [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl SettingsArgs {
    fn load(
        &self,
        listen: Option<&String>,
    ) -> anyhow::Result<(Config, Vec<crate::config::reader::Shown>)> {
        let given = [
            ("server.listen", listen),
            ("server.data_dir", self.data_dir.as_ref()),
            ("clickhouse.url", self.clickhouse_url.as_ref()),
            ("kafka.brokers", self.kafka_brokers.as_ref()),
        ];
        let flags: BTreeMap<String, String> = given
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.clone())))
            .collect();
        Config::load(self.config.as_deref(), flags)
    }
}

/// Runs the command. An error is printed as one line on standard error.
pub(crate) fn run() -> ExitCode {
    serve::folder::private::set_umask();
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("spindle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => run_server(&args, Role::All)?,
        Command::Ingest(args) => run_server(&args, Role::Ingest)?,
        Command::Processor(args) => run_server(&args, Role::Processor)?,
        Command::Query(args) => run_server(&args, Role::Query)?,
        Command::Migrate(args) => {
            let (config, _) = args.load(None)?;
            logs::start(&config.logs)?;
            serve::migrate::migrate(config)?;
        }
        Command::ExportLog { file, settings } => {
            let (config, _) = settings.load(None)?;
            logs::start(&config.logs)?;
            moving::export(config, &file)?;
        }
        Command::Replay { what, settings } => {
            let (config, _) = settings.load(None)?;
            logs::start(&config.logs)?;
            moving::replay(config, &what)?;
        }
        Command::CheckConfig(args) => {
            let (_, shown) = args.load(None)?;
            for setting in shown {
                println!("{} = {}  # {}", setting.key, setting.value, setting.source);
            }
        }
        Command::Health { asked, settings } => {
            let (config, _) = settings.settings.load(settings.listen.as_ref())?;
            serve::runtime(1)?.block_on(health::ask(config.server.listen, &asked))?;
        }
        Command::Key(command) => admin::run(AdminCommand::Key(command))?,
        Command::Token(command) => admin::run(AdminCommand::Token(command))?,
        Command::Project(command) => admin::run(AdminCommand::Project(command))?,
        Command::Price(command) => admin::run_price(command)?,
        Command::Process(command) => admin::run_process(command)?,
        Command::Recalculate(args) => return jobs::run(JobsCommand::Recalculate(args)),
        Command::Retention(args) => return jobs::run(JobsCommand::Retention(args)),
        Command::Rebuild(args) => return jobs::run(JobsCommand::Rebuild(args)),
        Command::Check(args) => return jobs::run(JobsCommand::Check(args)),
        Command::Job(command) => return jobs::run(JobsCommand::Job(command)),
        Command::DeadLetter(command) => admin::run_dead_letter(command)?,
        Command::Cache(command) => admin::run_cache(command)?,
        Command::Discover(args) => admin::run_discover(args)?,
        Command::Engine => return Ok(serve::engine::child()),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_server(args: &ServeArgs, role: Role) -> anyhow::Result<()> {
    let (config, _) = args.settings.load(args.listen.as_ref())?;
    logs::start(&config.logs)?;
    serve::run(config, role)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
