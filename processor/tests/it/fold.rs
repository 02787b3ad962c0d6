//! The fold over whole trees, as the processor does it: any order, any repetition, any cut into micro-batches, caches
//! warm or lost, inserts interrupted half way. What readers see afterwards equals a plain reference fold (P2, P3).

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::memory_tables::MemoryTables;
use bytes::Bytes;
use eventlog::{Position, Record, StoredRecord};
use processor::batch::Sources;
use processor::hot::HotRuns;
use processor::known::Known;
use processor::{Metrics, ProcessorConfig, step};
use proptest::prelude::*;
use schemas::ids::{AppId, ProjectId};
use schemas::record::RecordHeader;
use serde_json::{Value, json};

/// Ten milliseconds before a midnight: runs' starts move from one day's partition to the other.
const BASE_MS: i64 = 1_795_132_799_990;

/// An event and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) project: &'static str,
    pub(crate) app: &'static str,
    pub(crate) event: Value,
}

/// What happens between two micro-batches.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// The process restarts: hot runs and known sets are gone.
    Restart,
    /// The hot runs are gone only.
    Cold,
    /// The insert is interrupted after some of its parts, the process restarts and reads the records again.
    Interrupted(u64),
}

fn any_event() -> impl Strategy<Value = Reported> {
    let name = prop_oneof![
        4 => Just("agent_start"), 4 => Just("agent_end"), 1 => Just("tool_error"), 2 => Just("llm_call"),
        1 => Just("note"), 1 => Just("saved"),
    ];
    let some_text = |values: &[&'static str]| {
        proptest::option::weighted(0.3, proptest::sample::select(values.to_vec()))
    };
    (
        (proptest::sample::select(vec!["p", "q"]), proptest::sample::select(vec!["a", "a", "a", "b"])),
        (0u8..7, proptest::option::weighted(0.7, 0u8..9), name, 0i64..20),
        (some_text(&["planner", "writer"]), some_text(&["u@x", "v@x"]), some_text(&["t1", "t2"])),
    )
        .prop_map(|((project, app), (run, parent, name, at), (agent, user, tag))| Reported {
            project,
            app,
            event: json!({
                "name": name, "run_id": format!("r{run}"), "parent_run_id": parent.map(|parent| format!("r{parent}")),
                "timestamp": BASE_MS + at, "agent": agent, "user_email": user, "tags": tag.map(|tag| [tag]),
            }),
        })
}

fn any_between() -> impl Strategy<Value = Between> {
    prop_oneof![
        4 => Just(Between::Nothing),
        1 => Just(Between::Cold),
        1 => Just(Between::Restart),
        1 => any::<u64>().prop_map(Between::Interrupted),
    ]
}

/// Records of one micro-batch, with offsets as a log would give them.
fn records(events: &[Reported], first_offset: u64) -> Vec<StoredRecord> {
    let mut by_scope: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for reported in events {
        by_scope
            .entry((reported.project, reported.app))
            .or_default()
            .push(&reported.event);
    }
    by_scope
        .into_iter()
        .enumerate()
        .map(|(at, ((project, app), events))| {
            let header = RecordHeader {
                project: ProjectId::new(project),
                app: AppId::new(app),
                received_at_ms: BASE_MS + 1000,
                events: events.len() as u32,
            };
            let record = Record {
                key: header.key().into(),
                headers: header
                    .encode()
                    .into_iter()
                    .map(|(name, value)| (name, Bytes::from(value)))
                    .collect(),
                payload: json!({ "events": events }).to_string().into(),
            };
            StoredRecord {
                position: Position {
                    partition: 0,
                    offset: first_offset + at as u64,
                },
                record,
            }
        })
        .collect()
}

struct Process {
    tables: MemoryTables,
    hot: HotRuns,
    known: Known,
    metrics: Metrics,
    /// The next records may have been stored in part before.
    careful: Cell<bool>,
}

impl Process {
    async fn start(tables: MemoryTables) -> Self {
        let known = Known::load(&tables).await.unwrap();
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        Self {
            tables,
            hot: HotRuns::new(&ProcessorConfig::default()),
            known,
            metrics,
            careful: Cell::new(true),
        }
    }

    async fn store(&self, records: &[StoredRecord]) -> Result<u64, processor::ProcessorError> {
        let sources = Sources {
            tables: &self.tables,
            hot: &self.hot,
            known: &self.known,
            metrics: &self.metrics,
            careful: self.careful.take(),
        };
        step::store(records, sources, 0)
            .await
            .map(|stored| stored.events)
    }
}

async fn run(batches: &[(Vec<Reported>, Between)]) -> MemoryTables {
    let mut process = Process::start(MemoryTables::default()).await;
    let mut offset = 0;
    for (events, between) in batches {
        let records = records(events, offset);
        offset += records.len() as u64;
        match between {
            Between::Interrupted(seed) => {
                process.tables.interrupt_next_insert(*seed);
                let interrupted = process.store(&records).await.is_err();
                assert!(interrupted || records.is_empty());
                process = Process::start(process.tables.clone()).await;
            }
            Between::Restart => process = Process::start(process.tables.clone()).await,
            Between::Cold => process.hot.clear(),
            Between::Nothing => {}
        }
        process.store(&records).await.unwrap();
        process.tables.assert_one_row_per_run();
    }
    process.tables
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn order_repetition_cuts_and_crashes_do_not_count_p2_p3(
        (events, delivered) in proptest::collection::vec(any_event(), 1..40).prop_flat_map(|events| {
            let repeated: Vec<Reported> = events.iter().chain(&events[..events.len() / 2]).cloned().collect();
            (Just(events), Just(repeated).prop_shuffle())
        }),
        cuts in proptest::collection::vec((1usize..20, any_between()), 1..12),
    ) {
        let mut rest = delivered.as_slice();
        let mut batches = Vec::new();
        for (size, between) in &cuts {
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            batches.push((batch.to_vec(), *between));
            rest = after;
        }
        batches.push((rest.to_vec(), Between::Nothing));
        let tables = block_on(run(&batches));
        prop_assert_eq!(tables.visible_runs(), crate::reference::fold(&events));
        prop_assert_eq!(tables.event_count(), crate::reference::distinct(&events));
    }
}

#[test]
fn a_long_chain_that_arrives_upwards_and_then_gets_a_root_is_one_tree() {
    let event = |run: usize| Reported {
        project: "p",
        app: "a",
        event: json!({
            "name": "agent_start", "run_id": format!("r{run}"), "timestamp": BASE_MS,
            "parent_run_id": (run > 0).then(|| format!("r{}", run - 1)),
            "agent": (run == 0).then_some("top"),
        }),
    };
    let events: Vec<Reported> = (0..500).rev().map(event).collect();
    let batches: Vec<_> = events
        .chunks(7)
        .map(|chunk| (chunk.to_vec(), Between::Nothing))
        .collect();
    let tables = block_on(run(&batches));
    assert_eq!(tables.visible_runs(), crate::reference::fold(&events));
    assert!(
        tables
            .visible_runs()
            .values()
            .all(|run| run["root"] == "r0" && run["agent"] == "top")
    );
}
