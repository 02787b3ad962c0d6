//! Usage totals, facets and searches over the table of [`crate::runs_table`].
//!
//! First the totals over runs that were written once, then after a twentieth of all runs, spread over all days, was
//! replaced, as a recalculation of prices does. Last, texts are searched, before and after the days are indexed.
//! Replaced rows stay: use a new folder for a new measurement.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use schemas::filter::RunQuery;
use schemas::usage::{GroupBy, Interval, Question};
use store::StoreError;
use store::reads::current::Scope;
use store::reads::filter_sql::Projects;
use store::reads::usage::Grouping;

use crate::round::{Line, Quantiles};
use crate::runs_table::{RunsTable, RunsTableArgs};

/// Repetitions of each query.
const ROUNDS: usize = 20;

const REWRITE: &str = "INSERT INTO runs SELECT * REPLACE(version + 2000000000 AS version, cost + 1 AS cost) FROM runs \
    WHERE cityHash64(run_id) % 20 = 0";

/// Prints a line for each query, and changes the table in between. Gives the totals.
pub(crate) async fn run(args: RunsTableArgs) -> anyhow::Result<Vec<Line>> {
    let table = RunsTable::open(args).await?;
    println!("{:60} {:>8} {:>8}", "ms", "p50", "p95");
    let mut lines = totals(&table, "each run written once").await?;
    execute(&table, "SYSTEM STOP MERGES runs").await?;
    execute(&table, REWRITE).await?;
    lines.extend(totals(&table, "a twentieth written again").await?);
    execute(&table, "SYSTEM START MERGES runs").await?;
    searches(&table, "scanned").await?;
    index(&table).await?;
    searches(&table, "indexed").await?;
    Ok(lines)
}

async fn execute(table: &RunsTable, sql: &str) -> anyhow::Result<()> {
    let statement = table
        .engine
        .client
        .query_raw(sql)
        .with_setting("max_partitions_per_insert_block", "0")
        .with_setting("min_insert_block_size_rows", "4000000")
        .with_setting("max_insert_block_size", "4000000")
        .with_setting("exclude_materialize_skip_indexes_on_insert", "by_text");
    Ok(statement.execute().await?)
}

fn print(name: String, times: Vec<Duration>) -> Line {
    let first = Quantiles::of(times);
    println!("{name:60} {:8.0} {:8.0}", first.p50, first.p95);
    Line { name, first }
}

/// Every total over thirty days, which is the whole table.
async fn totals(table: &RunsTable, state: &str) -> anyhow::Result<Vec<Line>> {
    let (store, now_ms) = (&table.engine.store, table.now_ms + 1);
    let projects = Projects::Only(vec!["default".to_owned()]);
    let question = Question::from_pairs([], &[], now_ms).map_err(|error| anyhow!(error.message))?;
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
    let measured = [
        ("costs by day and model", costs),
        ("models", models),
        ("agents", agents),
        ("errors", errors),
        ("users, 100,000 of them", users),
        ("facets, eight of them", facets),
    ];
    let lines = measured.map(|(name, times)| print(format!("{name}, {state}"), times));
    Ok(lines.into())
}

/// Searches among the newest million runs and among all.
async fn searches(table: &RunsTable, state: &str) -> anyhow::Result<()> {
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
                times.push(search(table, text, days).await?);
            }
            print(format!("search, {reach}: {name}, {state}"), times);
        }
    }
    Ok(())
}

async fn search(table: &RunsTable, text: &str, days: i64) -> anyhow::Result<Duration> {
    let from = (table.now_ms - days * 86_400_000).to_string();
    let query = RunQuery::from_pairs([("q", text), ("from", &from)]);
    let query = query.map_err(|error| anyhow!(error.message))?;
    let projects = Projects::Only(vec!["default".to_owned()]);
    let list = table
        .engine
        .store
        .list_runs(&projects, &query, None, table.now_ms);
    Ok(timed(list).await?)
}

/// Indexes every day that ended, one after the other.
async fn index(table: &RunsTable) -> anyhow::Result<()> {
    let started = Instant::now();
    let store = &table.engine.store;
    let mut days = 0;
    loop {
        let ordered = store
            .index_texts(table.now_ms + 2 * 86_400_000)
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
