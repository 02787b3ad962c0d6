//! How fast sums, facets and searches are at ten million runs:
//! `cargo run --release -p store --example analytics_bench [runs] [folder]`.
//!
//! Uses the table of `list_bench` (a folder that is kept). Then a twentieth of all runs, spread over all days, is
//! written again, as a recalculation of prices does, and the sums are measured over that. Last, texts are searched,
//! before and after the days are indexed. What is written again stays, so take a fresh folder for a fresh measurement.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use schemas::filter::RunQuery;
use schemas::usage::{GroupBy, Interval, Question};
use store::current::Scope;
use store::filter_sql::Projects;
use store::usage::Grouping;
use store::{Store, StoreError};

#[path = "filled/runs.rs"]
mod runs;

use runs::{Failure, Filled, quantiles};

/// Times each question is asked.
const ROUNDS: usize = 20;

const REWRITE: &str = "INSERT INTO runs SELECT * REPLACE(version + 2000000000 AS version, cost + 1 AS cost) FROM runs \
    WHERE cityHash64(run_id) % 20 = 0";

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
        println!("{:60} {:>8} {:>8}", "ms", "p50", "p95");
        sums(&filled, "each run written once").await?;
        say(&filled, "SYSTEM STOP MERGES runs").await?;
        say(&filled, REWRITE).await?;
        sums(&filled, "a twentieth written again").await?;
        say(&filled, "SYSTEM START MERGES runs").await?;
        searches(&filled, "scanned").await?;
        index(&filled).await?;
        searches(&filled, "indexed").await
    })
}

async fn say(filled: &Filled, sql: &str) -> Result<(), Failure> {
    let statement = filled
        .client
        .query_raw(sql)
        .with_setting("max_partitions_per_insert_block", "0")
        .with_setting("min_insert_block_size_rows", "4000000")
        .with_setting("max_insert_block_size", "4000000")
        .with_setting("exclude_materialize_skip_indexes_on_insert", "by_text");
    Ok(statement.execute().await?)
}

fn shown(name: &str, times: Vec<Duration>) {
    let (p50, p95) = quantiles(times);
    println!("{name:60} {p50:8.0} {p95:8.0}");
}

/// Every sum over thirty days, which is all there is.
async fn sums(filled: &Filled, state: &str) -> Result<(), Failure> {
    let (store, now_ms) = (&filled.store, filled.now_ms + 1);
    let projects = Projects::Only(vec!["default".to_owned()]);
    let question = Question::from_pairs([], &[], now_ms).map_err(|fault| fault.message)?;
    let scope = Scope {
        projects: &projects,
        filter: &question.filter,
        now_ms,
    };
    let by = |by, interval| Grouping { by, interval };
    let (mut costs, mut models, mut agents, mut users, mut errors, mut facets) =
        (vec![], vec![], vec![], vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        costs.push(timed(store.spend(scope, by(GroupBy::Model, Some(Interval::Day)))).await?);
        models.push(timed(store.activity(scope, by(GroupBy::Model, None))).await?);
        agents.push(timed(store.activity(scope, by(GroupBy::Agent, None))).await?);
        errors.push(timed(store.failures(scope, by(GroupBy::Reason, None))).await?);
        if round % 4 == 0 {
            users.push(timed(store.activity(scope, by(GroupBy::UserEmail, None))).await?);
            facets.push(timed(store.facets(scope)).await?);
        }
    }
    for (name, times) in [
        ("costs by day and model", costs),
        ("models", models),
        ("agents", agents),
        ("errors", errors),
        ("users, 100,000 of them", users),
        ("facets, eight of them", facets),
    ] {
        shown(&format!("{name}, {state}"), times);
    }
    Ok(())
}

/// Searches among the newest million runs and among all.
async fn searches(filled: &Filled, state: &str) -> Result<(), Failure> {
    for (reach, days) in [("a million", 3), ("all", 30)] {
        for (name, text) in [
            ("in every run", "Long History"),
            ("in 3 of 100", "429: too many"),
            ("in few", "7123456"),
            ("in none", "xyzzyx"),
            ("two letters, in none", "~~"),
        ] {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                times.push(search(filled, text, days).await?);
            }
            shown(&format!("search, {reach}: {name}, {state}"), times);
        }
    }
    Ok(())
}

async fn search(filled: &Filled, text: &str, days: i64) -> Result<Duration, Failure> {
    let from = (filled.now_ms - days * 86_400_000).to_string();
    let query = RunQuery::from_pairs([("q", text), ("from", &from)]);
    let query = query.map_err(|fault| fault.message)?;
    let projects = Projects::Only(vec!["default".to_owned()]);
    let list = filled
        .store
        .list_runs(&projects, &query, None, filled.now_ms);
    Ok(timed(list).await?)
}

/// Indexes every day that ended, one after the other.
async fn index(filled: &Filled) -> Result<(), Failure> {
    let started = Instant::now();
    let store: &Store = &filled.store;
    let mut days = 0;
    loop {
        let ordered = store
            .index_texts(filled.now_ms + 2 * 86_400_000)
            .await?
            .is_some();
        days += u32::from(ordered);
        let open = "SELECT count() FROM system.mutations WHERE database = currentDatabase() AND NOT is_done";
        while store.bounded_query(open).one::<u64>().await? > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if !ordered {
            println!(
                "{days} days indexed in {:.0} s",
                started.elapsed().as_secs_f64()
            );
            return Ok(());
        }
    }
}

async fn timed<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<Duration, StoreError> {
    let started = Instant::now();
    work.await?;
    Ok(started.elapsed())
}
