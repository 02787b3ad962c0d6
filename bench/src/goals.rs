//! `spindle-bench goals`: every goal for speed and memory that one machine can show, measured and printed beside the
//! goal.
//!
//! Each section starts a server or an engine of its own. The table and its JSON contain the figures of all sections in
//! the order in which they were measured; what a section prints itself goes to standard output before.

mod figure;
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use spindle_client::Timestamp;
use tokio::task::JoinSet;

use crate::connection::{Connection, Target};
use crate::load::{self, LoadArgs, Report};
use crate::round::{Line, Quantiles};
use crate::{analytics, insert, list, pages, recalculate, thread};
use figure::Figure;
use server::Server;

#[derive(Args)]
pub(crate) struct GoalsArgs {
    /// The program that is measured
    #[arg(long, value_name = "FILE", default_value = "target/release/spindle")]
    program: PathBuf,
    /// Sections to measure [default: all]
    #[arg(long, value_name = "SECTION", value_delimiter = ',')]
    only: Vec<Section>,
    /// Writes the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where folders are made, also the kept ones of the sections `threads` and `large` [default: the system's folder for
    /// temporary files, and `target`]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Events at full speed, their CPU time and memory, and the same rows inserted raw
    Speed,
    /// Spans at full speed
    Spans,
    /// The time from an answer to the list
    Freshness,
    /// Lists over HTTP while the table is live, also under load
    Pages,
    /// Trees of 10,000 runs
    Tree,
    /// A recalculation of all costs
    Recalculation,
    /// The list of threads
    Threads,
    /// Lists and totals over 10 million runs
    Large,
}

/// What the JSON file contains.
#[derive(Serialize)]
struct Measured {
    measured_at: String,
    figures: Vec<Figure>,
}

/// How long full speed is measured.
const FULL_SPEED: &str = "10s";
const MICROSECONDS: f64 = 1e6;
/// Load beside which pages are measured.
const BESIDE_EVENTS: &str = "30000";
/// Exports beside which pages are measured: half of them by each of two credentials, as each may have two.
const BESIDE_EXPORTS: usize = 4;
const PAGES_BESIDE: usize = 60;
/// Runs of a large tree; the most that one answer contains.
const TREE_RUNS: usize = 10_000;

pub(crate) async fn run(args: GoalsArgs) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    let sections = match args.only.as_slice() {
        [] => Section::value_variants(),
        only => only,
    };
    for section in sections {
        let measured = match section {
            Section::Speed => speed(&args).await,
            Section::Spans => spans(&args).await,
            Section::Freshness => freshness(&args).await,
            Section::Pages => live_pages(&args).await,
            Section::Tree => tree(&args).await,
            Section::Recalculation => recalculation(&args).await,
            Section::Threads => threads(&args).await,
            Section::Large => large(&args).await,
        };
        let measured = measured.with_context(|| format!("{section:?}"))?;
        for figure in &measured {
            eprintln!("{figure}");
        }
        figures.extend(measured);
        // What was measured stays, whatever becomes of the next section.
        if let Some(file) = &args.json {
            let measured = Measured {
                measured_at: Timestamp::now().to_string(),
                figures: figures.clone(),
            };
            std::fs::write(file, serde_json::to_string_pretty(&measured)? + "\n")?;
        }
    }
    for figure in figures {
        println!("{figure}");
    }
    Ok(())
}

impl GoalsArgs {
    async fn server(&self) -> anyhow::Result<Server> {
        Server::start(&self.program, self.folder.clone()).await
    }

    /// A folder that the next measurement finds again.
    fn kept(&self, name: &str) -> String {
        let folder = self.folder.clone().unwrap_or_else(|| "target".into());
        folder.join(name).display().to_string()
    }
}

/// The arguments of another command.
fn arguments<A: Args>(flags: &[&str]) -> anyhow::Result<A> {
    let command = A::augment_args(clap::Command::new("goals").no_binary_name(true));
    Ok(A::from_arg_matches(&command.try_get_matches_from(flags)?)?)
}

async fn load(server: &Server, flags: &[&str]) -> anyhow::Result<Report> {
    let own = ["--url", &server.url, "--key", &server.key];
    let args: LoadArgs = arguments(&[&own[..], flags].concat())?;
    let report = load::measure(&args).await?;
    report.print(false)?;
    Ok(report)
}

/// A load at full speed until it is stored, and what it cost.
struct FullSpeed {
    report: Report,
    stored_per_second: f64,
    /// CPU time of one event, microseconds: of the server, of the engine.
    event_us: [f64; 2],
}

async fn full_speed(server: &Server, flags: &[&str]) -> anyhow::Result<FullSpeed> {
    let before = server.cpu();
    let own = ["--duration", FULL_SPEED, "--sample-every", "0s", "--verify"];
    let own = [&own[..], &["--connections", "8"], flags].concat();
    let report = load(server, &own).await?;
    let spent = server.cpu().since(before);
    let events = report.accepted_events as f64;
    let stored = report.stored.as_ref().context("nothing was stored")?;
    Ok(FullSpeed {
        stored_per_second: stored.per_second,
        event_us: [spent.server, spent.engine].map(|seconds| seconds / events * MICROSECONDS),
        report,
    })
}

async fn speed(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let server = args.server().await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after_start = server.resident_mib();
    let memory = server.watch_memory();
    let FullSpeed {
        report,
        stored_per_second,
        event_us: [of_server, of_engine],
    } = full_speed(&server, &[]).await?;
    let peak = memory.peak_mib();
    tokio::time::sleep(recalculate::SETTLED).await;
    let settled = server.resident_mib();
    drop(server);
    let mut raw = vec!["--block-rows", "66000", "--writers", "2"];
    let folder = args
        .folder
        .as_ref()
        .map(|folder| folder.display().to_string());
    raw.extend(folder.iter().flat_map(|folder| ["--temp-dir", folder]));
    let raw = insert::run(arguments(&raw)?).await?;
    Ok(vec![
        Figure::new("resident after the start", after_start as f64, "MiB").at_most(350.0),
        Figure::new("accepted", report.accepted_per_second, "events/s").at_least(200_000.0),
        Figure::new("accepted, p99", report.answer_ms.p99, "ms").at_most(20.0),
        Figure::new("stored", stored_per_second, "events/s"),
        Figure::new("CPU of the server for an event", of_server, "us").at_most(7.0),
        Figure::new("CPU of the engine for an event", of_engine, "us"),
        Figure::new("CPU for an event", of_server + of_engine, "us").at_most(20.0),
        Figure::new("resident at full speed", peak as f64, "MiB").at_most(900.0),
        Figure::new("resident 20 s later", settled as f64, "MiB"),
        Figure::new("raw", raw, "events/s"),
        Figure::new("stored / raw", stored_per_second / raw, "").at_least(0.75),
    ])
}

async fn spans(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let server = args.server().await?;
    let events = full_speed(&server, &[]).await?;
    drop(server);
    let server = args.server().await?;
    let spans = full_speed(&server, &["--spans"]).await?;
    let per_span = load::EVENTS_PER_SPAN as f64;
    let [of_server, of_engine] = spans.event_us.map(|us| us * per_span);
    let of_two_events = events.event_us.iter().sum::<f64>() * per_span;
    let accepted = spans.report.accepted_per_second / per_span;
    Ok(vec![
        Figure::new("accepted", accepted, "spans/s"),
        Figure::new("stored", spans.stored_per_second / per_span, "spans/s"),
        Figure::new("CPU of the server for a span", of_server, "us"),
        Figure::new("CPU of the engine for a span", of_engine, "us"),
        Figure::new(
            "CPU of a span / of its two events",
            (of_server + of_engine) / of_two_events,
            "",
        )
        .at_most(1.3),
        Figure::new(
            "accepted events/s / accepted spans/s",
            events.report.accepted_per_second / accepted,
            "",
        ),
    ])
}

async fn freshness(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let server = args.server().await?;
    let alone = ["--rate", "1", "--batch-size", "1", "--connections", "1"];
    let alone = [
        &alone[..],
        &["--duration", "20s", "--sample-every", "700ms"],
    ]
    .concat();
    let idle = load(&server, &alone).await?;
    let idle = idle.visible_ms.context("no run was seen")?;
    let full = full_speed(&server, &[]).await?;
    drop(server);
    let server = args.server().await?;
    let half = format!("{:.0}", full.stored_per_second / 2.0);
    let beside = ["--duration", "15s", "--verify", "--rate", &half];
    let beside = load(&server, &beside).await?;
    let beside = beside.visible_ms.context("no run was seen")?;
    Ok(vec![
        Figure::new("visible, one idle batch, p50", idle.p50, "ms").at_most(120.0),
        Figure::new("visible, one idle batch, p99", idle.p99, "ms").at_most(300.0),
        Figure::new("visible at half load, p50", beside.p50, "ms"),
        Figure::new("visible at half load, p99", beside.p99, "ms").at_most(500.0),
    ])
}

async fn live_pages(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let server = args.server().await?;
    let own = ["--url", &server.url, "--key", &server.key];
    let lines = pages::run(arguments(&own)?).await?;
    let newest = lines.first().context("no query was measured")?.p95_ms;
    let mut figures: Vec<Figure> = lines
        .iter()
        .flat_map(|line| {
            let named = |what: &str| format!("list, {}, {what}", line.query);
            [
                Figure::new(named("p50"), line.p50_ms, "ms").at_most(line.goal_p50_ms),
                Figure::new(named("p95"), line.p95_ms, "ms"),
            ]
        })
        .collect();
    let loaded = newest_under_load(&server).await?;
    figures.extend([
        Figure::new("newest under load, p95", loaded.p95, "ms"),
        Figure::new("newest under load / idle, p95", loaded.p95 / newest, "").at_most(3.0),
    ]);
    Ok(figures)
}

/// Newest pages while events arrive and exports run.
async fn newest_under_load(server: &Server) -> anyhow::Result<Quantiles> {
    let mut exports = JoinSet::new();
    for number in 0..BESIDE_EXPORTS {
        let target = match number % 2 {
            0 => server.target()?,
            _ => server.operator_target()?,
        };
        exports.spawn(export_for_ever(target));
    }
    let (url, key) = (server.url.clone(), server.key.clone());
    let events = tokio::spawn(async move {
        let own = ["--url", &url, "--key", &key, "--rate", BESIDE_EVENTS];
        let own = [&own[..], &["--duration", "10m", "--sample-every", "0s"]].concat();
        load::measure(&arguments(&own)?).await
    });
    // The load has begun, and every export has sent something.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let target = server.target()?;
    let mut connection = Connection::default();
    let mut times = Vec::new();
    for _ in 0..PAGES_BESIDE {
        times.push(
            timed(&mut connection, &target, "/api/run/?limit=50")
                .await?
                .0,
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(!events.is_finished(), "the load ended before the pages");
    events.abort();
    if let Some(ended) = exports.try_join_next() {
        ended?.context("an export ended before the pages")?;
    }
    Ok(Quantiles::of(times))
}

async fn export_for_ever(target: Target) -> anyhow::Result<()> {
    loop {
        let answer = Connection::default()
            .get(&target, "/api/run/export?format=jsonl")
            .await?;
        ensure!(
            answer.status == StatusCode::OK,
            "an export answers {}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
}

async fn timed(
    connection: &mut Connection,
    target: &Target,
    path: &str,
) -> anyhow::Result<(Duration, usize)> {
    let asked = Instant::now();
    let answer = connection.get(target, path).await?;
    let took = asked.elapsed();
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(
        answer.status == StatusCode::OK,
        "{path}: {} {text}",
        answer.status
    );
    Ok((took, answer.body.len()))
}

/// A tree of [`TREE_RUNS`]: each run below one of those before it, at random.
async fn tree(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let server = args.server().await?;
    let target = server.target()?;
    let mut connection = Connection::default();
    let start_ms = chrono::Utc::now().timestamp_millis() - 60_000;
    let numbers: Vec<usize> = (0..TREE_RUNS).collect();
    for numbers in numbers.chunks(500) {
        let events = numbers
            .iter()
            .flat_map(|number| tree_run(*number, start_ms));
        let body = json!({ "events": events.collect::<Vec<_>>() });
        let answer = connection
            .report(&target, Bytes::from(body.to_string()))
            .await?;
        ensure!(answer.status == StatusCode::OK, "{}", answer.status);
    }
    let last = format!("/api/run/run-{}", TREE_RUNS - 1);
    while connection.get(&target, &last).await?.status != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut whole, mut first, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..20 {
        first.push(timed(&mut connection, &target, "/api/run/run-0").await?.0);
        let (took, read) = timed(&mut connection, &target, "/api/run/run-0/tree").await?;
        whole.push(took);
        bytes = read;
    }
    let (whole, first) = (Quantiles::of(whole), Quantiles::of(first));
    Ok(vec![
        Figure::new("trace of 10,000 runs: its root, p95", first.p95, "ms").at_most(300.0),
        Figure::new("trace of 10,000 runs: the whole tree, p95", whole.p95, "ms").at_most(1500.0),
        Figure::new(
            "trace of 10,000 runs: the whole tree",
            bytes as f64 / 1e6,
            "MB",
        ),
    ])
}

fn tree_run(number: usize, start_ms: i64) -> [serde_json::Value; 2] {
    let text = |what: &str| format!("{what} {:x}", rand::random::<u128>()).repeat(4);
    let is_call = number % 3 == 1;
    let (kind, at_ms) = (
        if is_call { "llm" } else { "tool" },
        start_ms + number as i64,
    );
    let event = |phase: &str, at_ms| {
        json!({
            "name": format!("{kind}_{phase}"), "type": kind, "app_id": "tree", "run_id": format!("run-{number}"),
            "timestamp": Timestamp::from_ms(at_ms).to_string(),
        })
    };
    let (mut start, mut end) = (event("start", at_ms), event("end", at_ms + 20_000));
    if number > 0 {
        start["parent_run_id"] = format!("run-{}", rand::random_range(0..number)).into();
    }
    if is_call {
        start["model"] = "gpt-4o-mini".into();
        end["prompt_tokens"] = rand::random_range(50..4000).into();
        end["completion_tokens"] = rand::random_range(5..1000).into();
    }
    start["input"] = text("please find").into();
    end["output"] = text("what was found is").into();
    [start, end]
}

async fn recalculation(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let folder = args
        .folder
        .as_ref()
        .map(|folder| folder.display().to_string());
    let flags: Vec<&str> = folder
        .iter()
        .flat_map(|folder| ["--temp-dir", folder])
        .collect();
    let done = recalculate::run(arguments(&flags)?).await?;
    Ok(vec![
        Figure::new("recalculation of 1 million runs", done.seconds, "s").at_most(30.0),
        Figure::new(
            "recalculation, resident at most",
            done.peak_mib as f64,
            "MiB",
        )
        .at_most(700.0),
    ])
}

async fn threads(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let folder = args.kept("thread-bench");
    let lines = thread::run(arguments(&["--folder", &folder])?).await?;
    // The first line is the list without a filter.
    let goals = [100.0].into_iter().chain(std::iter::repeat(200.0));
    Ok(lines
        .into_iter()
        .zip(goals)
        .map(|(line, goal)| p95("threads", line, goal))
        .collect())
}

async fn large(args: &GoalsArgs) -> anyhow::Result<Vec<Figure>> {
    let folder = args.kept("list-bench");
    let sorts = ["longest", "dearest", "most tokens"];
    let lists = list::run(arguments(&["--folder", &folder])?).await?;
    let lists = lists.into_iter().map(|line| {
        let is_sort = sorts.iter().any(|sort| line.name.starts_with(sort));
        p95("10 million runs", line, if is_sort { 100.0 } else { 50.0 })
    });
    let lists: Vec<Figure> = lists.collect();
    let sums = analytics::run(arguments(&["--folder", &folder])?).await?;
    let sums = sums
        .into_iter()
        .map(|line| p95("10 million runs", line, 1000.0));
    Ok(lists.into_iter().chain(sums).collect())
}

fn p95(table: &str, line: Line, goal: f64) -> Figure {
    Figure::new(format!("{table}: {}, p95", line.name), line.first.p95, "ms").at_most(goal)
}
