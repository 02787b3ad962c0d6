//! `spindle-bench load`: a load generator with measurements of a server under load.
//!
//! It posts batches of distinct events over a few kept-alive connections, as fast as they are answered or at a given
//! rate. It reports how many were accepted, the latency of responses, how many events were stored meanwhile, and how
//! long a run took from its response to the list. See `docs/guide/benchmark.md`.

mod batches;
mod generator;
mod report;
mod server_metrics;
mod spans;
mod starts;
#[cfg(test)]
mod tests;
mod visibility;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use crate::connection::Target;
use generator::{Content, Counters, Load};
pub(crate) use report::Report;
use report::{Percentiles, Stored};
use server_metrics::ServerCounts;
pub(crate) use spans::EVENTS_PER_SPAN;
use starts::Starts;
use visibility::Sampler;

/// How long `--verify` waits without progress before it gives up.
const STALLED: Duration = Duration::from_secs(60);
/// How long the generator waits for the last sampled runs when it waits for nothing else.
const LAST_SAMPLES: Duration = Duration::from_secs(5);
/// Pause between two reads of the server's metrics.
const METRICS_PAUSE: Duration = Duration::from_millis(50);

#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// Address of the server; plain HTTP
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    url: String,
    /// API key with the scopes `report` and `read`
    #[arg(
        long,
        value_name = "KEY",
        env = "SPINDLE_API_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    key: String,
    /// Starts a process so many times a second instead of reporting events; needs an admin token
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    starts: Option<u32>,
    /// Admin token, for `--starts`
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SPINDLE_ADMIN_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    token: String,
    /// Token for `/metrics`, where the server has one (`metrics.token`)
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SPINDLE_METRICS__TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    metrics_token: String,
    /// Events in one request
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch_size: u32,
    /// Bytes of one event (small values are raised to what its fields need)
    #[arg(long, value_name = "BYTES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    event_bytes: u32,
    /// Connections, each with one request in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// How long to send
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Apps the batches belong to in turn
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    apps: u32,
    /// Events per second over all connections; 0 sends as fast as answers come
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    rate: u32,
    /// Time between two runs whose way to the list is timed; `0s` times none
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = humantime::parse_duration)]
    sample_every: Duration,
    /// Sends spans to `/v1/traces` instead of events, as many as events would be and twice as large: a span is the start
    /// and the end of a run, so the counts of the result are of events still
    #[arg(long, conflicts_with = "starts")]
    spans: bool,
    /// Waits until everything accepted is stored, and fails if it is not
    #[arg(long)]
    verify: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
    /// Prints a line each second even if standard error is no terminal
    #[arg(long)]
    progress: bool,
}

/// Sends the load, waits as requested, and prints the result on standard output.
pub(crate) async fn run(args: LoadArgs) -> anyhow::Result<()> {
    if let Some(rate) = args.starts {
        ensure!(
            !args.token.is_empty(),
            "--starts needs an admin token: --token"
        );
        let starts = Starts {
            target: Target::new(&args.url, &args.token)?,
            rate,
            connections: args.connections,
            duration: args.duration,
        };
        return starts.run(args.json).await;
    }
    let report = measure(&args).await?;
    report.print(args.json)?;
    if args.verify {
        report.verify()?;
    }
    Ok(())
}

/// Sends the load and waits as requested.
pub(crate) async fn measure(args: &LoadArgs) -> anyhow::Result<Report> {
    ensure!(!args.key.is_empty(), "an API key is needed: --key");
    ensure!(
        args.batch_size as usize * args.event_bytes as usize <= 1 << 30,
        "a batch of more than 1 GiB makes no sense"
    );
    let target = Arc::new(Target::new(&args.url, &args.key)?);
    let counters = Arc::new(Counters::default());
    let metrics_target = match args.metrics_token.as_str() {
        "" => Arc::clone(&target),
        token => Arc::new(Target::new(&args.url, token)?),
    };
    let before = ServerCounts::read(&metrics_target).await;
    let mut sampler = (!args.sample_every.is_zero())
        .then(|| Sampler::start(Arc::clone(&target), args.sample_every));
    let progress = (args.progress || std::io::stderr().is_terminal())
        .then(|| tokio::spawn(report::progress(Arc::clone(&counters))));

    let load = Load {
        target: Arc::clone(&target),
        counters: Arc::clone(&counters),
        content: content(args)?,
        batch_size: args.batch_size as usize,
        event_bytes: args.event_bytes as usize,
        apps: args.apps,
        pause: pause(args),
        connections: args.connections,
        duration: args.duration,
    };
    let outcome = load.run().await;
    if let Some(progress) = progress {
        progress.abort();
    }
    let outcome = outcome?;

    let sampled = match &mut sampler {
        Some(sampler) => sampler.stop_posting().await?,
        None => 0,
    };
    let stored = stored(&metrics_target, before, &outcome, sampled, args.verify).await;
    let patience = if args.verify { STALLED } else { LAST_SAMPLES };
    let visibility = match sampler {
        Some(sampler) => sampler.finish(patience).await.map(Some),
        None => Ok(None),
    };
    let stored = needed("stored events", args.verify, stored.map(Some))?;
    let seen = needed("the time to the list", args.verify, visibility)?;
    Ok(Report {
        url: args.url.clone(),
        batch_size: args.batch_size,
        event_bytes: outcome.event_bytes,
        connections: args.connections,
        apps: args.apps,
        rate: args.rate,
        seconds: outcome.elapsed.as_secs_f64(),
        requests: outcome.latency_us.len(),
        accepted_events: outcome.accepted,
        accepted_per_second: outcome.accepted as f64 / outcome.elapsed.as_secs_f64(),
        rejected_events: outcome.rejected,
        abandoned_batches: outcome.abandoned,
        answer_ms: Percentiles::of_us(&outcome.latency_us),
        statuses: outcome.statuses,
        connection_errors: outcome.connection_errors,
        stored,
        visible_ms: seen
            .as_ref()
            .map(|seen| Percentiles::of_us(&seen.latency_us)),
        visible_samples: seen.as_ref().map_or(0, |seen| seen.latency_us.len()),
        unseen_samples: seen.map_or(0, |seen| seen.unseen),
    })
}

/// With `--verify` an error; otherwise what could not be measured is left out of the result.
fn needed<T>(
    what: &str,
    verify: bool,
    measured: anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    match measured {
        Err(error) if !verify => {
            eprintln!("{what}: not measured: {error:#}");
            Ok(None)
        }
        measured => measured.context("--verify"),
    }
}

fn content(args: &LoadArgs) -> anyhow::Result<Content> {
    if !args.spans {
        return Ok(Content::Events);
    }
    let most = spans::SPANS_AT_MOST;
    ensure!(
        args.batch_size <= most,
        "--batch-size: at most {most} spans"
    );
    Ok(Content::Spans)
}

/// Interval between two batches of one connection.
fn pause(args: &LoadArgs) -> Option<Duration> {
    let batches_per_second =
        f64::from(args.rate) / f64::from(args.batch_size) / f64::from(args.connections);
    (args.rate > 0).then(|| Duration::from_secs_f64(1.0 / batches_per_second))
}

/// What the server stored since `before`; with `verify`, waits for all of it as long as there is progress.
async fn stored(
    target: &Target,
    before: anyhow::Result<ServerCounts>,
    outcome: &generator::Outcome,
    sampled: u64,
    verify: bool,
) -> anyhow::Result<Stored> {
    let before = before?;
    let mut counts = ServerCounts::read(target).await?.since(before);
    // The log may contain more than was acknowledged: a batch that was sent again may have been appended twice.
    let goal = (outcome.accepted + sampled).max(counts.appended.unwrap_or(0));
    let backlog_at_end = goal.saturating_sub(counts.stored);
    let mut last_progress = Instant::now();
    while verify && counts.stored < goal && last_progress.elapsed() < STALLED {
        tokio::time::sleep(METRICS_PAUSE).await;
        let now = ServerCounts::read(target).await?.since(before);
        if now.stored > counts.stored {
            last_progress = Instant::now();
        }
        counts = now;
    }
    let elapsed = outcome.started.elapsed();
    Ok(Stored {
        events: counts.stored,
        of_events: goal,
        per_second: counts.stored as f64 / elapsed.as_secs_f64(),
        backlog_at_end,
        drain_seconds: verify.then(|| elapsed.saturating_sub(outcome.elapsed).as_secs_f64()),
        is_complete: counts.stored >= goal,
    })
}
