//! How long a recalculation takes: `cargo run --release -p processor --example recalculate_bench [runs] [folder]`.
//!
//! Reports so many runs in trees of four (an agent and three model calls) over thirty days in twenty apps, waits until
//! they are stored, changes the price of every model, and measures the job from asking to its end, when every run
//! and every total costs what the new table says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eventlog::{EmbeddedConfig, EmbeddedLog, Log, MemoryLog, Record};
use processor::jobs::{JobParts, PIECE_ROWS, Runner};
use processor::{GROUP, Gate, Metrics, Parts, Processor, ProcessorConfig};
use prometheus::Registry;
use schemas::ids::{AppId, ProjectId};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use schemas::record::RecordHeader;
use store::Store;
use store::engine::{Engine, EngineConfig, Program};
use store::jobs::{Asked, JobKind, NewJob};
use tokio::sync::watch;

type Failure = Box<dyn std::error::Error>;

const APPS: u64 = 20;
const TREES_PER_RECORD: u64 = 250;
const DAY_MS: u64 = 86_400_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "engine") {
        store::engine::run()
    }
    let runs: u64 = arguments
        .first()
        .map_or(Ok(1_000_000), |runs| runs.parse())?;
    let folder = PathBuf::from(
        arguments
            .get(1)
            .map_or("target/recalculate-bench", String::as_str),
    );
    let metrics = store::metrics::Metrics::register(&Registry::new())?;
    let program = Program {
        path: std::env::current_exe()?,
        arguments: vec!["engine".into()],
    };
    let _ = std::fs::remove_dir_all(&folder);
    let config = EngineConfig::new(program, folder.join("engine"));
    let engine = Engine::start(config, metrics.clone())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let store = Store::connect(engine.store_config("bench"), metrics)?;
            while store.ping().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            store.migrate().await?;
            let log = EmbeddedConfig::new(folder.join("log"));
            let log: Arc<dyn Log> = Arc::new(EmbeddedLog::open(log, &Registry::new())?);
            measure(store, log, runs / 4).await
        })
}

async fn measure(store: Store, log: Arc<dyn Log>, trees: u64) -> Result<(), Failure> {
    let (prices, prices_now) = watch::channel(table(1_000_000_000));
    let gate = Gate::default();
    let parts = Parts {
        log: log.clone(),
        dead_letters: Arc::new(MemoryLog::new(1)),
        tables: Arc::new(store.clone()),
        prices: prices_now.clone(),
        gate: gate.clone(),
    };
    let (_stop, stopped) = watch::channel(false);
    let processor = Processor::new(
        ProcessorConfig::default(),
        parts,
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
        gate,
        prices: prices_now,
        piece_rows: PIECE_ROWS,
        retention_minute: None,
    });
    tokio::spawn(runner.run(stopped));
    for parameters in ["{\"dry_run\":true}", "{\"dry_run\":false}"] {
        let started = Instant::now();
        let new = NewJob {
            kind: JobKind::Recalculate,
            project_id: None,
            parameters: parameters.to_owned(),
        };
        let Asked::Made(job) = store.jobs().create(new, 0).await? else {
            return Err("a job is in the way".into());
        };
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let Some(now) = store.jobs().get(&job.job_id).await? else {
                continue;
            };
            if now.state.is_over() {
                println!(
                    "{parameters}: {:?} after {:.1} s, {} calls looked at, {} changed, {}",
                    now.state,
                    started.elapsed().as_secs_f64(),
                    now.done,
                    now.changed,
                    now.report
                );
                break;
            }
        }
    }
    Ok(())
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

async fn drained(log: &Arc<dyn Log>) -> Result<(), Failure> {
    loop {
        let lags = log.lag(GROUP).await?;
        if lags.iter().all(|lag| lag.committed >= lag.end) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
