//! Raw inserts: blocks of events of about 1 KB, and half as many runs, into a separate engine.
//!
//! `docs/decisions/0002-embedded-engine.md` contains its results.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::fold::{CostStatus, RunStatus};
use store::tables::rows::{EventRow, RunRow};
use store::{Store, StoreError};

use crate::engine::{BenchEngine, temporary_folder};
use crate::process::{cpu_seconds, resident_mib};

const POOL: usize = 20_000;
const START_MS: i64 = 1_795_168_800_000;

struct Sample {
    run_id: String,
    payload: String,
    preview: String,
}

#[derive(Args)]
pub(crate) struct InsertArgs {
    /// How long to insert
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Events in one block; a block of runs has half as many rows
    #[arg(long, value_name = "ROWS", default_value_t = 50_000)]
    block_rows: u64,
    /// Tasks that insert
    #[arg(long, value_name = "N", default_value_t = 1)]
    writers: u64,
    /// Leaves the runs out
    #[arg(long, conflicts_with = "no_events")]
    no_runs: bool,
    /// Leaves the events out
    #[arg(long)]
    no_events: bool,
    /// Inserts with a deadline, as a worker does
    #[arg(long)]
    fenced: bool,
    /// Change of a table's definition, for `events` unless `runs:` is in front: `no-fsync`, `drop-indexes`,
    /// `setting=NAME=VALUE` or `replace=OLD=>NEW`
    #[arg(long = "table", value_name = "CHANGE")]
    changes: Vec<String>,
    /// Where the engine's temporary folder is made [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

#[derive(Default)]
struct Inserted {
    next: AtomicU64,
    events: AtomicU64,
    runs: AtomicU64,
}

/// Prints what was measured, and gives events per second.
pub(crate) async fn run(args: InsertArgs) -> anyhow::Result<f64> {
    let folder = temporary_folder(args.temp_dir.clone())?;
    let BenchEngine {
        engine,
        store,
        client,
    } = BenchEngine::start(folder.path()).await?;
    change_tables(&client, &args.changes).await?;
    let pool = Arc::new(samples());
    let bytes = pool
        .iter()
        .map(|sample| sample.payload.len())
        .sum::<usize>()
        / POOL;
    let day = Instant::now() + Duration::from_secs(24 * 60 * 60);
    let store = store.with_deadline(args.fenced.then_some(day));

    let args = Arc::new(args);
    let inserted = Arc::new(Inserted::default());
    let engine_id = engine.process_id().context("the engine has ended")?;
    let before = (cpu_seconds(std::process::id()), cpu_seconds(engine_id));
    let started = Instant::now();
    let end = started + args.duration;
    let writers: Vec<_> = (0..args.writers)
        .map(|_| {
            let writer = Writer {
                args: Arc::clone(&args),
                store: store.clone(),
                pool: Arc::clone(&pool),
                inserted: Arc::clone(&inserted),
            };
            tokio::spawn(writer.write_until(end))
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    let took = started.elapsed().as_secs_f64();
    let after = (cpu_seconds(std::process::id()), cpu_seconds(engine_id));
    let (events, runs) = (
        inserted.events.load(Ordering::Relaxed),
        inserted.runs.load(Ordering::Relaxed),
    );
    let sql = "SELECT sum(bytes_on_disk) AS b FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'";
    let on_disk: u64 = store.bounded_query(sql).one().await?;
    println!(
        "{:?} block {} writers {}: {:.0} events/s of {bytes} B + {:.0} runs/s, {:.0} MB/s, \
         client {:.2} cores, engine {:.2} cores = {:.2} us/row, {:.0} B/event on disk, engine {} MiB",
        args.changes,
        args.block_rows,
        args.writers,
        events as f64 / took,
        runs as f64 / took,
        events as f64 * bytes as f64 / took / 1e6,
        (after.0 - before.0) / took,
        (after.1 - before.1) / took,
        (after.1 - before.1) / (if args.no_events { runs } else { events }) as f64 * 1e6,
        on_disk as f64 / events as f64,
        resident_mib(engine_id),
    );
    Ok(events as f64 / took)
}

struct Writer {
    args: Arc<InsertArgs>,
    store: Store,
    pool: Arc<Vec<Sample>>,
    inserted: Arc<Inserted>,
}

impl Writer {
    async fn write_until(self, end: Instant) -> Result<(), StoreError> {
        let (pool, inserted) = (&self.pool, &self.inserted);
        let rows = self.args.block_rows;
        while Instant::now() < end {
            let first = inserted.next.fetch_add(rows, Ordering::Relaxed);
            if !self.args.no_events {
                let events = (0..rows).map(|n| event_row(pool, first + n));
                let count = self.store.insert_events(events).await?;
                inserted.events.fetch_add(count, Ordering::Relaxed);
            }
            if !self.args.no_runs {
                let runs = (0..rows / 2).map(|n| run_row(pool, first + n));
                let count = self.store.insert_runs(runs).await?;
                inserted.runs.fetch_add(count, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

async fn change_tables(client: &clickhouse::Client, changes: &[String]) -> anyhow::Result<()> {
    for table in ["events", "runs"] {
        let show = format!("SHOW CREATE TABLE {table}");
        let mut create: String = client.query_raw(&show).fetch_one().await?;
        for change in changes {
            let (of, change) = change.split_once(':').unwrap_or(("events", change));
            if of == table {
                create = changed(create, change)?;
            }
        }
        client
            .query_raw(&format!("DROP TABLE {table} SYNC"))
            .execute()
            .await?;
        client.query_raw(&create).execute().await?;
    }
    Ok(())
}

fn changed(create: String, change: &str) -> anyhow::Result<String> {
    Ok(match change.split_once('=') {
        Some(("setting", setting)) => format!("{create}, {setting}"),
        Some(("replace", texts)) => {
            let (old, new) = texts.split_once("=>").context("--table replace=OLD=>NEW")?;
            ensure!(create.contains(old), "{create} does not contain {old}");
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
        _ => bail!("--table {change:?}: unknown change"),
    })
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

/// Row `n`: batches of 100 per app, ids that never repeat, time that advances with `n`.
fn event_row(pool: &[Sample], n: u64) -> EventRow<'_> {
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

fn run_row(pool: &[Sample], n: u64) -> RunRow<'_> {
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
        ttft_ms: None,
        cached_tokens: None,
        reasoning_tokens: None,
        cost: i128::from(n % 1_000_000) * 1_000_000_000,
        cost_status: CostStatus::Priced,
        cost_estimated: 0,
        counted_run_id: "",
        enclosing_call: "",
        turn_at: 0,
        call_links: &[],
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
        calls: 1,
        input_preview: &sample.preview,
        output_preview: &sample.preview,
        metadata: vec![("user_email", "user1@example.com"), ("agent", "researcher")],
        first_event_at: started_at,
        last_event_at: started_at + 900,
        updated_at: started_at + 1000,
        state: &sample.payload.as_bytes()[..300],
    }
}
