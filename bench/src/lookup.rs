//! The processor's lookups over many stored runs.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rand::Rng;
use store::Store;
use store::reads::states::ChildPage;

use crate::engine::{BenchEngine, temporary_folder};

#[derive(Args)]
pub(crate) struct LookupArgs {
    /// Runs in the table, rounded up to millions
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    runs: u64,
    /// Where the engine's temporary folder is made [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

/// Runs over 30 days in 20 apps; every fifth is a root and has four children.
const FILL: &str = "INSERT INTO runs (project_id, app_id, started_at, run_id, version, parent_run_id, root_run_id, name, \
    type, status, agent, user_email, model, cost_status, input_preview, output_preview, state) \
    SELECT 'default', concat('app-', toString(intDiv(number, 5) % 20)), \
      fromUnixTimestamp64Milli(toInt64(1795168800000 - number * 250)), lower(hex(MD5(toString(number)))), number + 1, \
      if(number % 5 = 0, '', lower(hex(MD5(toString(number - number % 5))))), \
      lower(hex(MD5(toString(number - number % 5)))), 'step', 'llm', 2, 'researcher', \
      concat('user', toString(number % 500), '@example.com'), 'gpt-4o-mini', 1, \
      randomPrintableASCII(120), randomPrintableASCII(120), randomPrintableASCII(200) \
    FROM numbers({first:UInt64}, 1000000)";

/// Prints a line for each look-up.
pub(crate) async fn run(args: LookupArgs) -> anyhow::Result<()> {
    let folder = temporary_folder(args.temp_dir)?;
    let engine = BenchEngine::start(folder.path()).await?;
    fill(&engine.client, args.runs).await?;
    measure(&engine.store, args.runs).await
}

async fn fill(client: &clickhouse::Client, runs: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    for first in (0..runs).step_by(1_000_000) {
        client
            .query_raw(FILL)
            .param("first", first)
            .execute()
            .await?;
    }
    println!(
        "{runs} runs stored in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn measure(store: &Store, runs: u64) -> anyhow::Result<()> {
    for count in [1, 100, 1000, 10_000] {
        let mut best = f64::MAX;
        let mut states = 0;
        for _ in 0..5 {
            let RecentRuns { app, ids } = RecentRuns::pick(store, runs, count).await?;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let started = Instant::now();
            states = store.load_states("default", &app, &ids).await?.len();
            best = best.min(started.elapsed().as_secs_f64());
        }
        println!("{states} states of {count} ids: {:.1} ms", best * 1000.0);
    }
    let RecentRuns { app, ids } = RecentRuns::pick(store, runs, 1000).await?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let started = Instant::now();
    let children = store
        .children_of(
            "default",
            &app,
            &ids,
            ChildPage {
                after: "",
                limit: 50_000,
            },
        )
        .await?
        .len();
    println!(
        "{children} children of 1000 runs: {:.1} ms",
        started.elapsed().as_secs_f64() * 1000.0
    );
    let started = Instant::now();
    let mut sum = 0_u64;
    let known = store
        .known_runs(None, |hash| sum = sum.wrapping_add(hash))
        .await?;
    println!(
        "{known} known runs: {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    let waiting = store
        .waiting_parents(None, |hash| sum = sum.wrapping_add(hash))
        .await?;
    println!(
        "{waiting} waiting parents: {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs of one app from a window of recent runs, like the look-ups of a processor.
struct RecentRuns {
    app: String,
    ids: Vec<String>,
}

impl RecentRuns {
    async fn pick(store: &Store, runs: u64, count: u64) -> anyhow::Result<Self> {
        let (app, first) = {
            let mut random = rand::rng();
            (
                random.random_range(0..20_u64),
                random.random_range(0..runs / 2),
            )
        };
        let sql = "SELECT lower(hex(MD5(toString(n)))) FROM (SELECT {first:UInt64} + rand64() % {span:UInt64} AS r, \
               r - r % 100 + {app:UInt64} * 5 + r % 5 AS n FROM numbers({count:UInt64}))";
        let ids = store
            .bounded_query(sql)
            .param("first", first)
            .param("span", runs / 2)
            .param("app", app)
            .param("count", count)
            .rows()
            .await?;
        Ok(Self {
            app: format!("app-{app}"),
            ids,
        })
    }
}
