//! A recalculation of all costs.
//!
//! Reports runs in trees of four (an agent and three model calls) over thirty days in twenty apps, waits until they are
//! stored, changes the price of every model, and measures the job from the request to its end, when every run and every
//! total has the cost of the new table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use clap::Args;
use control::Barrier;
use eventlog::{EmbeddedConfig, EmbeddedLog, Log, MemoryLog, Record};
use processor::jobs::{JobParts, PIECE_ROWS, Runner};
use processor::{Dependencies, GROUP, Metrics, Processor, ProcessorConfig};
use prometheus::Registry;
use schemas::ids::{AppId, ProjectId};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use schemas::record::RecordHeader;
use store::Store;
use store::jobs::{Asked, JobKind, NewJob};
use tokio::sync::watch;

use crate::engine::{BenchEngine, temporary_folder};
use crate::process::PeakMemory;

const APPS: u64 = 20;
const TREES_PER_RECORD: u64 = 250;
const DAY_MS: u64 = 86_400_000;
/// Time in which memory is given back after a load.
pub(crate) const SETTLED: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(crate) struct RecalculateArgs {
    /// Runs to report, in trees of four
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    runs: u64,
    /// Where the temporary folder of engine and log is made [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

/// What a recalculation took.
pub(crate) struct Recalculated {
    pub(crate) seconds: f64,
    /// Of this process, which is server and generator, and of the engine.
    pub(crate) peak_mib: u64,
}

/// Stores the runs, runs the job twice, first as a dry run, and prints both times; gives the second.
pub(crate) async fn run(args: RecalculateArgs) -> anyhow::Result<Recalculated> {
    let folder = temporary_folder(args.temp_dir)?;
    let engine = BenchEngine::start(&folder.path().join("engine")).await?;
    let log = EmbeddedConfig::new(folder.path().join("log"));
    let log: Arc<dyn Log> = Arc::new(EmbeddedLog::open(log, &Registry::new())?);
    let processes = [Some(std::process::id()), engine.engine.process_id()];
    measure(engine.store.clone(), log, args.runs / 4, processes).await
}

async fn measure(
    store: Store,
    log: Arc<dyn Log>,
    trees: u64,
    processes: [Option<u32>; 2],
) -> anyhow::Result<Recalculated> {
    let (prices, prices_now) = watch::channel(table(1_000_000_000));
    let barrier = Barrier::default();
    let dependencies = Dependencies {
        log: log.clone(),
        dead_letters: Arc::new(MemoryLog::new(1)),
        tables: Arc::new(store.clone()),
        prices: prices_now.clone(),
        barrier: barrier.clone(),
    };
    let (_stop, stopped) = watch::channel(false);
    let processor = Processor::new(
        ProcessorConfig::default(),
        dependencies,
        Metrics::new(&Registry::new())?,
    );
    tokio::spawn(processor.run(stopped.clone()));
    let started = Instant::now();
    for first in (0..trees).step_by(TREES_PER_RECORD as usize) {
        log.append(record(first, trees)).await?;
    }
    drained(&log).await?;
    println!(
        "{} runs reported and stored in {:.1} s",
        trees * 4,
        started.elapsed().as_secs_f64()
    );
    prices.send_replace(table(1_000_000_001));
    let runner = Runner::new(JobParts {
        store: store.clone(),
        log,
        barrier,
        prices: prices_now,
        piece_rows: PIECE_ROWS,
        retention_minute: None,
    });
    tokio::spawn(runner.run(stopped));
    // What reporting the runs took is given back first.
    tokio::time::sleep(SETTLED).await;
    let memory = PeakMemory::watch(processes);
    let mut seconds = 0.0;
    for parameters in ["{\"dry_run\":true}", "{\"dry_run\":false}"] {
        let started = Instant::now();
        let new = NewJob {
            kind: JobKind::Recalculate,
            project_id: None,
            parameters: parameters.to_owned(),
        };
        let Asked::Made(job, _) = store.jobs().create(new, 0).await? else {
            bail!("the job was not created");
        };
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let Some(now) = store.jobs().get(&job.job_id).await? else {
                continue;
            };
            if now.state.is_over() {
                seconds = started.elapsed().as_secs_f64();
                println!(
                    "{parameters}: {:?} after {:.1} s, {} calls read, {} changed, {}",
                    now.state, seconds, now.done, now.changed, now.report
                );
                break;
            }
        }
    }
    Ok(Recalculated {
        seconds,
        peak_mib: memory.peak_mib(),
    })
}

fn table(units: i128) -> Arc<PriceTable> {
    let rate = Rate::from_units(units).unwrap_or_default();
    Arc::new(PriceTable::new([PriceRow {
        key: PriceKey {
            model: "model-".to_owned(),
            is_prefix: true,
            effective_from: None,
        },
        rates: Rates {
            input: rate,
            output: rate,
            cached_input: None,
            total: None,
            special: None,
        },
    }]))
}

/// Some trees of one app, spread over thirty days.
fn record(first: u64, trees: u64) -> Record {
    let app = format!("app-{}", first / TREES_PER_RECORD % APPS);
    let now_ms = chrono::Utc::now().timestamp_millis();
    let mut events = Vec::new();
    for tree in first..(first + TREES_PER_RECORD).min(trees) {
        let start_ms = now_ms - (30 * DAY_MS * (trees - tree) / trees) as i64;
        events.push(format!(
            r#"{{"name":"agent_end","type":"agent","run_id":"tree-{tree}","timestamp":{start_ms},"metadata":{{"agent":"planner"}},"output":"done"}}"#
        ));
        for call in 0..3 {
            let model = (tree + call) % 12;
            let at_ms = start_ms + call as i64;
            events.push(format!(
                r#"{{"name":"llm_call","type":"llm","run_id":"call-{tree}-{call}","parent_run_id":"tree-{tree}","timestamp":{at_ms},"model":"model-{model}","prompt_tokens":{},"completion_tokens":{},"input":"{}","output":"{}"}}"#,
                tree % 4000,
                call * 100,
                "why ".repeat(40),
                "because ".repeat(20),
            ));
        }
    }
    let header = RecordHeader {
        project: ProjectId::new("p"),
        app: AppId::new(app),
        received_at_ms: now_ms,
        events: events.len() as u32,
    };
    let headers = header.encode().into_iter();
    Record {
        key: header.key().into(),
        headers: headers
            .map(|(name, value)| (name, Bytes::from(value)))
            .collect(),
        payload: format!("{{\"events\":[{}]}}", events.join(",")).into(),
    }
}

async fn drained(log: &Arc<dyn Log>) -> anyhow::Result<()> {
    loop {
        let lags = log.lag(GROUP).await?;
        if lags.iter().all(|lag| lag.committed >= lag.end) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
