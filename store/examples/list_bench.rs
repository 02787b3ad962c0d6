//! How fast the run list is at ten million runs: `cargo run --release -p store --example list_bench [runs] [folder]`.
//!
//! Fills a table in the folder (default `target/list-bench`, kept, so a second run starts at once) with runs of
//! thirty days in twenty apps, and prints the median and the 95th percentile of pages by filter.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use schemas::cursor::Cursor;
use schemas::filter::RunQuery;
use store::filter_sql::Projects;
use store::{Store, StoreError};

#[path = "filled/runs.rs"]
mod runs;

use runs::{Failure, quantiles};

/// Pages per question, each with other values.
const ROUNDS: usize = 60;
fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "engine") {
        store::engine::run()
    }
    let runs = arguments
        .first()
        .map_or(Ok(10_000_000), |runs| runs.parse())?;
    let folder = PathBuf::from(arguments.get(1).map_or("target/list-bench", String::as_str));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let filled = runs::open(runs, folder).await?;
        measure(&filled.store, filled.now_ms).await
    })
}

/// A question with a place for a number that differs from round to round.
const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    ("newest", &[]),
    ("newest, 1000 to a page", &[("limit", "1000")]),
    ("oldest", &[("sort", "started_at")]),
    ("status=error", &[("status", "error")]),
    ("status=started", &[("status", "started")]),
    ("model", &[("model", "model-{12}")]),
    ("model unknown", &[("model", "gone-{1000}")]),
    ("agent", &[("agent", "writer")]),
    ("agent unknown", &[("agent", "gone-{1000}")]),
    ("user", &[("user_email", "user{100000}@example.com")]),
    (
        "user unknown",
        &[("user_email", "gone{100000}@example.com")],
    ),
    ("tag common", &[("tags", "eu")]),
    ("tag rare", &[("tags", "rare")]),
    ("tags any of two", &[("tags", "rare,us")]),
    ("latency at least, common", &[("min_latency_s", "2.{100}")]),
    ("latency at least, rare", &[("min_latency_s", "2{100}")]),
    ("latency at most, rare", &[("max_latency_s", "0.00{10}")]),
    (
        "latency between, rare",
        &[("min_latency_s", "12.345"), ("max_latency_s", "12.345")],
    ),
    ("cost at least, common", &[("min_cost", "0.0{100}")]),
    ("cost at least, rare", &[("min_cost", "0.9{100}")]),
    (
        "cost between, rare",
        &[("min_cost", "0.0123"), ("max_cost", "0.012300{10}")],
    ),
    ("from to, three days", &[("from", "@20"), ("to", "@17")]),
    (
        "all but rare",
        &[
            ("status", "success"),
            ("agent", "writer"),
            ("tags", "eu"),
            ("min_latency_s", "1"),
            ("min_cost", "0.001"),
        ],
    ),
    (
        "all, little found",
        &[
            ("status", "error"),
            ("agent", "writer"),
            ("model", "model-{12}"),
            ("tags", "eu"),
            ("min_latency_s", "3"),
            ("min_cost", "0.01"),
        ],
    ),
    (
        "all, nothing found",
        &[
            ("status", "error"),
            ("agent", "writer"),
            ("model", "model-{12}"),
            ("tags", "rare"),
            ("min_latency_s", "3"),
            ("max_latency_s", "3.5"),
            ("min_cost", "0.01"),
            ("max_cost", "0.02"),
        ],
    ),
    (
        "user and status",
        &[
            ("user_email", "user{100000}@example.com"),
            ("status", "error"),
        ],
    ),
    ("longest", &[("sort", "-latency_s")]),
    ("dearest", &[("sort", "-total_cost")]),
    ("most tokens", &[("sort", "-total_tokens")]),
];

async fn measure(store: &Store, now_ms: i64) -> Result<(), Failure> {
    println!(
        "{:34} {:>9} {:>9} {:>9} {:>9}   in one app {:>8} {:>8}",
        "ms", "p50", "p95", "deep p50", "deep p95", "p50", "p95"
    );
    for (name, pairs) in QUESTIONS {
        let (mut first, mut deep, mut app) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let owned: Vec<(String, String)> = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), vary(value, round, now_ms)))
                .collect();
            let mut query = query_of(&owned)?;
            first.push(page(store, &query, None, now_ms).await?);
            // A page somewhere in the depth: after a run that started long ago.
            let cursor = Cursor {
                sort: query.sort,
                fingerprint: query.fingerprint(),
                since_ms: now_ms,
                value: None,
                started_at_ms: now_ms - (1 + round as i64 * 7 % 25) * 86_400_000,
                project_id: "default".to_owned(),
                app_id: String::new(),
                run_id: String::new(),
            };
            if matches!(
                query.sort,
                schemas::filter::Sort::StartedAtDesc | schemas::filter::Sort::StartedAtAsc
            ) {
                deep.push(page(store, &query, Some(&cursor), now_ms).await?);
            }
            query.filter.app_id = Some(format!("app-{}", round % 20));
            app.push(page(store, &query, None, now_ms).await?);
        }
        let (first, deep, app) = (quantiles(first), quantiles(deep), quantiles(app));
        println!(
            "{name:34} {:9.1} {:9.1} {:9.1} {:9.1}              {:8.1} {:8.1}",
            first.0, first.1, deep.0, deep.1, app.0, app.1
        );
    }
    Ok(())
}

fn query_of(pairs: &[(String, String)]) -> Result<RunQuery, Failure> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    RunQuery::from_pairs(pairs).map_err(|fault| fault.message.into())
}

async fn page(
    store: &Store,
    query: &RunQuery,
    cursor: Option<&Cursor>,
    now_ms: i64,
) -> Result<Duration, StoreError> {
    let projects = Projects::Only(vec!["default".to_owned()]);
    let started = Instant::now();
    store.list_runs(&projects, query, cursor, now_ms).await?;
    Ok(started.elapsed())
}

/// `{n}` becomes a number below n that differs from round to round, `@n` the time n days ago.
fn vary(text: &str, round: usize, now_ms: i64) -> String {
    if let Some(days) = text
        .strip_prefix('@')
        .and_then(|days| days.parse::<i64>().ok())
    {
        return (now_ms - days * 86_400_000).to_string();
    }
    match text
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        Some((before, (below, after))) => {
            let below: usize = below.parse().unwrap_or(1);
            format!("{before}{}{after}", round * 7919 % below)
        }
        None => text.to_owned(),
    }
}
