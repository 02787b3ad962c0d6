//! How fast rows go in: blocks of events of about 1 KB, and half as many runs, into the real engine.
//!
//! `cargo run --release --example insert_bench -p store -- [seconds] [block rows] [writers] [variant]...`
//! A variant changes what is done: `no-runs`, `no-events`, or a table (here `runs`, else `events`):
//! `fenced` (with a deadline), `runs:setting=NAME=VALUE`, `runs:drop-indexes`, `no-fsync`, `replace=OLD=>NEW` in its definition.
//! It is how docs/decisions/0002-embedded-engine.md got its numbers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::Store;
use store::engine::{self, Engine, EngineConfig, Program};
use store::metrics::Metrics;
use store::rows::{CostStatus, EventRow, RunRow, RunStatus};

const POOL: usize = 20_000;
const START_MS: i64 = 1_795_168_800_000;

struct Sample {
    run_id: String,
    payload: String,
    preview: String,
}

fn main() {
    if engine::is_child() {
        engine::run();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments
            .get(index)
            .map_or(default, |text| text.parse().unwrap())
    };
    let (seconds, block, writers) = (number(0, 10), number(1, 50_000), number(2, 1));
    let variants = arguments.get(3..).unwrap_or_default().to_vec();
    let folder = tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or("/tmp".into())).unwrap();
    let program = Program {
        path: std::env::current_exe().unwrap(),
        arguments: Vec::new(),
    };
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let engine = Engine::start(EngineConfig::new(program, folder.path()), metrics.clone()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = Store::connect(engine.store_config("bench"), metrics).unwrap();
    runtime.block_on(async {
        store.migrate().await.unwrap();
        change_tables(&store, &variants).await;
    });
    let pool = Arc::new(samples());
    let bytes = pool
        .iter()
        .map(|sample| sample.payload.len())
        .sum::<usize>()
        / POOL;
    let has = |name: &str| variants.iter().any(|variant| variant == name);
    let (with_events, with_runs) = (!has("no-events"), !has("no-runs"));
    let day = Instant::now() + Duration::from_secs(24 * 60 * 60);
    let store = store.with_deadline(has("fenced").then_some(day));

    let next = Arc::new(AtomicU64::new(0));
    let (done_events, done_runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let engine_id = engine.process_id().unwrap();
    let before = (cpu_seconds(std::process::id()), cpu_seconds(engine_id));
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds as u64);
    runtime.block_on(async {
        let writers = (0..writers).map(|_| {
            let (store, pool, next) = (store.clone(), pool.clone(), next.clone());
            let (done_events, done_runs) = (done_events.clone(), done_runs.clone());
            tokio::spawn(async move {
                while Instant::now() < end {
                    let first = next.fetch_add(block as u64, Ordering::Relaxed);
                    if with_events {
                        let rows = (0..block as u64).map(|n| event(&pool, first + n));
                        done_events
                            .fetch_add(store.insert_events(rows).await.unwrap(), Ordering::Relaxed);
                    }
                    if with_runs {
                        let rows = (0..block as u64 / 2).map(|n| run(&pool, first + n));
                        done_runs
                            .fetch_add(store.insert_runs(rows).await.unwrap(), Ordering::Relaxed);
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
    let took = started.elapsed().as_secs_f64();
    let after = (cpu_seconds(std::process::id()), cpu_seconds(engine_id));
    let (events, runs) = (
        done_events.load(Ordering::Relaxed),
        done_runs.load(Ordering::Relaxed),
    );
    let sql = "SELECT sum(bytes_on_disk) AS b FROM system.parts WHERE active AND database = 'bench' AND table = 'events'";
    let on_disk: u64 = runtime.block_on(store.bounded_query(sql).one()).unwrap();
    println!(
        "{variants:?} block {block} writers {writers}: {:.0} events/s of {bytes} B + {:.0} runs/s, {:.0} MB/s, \
         client {:.2} cores, engine {:.2} cores = {:.2} us/row, {:.0} B/event on disk, engine {} MB",
        events as f64 / took,
        runs as f64 / took,
        events as f64 * bytes as f64 / took / 1e6,
        (after.0 - before.0) / took,
        (after.1 - before.1) / took,
        (after.1 - before.1) / (if with_events { events } else { runs }) as f64 * 1e6,
        on_disk as f64 / events as f64,
        resident_mb(engine_id),
    );
    engine.shutdown();
}

async fn change_tables(store: &Store, variants: &[String]) {
    let config = store.config();
    let client = clickhouse::Client::default()
        .with_url(&config.url)
        .with_user(&config.user)
        .with_password(config.password.reveal())
        .with_database("bench")
        .with_validation(false);
    for table in ["events", "runs"] {
        let show = format!("SHOW CREATE TABLE {table}");
        let mut create: String = client.query_raw(&show).fetch_one().await.unwrap();
        for variant in variants {
            let (of, change) = variant.split_once(':').unwrap_or(("events", variant));
            if of == table {
                create = changed(create, change);
            }
        }
        client
            .query_raw(&format!("DROP TABLE {table} SYNC"))
            .execute()
            .await
            .unwrap();
        client.query_raw(&create).execute().await.unwrap();
    }
}

fn changed(create: String, change: &str) -> String {
    match change.split_once('=') {
        Some(("setting", setting)) => format!("{create}, {setting}"),
        Some(("replace", texts)) => {
            let (old, new) = texts.split_once("=>").unwrap();
            assert!(create.contains(old), "{create}");
            create.replace(old, new)
        }
        _ if change == "no-fsync" => create.replace("= 1", "= 0"),
        _ if change == "drop-indexes" => {
            let lines: Vec<&str> = create
                .lines()
                .filter(|line| !line.contains("INDEX "))
                .collect();
            lines.join("\n").replace(",\n)", "\n)")
        }
        _ => create,
    }
}

fn samples() -> Vec<Sample> {
    let mut random = StdRng::seed_from_u64(7);
    let words: Vec<String> = (0..3000)
        .map(|_| {
            (0..random.random_range(2..10))
                .map(|_| char::from(random.random_range(b'a'..=b'z')))
                .collect()
        })
        .collect();
    (0..POOL)
        .map(|_| {
            let mut text = String::new();
            while text.len() < 640 {
                // Small numbers are frequent words.
                let word = (random.random::<f64>().powi(3) * words.len() as f64) as usize;
                text.push_str(&words[word]);
                text.push(' ');
            }
            let run_id = hex::encode(random.random::<[u8; 16]>());
            let payload = format!(
                "{{\"name\":\"llm_end\",\"run_id\":\"{run_id}\",\"app_id\":\"app-3\",\"timestamp\":\"2026-11-20T10:00:{:02}.{:03}Z\",\
                 \"type\":\"llm\",\"model\":\"gpt-4o-mini\",\"prompt_tokens\":{},\"completion_tokens\":{},\
                 \"metadata\":{{\"user_email\":\"user{}@example.com\",\"agent\":\"researcher\"}},\
                 \"input\":{{\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}},\"output\":{{\"content\":\"{}\"}}}}",
                random.random_range(0..60),
                random.random_range(0..1000),
                random.random_range(10..5000),
                random.random_range(10..900),
                random.random_range(0..500),
                &text[..320],
                &text[320..]
            );
            Sample { run_id, payload, preview: text[..200].to_owned() }
        })
        .collect()
}

const APPS: [&str; 20] = [
    "app-0", "app-1", "app-2", "app-3", "app-4", "app-5", "app-6", "app-7", "app-8", "app-9",
    "app-10", "app-11", "app-12", "app-13", "app-14", "app-15", "app-16", "app-17", "app-18",
    "app-19",
];

/// Row `n`: batches of 100 per app, ids that never repeat, time going on with `n`.
fn event(pool: &[Sample], n: u64) -> EventRow<'_> {
    let sample = &pool[(n % POOL as u64) as usize];
    EventRow {
        project_id: "default",
        app_id: APPS[(n / 100 % 20) as usize],
        timestamp: START_MS + (n / 200) as i64,
        run_id: &sample.run_id,
        event_id: u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        name: "llm_end",
        payload: sample.payload.as_bytes(),
        received_at: START_MS + (n / 200) as i64 + 20,
        stored_at: START_MS + (n / 200) as i64 + 40,
    }
}

fn run(pool: &[Sample], n: u64) -> RunRow<'_> {
    let sample = &pool[(n % POOL as u64) as usize];
    let started_at = START_MS + (n / 200) as i64;
    RunRow {
        project_id: "default",
        app_id: APPS[(n / 100 % 20) as usize],
        started_at,
        run_id: &sample.run_id,
        version: n + 1,
        is_deleted: 0,
        parent_run_id: &pool[(n * 7 % POOL as u64) as usize].run_id,
        root_run_id: &pool[(n * 7 % POOL as u64) as usize].run_id,
        name: "gpt-4o-mini",
        r#type: "llm",
        status: RunStatus::Success,
        agent: "researcher",
        user_email: &sample.payload[220..240],
        model: "gpt-4o-mini",
        tags: vec!["prod", "eu"],
        thread_id: "",
        ended_at: Some(started_at + 900),
        latency_ms: Some(900),
        prompt_tokens: Some(n % 5000),
        completion_tokens: Some(n % 900),
        total_tokens: None,
        cached_tokens: None,
        reasoning_tokens: None,
        cost: i128::from(n % 1_000_000) * 1_000_000_000,
        cost_status: CostStatus::Priced,
        cost_estimated: 0,
        total_cost: i128::from(n % 1_000_000) * 1_000_000_000,
        total_prompt_tokens: n % 5000,
        total_completion_tokens: n % 900,
        total_tokens_with_children: n % 5900,
        llm_calls: 1,
        error_count: 0,
        error_name: "",
        error_message: "",
        saved: 0,
        feedback_rating: "",
        feedback_comment: "",
        feedback_at: None,
        input_preview: &sample.preview,
        output_preview: &sample.preview,
        metadata: vec![("user_email", "user1@example.com"), ("agent", "researcher")],
        first_event_at: started_at,
        last_event_at: started_at + 900,
        updated_at: started_at + 1000,
        state: &sample.payload.as_bytes()[..300],
    }
}

/// User and system time of a process, all its threads.
fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

fn resident_mb(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
        / 1_000_000
}
