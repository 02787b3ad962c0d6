//! The cost of an event in the processor, without log and tables.
//!
//! Prints microseconds of one core per event for decoding with folding, and for a whole step with rows, at 1 KB per
//! event, 100 events per record, two events per run.

use anyhow::Context;
use async_trait::async_trait;
use clap::Args;
use eventlog::{Position, Record, StoredRecord};
use processor::known_runs::KnownRuns;
use processor::run::Scope;
use processor::step::lease::Unleased;
use processor::step::slices::InMemory;
use processor::step::{MicroBatch, Sources};
use processor::{HotRuns, Limits, Metrics, ProcessorConfig, Rows, Tables, step};
use schemas::ids::{AppId, ProjectId};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use schemas::record::RecordHeader;
use serde_json::json;
use store::StoreError;
use store::reads::states::{Child, ChildSum, LinkedRun, RunPlace, StoredRun};

use crate::process::thread_cpu_seconds;

const RECORDS: usize = 200;
const EVENTS_PER_RECORD: usize = 100;
const ROUNDS: u64 = 20;

#[derive(Args)]
pub(crate) struct FoldArgs {
    /// Without a price table: the difference is what pricing costs
    #[arg(long)]
    no_prices: bool,
}

struct Nowhere;

#[async_trait]
impl Tables for Nowhere {
    async fn load_states(&self, _: &Scope, _: &[&str]) -> Result<Vec<StoredRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn children_of(
        &self,
        _: &Scope,
        _: &[&str],
        _: &str,
        _: usize,
    ) -> Result<Vec<Child>, StoreError> {
        Ok(Vec::new())
    }

    async fn load_states_near(
        &self,
        _: &ProjectId,
        _: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn child_sums(
        &self,
        _: &Scope,
        _: &[&str],
        _: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        Ok(Vec::new())
    }

    async fn tree_links(
        &self,
        _: &Scope,
        _: &[&str],
        _: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        std::hint::black_box(rows);
        Ok(())
    }

    async fn known_runs(
        &self,
        _: Option<i64>,
        _: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn waiting_parents(
        &self,
        _: Option<i64>,
        _: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn linked_runs(
        &self,
        _: &Scope,
        _: &[u64],
        _: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn call_links(
        &self,
        _: Option<i64>,
        _: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        Ok(None)
    }

    async fn place_by(&self, _: u32) -> Result<(), StoreError> {
        Ok(())
    }
}

fn records(round: u64) -> Vec<StoredRecord> {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(15);
    (0..RECORDS)
        .map(|at| {
            let header = RecordHeader {
                project: ProjectId::new("default"),
                app: AppId::new(format!("app-{}", at % 20)),
                received_at_ms: 1_795_132_900_000,
                events: EVENTS_PER_RECORD as u32,
            };
            let events: Vec<_> = (0..EVENTS_PER_RECORD)
                .map(|event| {
                    let run = format!("run-{round}-{at}-{}", event / 2);
                    let name = ["llm_start", "llm_end"][event % 2];
                    let mut event = json!({
                        "name": name, "run_id": run, "type": "llm", "timestamp": "2026-11-20T00:00:00.123Z",
                        "model": "gpt-4o-mini", "metadata": {"agent": "planner", "user_email": "ada@example.com"},
                        "tags": ["bench", "v1"],
                    });
                    let field = if name == "llm_start" { "input" } else { "output" };
                    if name == "llm_end" {
                        event["prompt_tokens"] = json!(1000 + at);
                        event["completion_tokens"] = json!(100 + at);
                    }
                    event[field] = json!({"messages": [{"role": "user", "content": text}]});
                    event
                })
                .collect();
            let record = Record {
                key: header.key().into(),
                headers: header.encode().into_iter().map(|(name, value)| (name, value.into())).collect(),
                payload: json!({ "events": events }).to_string().into(),
            };
            StoredRecord { position: Position { partition: 0, offset: round * 1000 + at as u64 }, record }
        })
        .collect()
}

/// A table of typical size.
fn prices() -> anyhow::Result<PriceTable> {
    let rate = |units| Rate::from_units(units).context("a rate within its bounds");
    let rates = Rates {
        input: rate(150_000_000_000)?,
        output: rate(600_000_000_000)?,
        cached_input: Some(rate(75_000_000_000)?),
        total: None,
        special: None,
    };
    Ok(PriceTable::new((0..100).map(|at| PriceRow {
        key: PriceKey {
            model: if at == 99 {
                "gpt-4o-mini".to_owned()
            } else {
                format!("model-{at}")
            },
            is_prefix: at % 3 == 1,
            effective_from: None,
        },
        rates: rates.clone(),
    })))
}

/// Folds and stores the same records and prints both times.
pub(crate) async fn run(args: &FoldArgs) -> anyhow::Result<()> {
    let hot = HotRuns::new(&ProcessorConfig::default());
    let known = KnownRuns::load(&Nowhere).await?;
    let prices = match args.no_prices {
        true => PriceTable::default(),
        false => prices()?,
    };
    let metrics = Metrics::new(&prometheus::Registry::new())?;
    let sources = Sources {
        tables: &Nowhere,
        hot: &hot,
        known: &known,
        prices: &prices,
        metrics: &metrics,
        lease: &Unleased,
        continuations: &InMemory::default(),
        limits: Limits::default(),
        assume_partial_writes: false,
    };
    let rounds: Vec<_> = (0..ROUNDS).map(records).collect();
    let events = (RECORDS * EVENTS_PER_RECORD) as u64 * ROUNDS;
    let bytes: usize = rounds
        .iter()
        .flatten()
        .map(|record| record.record.payload.len())
        .sum();
    let started = thread_cpu_seconds();
    for records in &rounds {
        std::hint::black_box(MicroBatch::fold(records));
    }
    let folded = thread_cpu_seconds() - started;
    let started = thread_cpu_seconds();
    for records in &rounds {
        step::store(records, sources, 0).await?;
    }
    let stepped = thread_cpu_seconds() - started;
    println!("{events} events of {} bytes", bytes as u64 / events);
    println!(
        "decode and fold: {:.2} us/event",
        folded * 1e6 / events as f64
    );
    println!(
        "whole step:      {:.2} us/event",
        stepped * 1e6 / events as f64
    );
    Ok(())
}
