//! The commands for long work: they create a job on the running server and follow it.
//!
//! The job runs on the server: Ctrl-C, or a broken connection, ends the following and not the job.

mod progress;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::admin::print;
use crate::admin::server::{Access, Ask, Server};
use progress::Progress;

/// Polling interval of a followed job.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);
/// How long a server may be away while its job is followed: it may be restarting.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// Exit code after Ctrl-C, by the convention of shells.
const INTERRUPTED: u8 = 130;

#[derive(Args)]
pub(crate) struct RecalculateArgs {
    /// Only runs that started at or after this time, such as 2026-11-20T10:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only runs that started at or before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only runs of this app
    #[arg(long)]
    app: Option<String>,
    /// Only runs of this model
    #[arg(long)]
    model: Option<String>,
    /// Only runs of this project
    #[arg(long)]
    project: Option<String>,
    /// Report what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Args)]
pub(crate) struct RetentionArgs {
    /// Report what would be dropped, and drop nothing
    #[arg(long)]
    dry_run: bool,
    /// Count ages from the server's clock even if it jumped forward by more than a day
    #[arg(long)]
    trust_clock: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Args)]
pub(crate) struct RebuildArgs {
    #[command(flatten)]
    access: Access,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Only this project
    #[arg(long)]
    project: Option<String>,
    #[command(flatten)]
    access: Access,
}

#[derive(Subcommand)]
pub(crate) enum JobCommand {
    /// Lists the newest jobs.
    List {
        /// Maximum number to list
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        access: Access,
    },
    /// Shows one job.
    Show {
        /// Identifier of the job
        id: String,
        /// Follow the job until it ends
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        access: Access,
    },
    /// Cancels a job; its changes until then stay.
    Cancel {
        /// Identifier of the job
        id: String,
        #[command(flatten)]
        access: Access,
    },
}

pub(crate) enum JobsCommand {
    Recalculate(RecalculateArgs),
    Retention(RetentionArgs),
    Rebuild(RebuildArgs),
    Check(CheckArgs),
    Job(JobCommand),
}

/// Runs a command; follows a created job to its end.
pub(crate) fn run(command: JobsCommand) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(dispatch(command))
}

async fn dispatch(command: JobsCommand) -> anyhow::Result<ExitCode> {
    match command {
        JobsCommand::Recalculate(args) => {
            let body = json!({
                "from": args.from, "to": args.to, "app_id": args.app, "model": args.model,
                "project_id": args.project, "dry_run": args.dry_run,
            });
            begin("/api/internal/cost/recalculate", body, &args.access).await
        }
        JobsCommand::Retention(args) => {
            let body = json!({"dry_run": args.dry_run, "trust_clock": args.trust_clock});
            begin("/api/internal/retention", body, &args.access).await
        }
        JobsCommand::Rebuild(args) => begin("/api/internal/rebuild", json!({}), &args.access).await,
        JobsCommand::Check(args) => {
            let body = json!({"check_only": true, "project": args.project});
            begin("/api/internal/rebuild", body, &args.access).await
        }
        JobsCommand::Job(JobCommand::List { limit, access }) => {
            let ask = Ask::get(&format!("/api/internal/jobs?limit={limit}"));
            let list = Server::of(&access)?.ask(&ask).await?;
            print(&serde_json::from_str(&list)?, &access);
            Ok(ExitCode::SUCCESS)
        }
        JobsCommand::Job(JobCommand::Show { id, follow, access }) => {
            let job = Server::of(&access)?.ask(&Ask::get(&path(&id)?)).await?;
            match follow {
                true => followed(job, &access).await,
                false => {
                    print(&serde_json::from_str(&job)?, &access);
                    Ok(ExitCode::SUCCESS)
                }
            }
        }
        JobsCommand::Job(JobCommand::Cancel { id, access }) => {
            let ask = Ask::post(&format!("{}/cancel", path(&id)?), &json!({}));
            let job = Server::of(&access)?.ask(&ask).await?;
            print(&serde_json::from_str(&job)?, &access);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn path(id: &str) -> anyhow::Result<String> {
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if id.is_empty() || !id.bytes().all(is_id) {
        bail!("`{id}` is not a job id: use an id from `spindle job list`");
    }
    Ok(format!("/api/internal/jobs/{id}"))
}

async fn begin(at: &str, body: Value, access: &Access) -> anyhow::Result<ExitCode> {
    let job = Server::of(access)?.ask(&Ask::post(at, &body)).await?;
    followed(job, access).await
}

/// Follows a job to its end, or until Ctrl-C. Jobs stay JSON text, to keep the digits of costs.
async fn followed(job: String, access: &Access) -> anyhow::Result<ExitCode> {
    let shown: Value = serde_json::from_str(&job)?;
    let id = shown["job_id"].as_str().unwrap_or_default().to_owned();
    tokio::select! {
        job = follow(job, access) => {
            let job = job?;
            match access.json {
                true => println!("{job}"),
                false => print!("{}", progress::outcome(&job)?),
            }
            Ok(match progress::is_good(&serde_json::from_str(&job)?) {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            })
        }
        _ = tokio::signal::ctrl_c() => {
            eprintln!("\njob {id} continues on the server: `spindle job show --follow {id}` follows it, `spindle job cancel {id}` cancels it");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

async fn follow(mut text: String, access: &Access) -> anyhow::Result<String> {
    let mut job: Value = serde_json::from_str(&text)?;
    let mut progress = Progress::new(&job);
    let server = Server::of(access)?;
    let path = path(job["job_id"].as_str().unwrap_or_default())?;
    let mut seen = Instant::now();
    while matches!(job["state"].as_str(), Some("queued" | "running")) {
        progress.show(&job);
        tokio::time::sleep(LOOK_INTERVAL).await;
        match server.ask(&Ask::get(&path)).await {
            Ok(now) => {
                job = serde_json::from_str(&now)?;
                text = now;
                seen = Instant::now();
            }
            Err(error) if seen.elapsed() > AWAY_MAX => return Err(error),
            // The server or the database is restarting: the job continues afterwards.
            Err(_) => {}
        }
    }
    progress.end(&job);
    Ok(text)
}
