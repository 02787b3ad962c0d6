//! How fast the processor's look-ups are over many stored runs.
//!
//! `cargo run --release --example lookup_bench -p store -- [runs]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark fails by panicking"
)]

use std::time::Instant;

use prometheus::Registry;
use rand::Rng;
use store::Store;
use store::engine::{self, Engine, EngineConfig, Program};
use store::metrics::Metrics;

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

fn main() {
    if engine::is_child() {
        engine::run();
    }
    let runs: u64 = std::env::args()
        .nth(1)
        .map_or(10_000_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let program = Program {
        path: std::env::current_exe().unwrap(),
        arguments: Vec::new(),
    };
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let engine = Engine::start(EngineConfig::new(program, folder.path()), metrics.clone()).unwrap();
    let store = Store::connect(engine.store_config("bench"), metrics).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        store.migrate().await.unwrap();
        fill(&store, runs).await;
        look_up(&store, runs).await;
    });
    engine.shutdown();
}

async fn fill(store: &Store, runs: u64) {
    let config = store.config();
    let client = clickhouse::Client::default()
        .with_url(&config.url)
        .with_user(&config.user)
        .with_password(config.password.reveal())
        .with_database("bench");
    let started = Instant::now();
    for first in (0..runs).step_by(1_000_000) {
        client
            .query_raw(FILL)
            .param("first", first)
            .execute()
            .await
            .unwrap();
    }
    println!(
        "{runs} runs stored in {:.0} s",
        started.elapsed().as_secs_f64()
    );
}

async fn look_up(store: &Store, runs: u64) {
    for count in [1, 100, 1000, 10_000] {
        let mut best = f64::MAX;
        let mut states = 0;
        for _ in 0..5 {
            let (app, ids) = random_runs(store, runs, count).await;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let started = Instant::now();
            states = store
                .load_states("default", &app, &ids)
                .await
                .unwrap()
                .len();
            best = best.min(started.elapsed().as_secs_f64());
        }
        println!("{states} states of {count} ids: {:.1} ms", best * 1000.0);
    }
    let (app, ids) = random_runs(store, runs, 1000).await;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let started = Instant::now();
    let children = store
        .children_of("default", &app, &ids, ("", 50_000))
        .await
        .unwrap()
        .len();
    println!(
        "{children} children of 1000 runs: {:.1} ms",
        started.elapsed().as_secs_f64() * 1000.0
    );
    let started = Instant::now();
    let mut sum = 0_u64;
    let known = store
        .known_runs(None, |hash| sum = sum.wrapping_add(hash))
        .await
        .unwrap();
    println!(
        "{known} known runs: {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    let waiting = store
        .waiting_parents(None, |hash| sum = sum.wrapping_add(hash))
        .await
        .unwrap();
    println!(
        "{waiting} waiting parents: {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

/// Ids of one app, from a window of recent runs as a processor would ask for them.
async fn random_runs(store: &Store, runs: u64, count: u64) -> (String, Vec<String>) {
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
        .await
        .unwrap();
    (format!("app-{app}"), ids)
}
