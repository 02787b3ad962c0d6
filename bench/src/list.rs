//! The run list: median and 95th percentile of pages by filter.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use schemas::cursor::Cursor;
use schemas::filter::RunQuery;
use store::reads::filter_sql::Projects;
use store::{Store, StoreError};

use crate::round::{Line, Quantiles, long_ago, parameters};
use crate::runs_table::{RunsTable, RunsTableArgs};

/// Pages per query, each with other values.
const ROUNDS: usize = 60;

/// Prints a line for each query; gives the first pages and the deep ones.
pub(crate) async fn run(args: RunsTableArgs) -> anyhow::Result<Vec<Line>> {
    let table = RunsTable::open(args).await?;
    measure(&table.engine.store, table.now_ms).await
}

/// A query with a placeholder for a number that differs from round to round.
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

async fn measure(store: &Store, now_ms: i64) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    println!(
        "{:34} {:>9} {:>9} {:>9} {:>9}   in one app {:>8} {:>8}",
        "ms", "p50", "p95", "deep p50", "deep p95", "p50", "p95"
    );
    for (name, pairs) in QUESTIONS {
        let (mut first, mut deep, mut app) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let mut query = query_of(&parameters(pairs, round, now_ms))?;
            first.push(page(store, &query, None, now_ms).await?);
            // A page deep in the list: after a run that started long ago.
            let cursor = Cursor {
                since_ms: now_ms,
                value: None,
                started_at_ms: long_ago(round, now_ms),
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
        let (first, deep, app) = (
            Quantiles::of(first),
            Quantiles::of(deep),
            Quantiles::of(app),
        );
        println!(
            "{name:34} {:9.1} {:9.1} {:9.1} {:9.1}              {:8.1} {:8.1}",
            first.p50, first.p95, deep.p50, deep.p95, app.p50, app.p95
        );
        let line = |name: String, first| Line { name, first };
        lines.push(line((*name).to_owned(), first));
        lines.push(line(format!("{name}, deep"), deep));
        lines.push(line(format!("{name}, in one app"), app));
    }
    lines.retain(|line| !line.first.p50.is_nan());
    Ok(lines)
}

fn query_of(pairs: &[(String, String)]) -> anyhow::Result<RunQuery> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    RunQuery::from_pairs(pairs).map_err(|error| anyhow!(error.message))
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
