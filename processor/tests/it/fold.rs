//! The fold over whole trees in the processor: any order, any duplicates, any division into micro-batches, caches warm
//! or lost, inserts interrupted half way. The current rows afterwards equal a plain reference fold (P2, P3).

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use crate::memory_tables::MemoryTables;
use bytes::Bytes;
use eventlog::{Position, Record, StoredRecord};
use processor::known_runs::KnownRuns;
use processor::step::Sources;
use processor::step::lease::Unleased;
use processor::step::slices::{Continuations, InMemory};
use processor::step::{self, decode};
use processor::{HotRuns, Limits, Metrics, ProcessorConfig};
use proptest::prelude::*;
use schemas::ids::{AppId, ProjectId};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use schemas::record::RecordHeader;
use schemas::reprice::Reprice;
use serde_json::{Value, json};

/// Ten milliseconds before a midnight: runs' starts move from one day's partition to the other.
pub(crate) const BASE_MS: i64 = 1_795_132_799_990;

/// Memory for hot runs, enough for every run of these tests. A debug build takes milliseconds to make and drop the table
/// of the default, and these tests restart a process thousands of times.
const HOT_BYTES: u64 = 16 << 20;

/// An event and its project and app.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) project: &'static str,
    pub(crate) app: &'static str,
    pub(crate) event: Value,
}

/// What happens between two micro-batches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Between {
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
        1 => Just("note"), 1 => Just("saved"), 1 => Just("unsaved"), 1 => Just("feedback"), 1 => Just("chat"),
    ];
    let some_text = |values: &[&'static str]| {
        proptest::option::weighted(0.3, proptest::sample::select(values.to_vec()))
    };
    (
        (proptest::sample::select(vec!["p", "q"]), proptest::sample::select(vec!["a", "a", "a", "b"])),
        (0u8..7, proptest::option::weighted(0.7, 0u8..9), name, 0i64..20),
        (some_text(&["planner", "writer"]), some_text(&["u@x", "v@x"]), some_text(&["t1", "t2"]), some_text(&["talk", "walk"])),
        (some_text(&["dear", "cheap", "unknown"]), some_text(&["llm", "tool"]), proptest::option::of(1u64..4), proptest::option::of(1u64..4)),
        (proptest::option::weighted(0.2, 1u64..9), proptest::option::weighted(0.2, 1u64..9), proptest::sample::select(vec!["positive", "negative"])),
        (some_text(&["done"]), proptest::option::weighted(0.3, 0u64..9), proptest::option::weighted(0.2, proptest::sample::select(vec!["success", "error"])), some_text(&["x", "y"])),
    )
        .prop_map(|((project, app), (run, parent, name, at), (agent, user, tag, thread), (model, kind, prompt, completion), (cost, estimated, rating), (output, length, status, response))| Reported {
            project,
            app,
            event: json!({
                "name": name, "run_id": format!("r{run}"), "parent_run_id": parent.map(|parent| format!("r{parent}")),
                "timestamp": BASE_MS + at, "agent": agent, "user_email": user, "thread_id": thread, "tags": tag.map(|tag| [tag]),
                "model": model, "type": kind, "prompt_tokens": prompt, "completion_tokens": completion,
                "cost": cost, "estimated_cost": estimated, "ttft_ms": estimated, "rating": rating, "comment": format!("{rating} {at}"), "role": "user", "content": "c",
                "output": output, "duration_ms": length, "status": status,
                "response_id": response, "call_fingerprint": tag.map(|tag| format!("{tag}/{}", at % 2)),
            }),
        })
}

/// Parents have lower numbers than their children.
fn without_cycles(mut reported: Reported) -> Reported {
    let number = |id: &Value| id.as_str().and_then(|id| id[1..].parse::<u32>().ok());
    let (run, parent) = (
        number(&reported.event["run_id"]),
        number(&reported.event["parent_run_id"]),
    );
    if parent >= run {
        reported.event["parent_run_id"] = Value::Null;
    }
    reported
}

/// Events, and batches in which they and half of them again arrive in any order.
fn any_batches(
    event: BoxedStrategy<Reported>,
) -> impl Strategy<Value = (Vec<Reported>, Vec<(Vec<Reported>, Between)>)> {
    let events = proptest::collection::vec(event, 1..40).prop_flat_map(|events| {
        let again = &events[..events.len() / 2];
        let repeated: Vec<Reported> = events.iter().chain(again).cloned().collect();
        (Just(events), Just(repeated).prop_shuffle())
    });
    let cuts = proptest::collection::vec((1usize..20, any_between()), 1..12);
    (events, cuts, any_between()).prop_map(|((events, delivered), cuts, last)| {
        let mut rest = delivered.as_slice();
        let mut batches = Vec::new();
        for (size, between) in &cuts {
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            batches.push((batch.to_vec(), *between));
            rest = after;
        }
        batches.push((rest.to_vec(), last));
        (events, batches)
    })
}

pub(crate) fn any_between() -> impl Strategy<Value = Between> {
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

/// Prices per token of the two models, USD.
fn prices(dear: i128, cheap: i128) -> PriceTable {
    let row = |model: &str, units: i128| {
        let rate = Rate::from_units(units).unwrap();
        PriceRow {
            key: PriceKey {
                model: model.to_owned(),
                is_prefix: false,
                effective_from: None,
            },
            rates: Rates {
                input: rate,
                output: rate,
                cached_input: None,
                total: None,
                special: None,
            },
        }
    };
    PriceTable::new(rates(dear, cheap).map(|(model, units)| row(model, units)))
}

/// The same as the reference takes them.
pub(crate) fn rates(dear: i128, cheap: i128) -> [(&'static str, i128); 2] {
    [("dear", dear), ("cheap", cheap)]
}

/// A request to reprice every stored run; every third of them as if it had moved since.
fn reprice(tables: &MemoryTables, first_offset: u64) -> Vec<StoredRecord> {
    let mut by_scope: BTreeMap<(String, String), Vec<(String, i64)>> = BTreeMap::new();
    for (at, ((project, app, run), start)) in tables.visible_keys().into_iter().enumerate() {
        let start = start - i64::from(at % 3 == 0);
        by_scope
            .entry((project, app))
            .or_default()
            .push((run, start));
    }
    let mut records = Vec::new();
    for (at, ((project, app), mut runs)) in by_scope.into_iter().enumerate() {
        runs.push(("never seen".to_owned(), BASE_MS));
        let reprice = Reprice {
            runs,
            slice: None,
            resolves_relations: false,
        };
        let encoded = reprice.encode(&ProjectId::new(project), &AppId::new(app), BASE_MS);
        let headers = encoded
            .headers
            .into_iter()
            .map(|(name, value)| (name, value.into()));
        records.push(StoredRecord {
            position: Position {
                partition: 0,
                offset: first_offset + at as u64,
            },
            record: Record {
                key: encoded.key.into(),
                headers: headers.collect(),
                payload: encoded.payload.into(),
            },
        });
    }
    records
}

struct Process {
    prices: PriceTable,
    tables: MemoryTables,
    hot: HotRuns,
    known: KnownRuns,
    metrics: Metrics,
    /// The next records may have been stored partially.
    assume_partial_writes: Cell<bool>,
    limits: Limits,
    /// The log's end: work that steps left to later steps.
    left: VecDeque<Record>,
}

impl Process {
    async fn start(tables: MemoryTables) -> Self {
        let known = KnownRuns::load(&tables).await.unwrap();
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        Self {
            prices: prices(3, 1),
            tables,
            hot: HotRuns::new(&ProcessorConfig {
                hot_bytes: HOT_BYTES,
                workers: 1,
                ..ProcessorConfig::default()
            }),
            known,
            metrics,
            assume_partial_writes: Cell::new(true),
            limits: Limits::default(),
            left: VecDeque::new(),
        }
    }

    async fn store(&mut self, records: &[StoredRecord]) -> Result<u64, processor::ProcessorError> {
        let later = InMemory::default();
        let stored = self.store_with(records, &later).await;
        // What was appended stays, whether the rows were stored or not.
        self.left.extend(later.take());
        stored
    }

    async fn store_with(
        &self,
        records: &[StoredRecord],
        continuations: &dyn Continuations,
    ) -> Result<u64, processor::ProcessorError> {
        let sources = Sources {
            tables: &self.tables,
            hot: &self.hot,
            known: &self.known,
            prices: &self.prices,
            metrics: &self.metrics,
            lease: &Unleased,
            continuations,
            limits: self.limits,
            assume_partial_writes: self.assume_partial_writes.take()
                | records.iter().any(decode::is_deep),
        };
        step::store(records, sources, 0)
            .await
            .map(|stored| stored.events)
    }
}

/// Processes the batches by one price table, and asks at the end for everything to be priced by another.
pub(crate) async fn run(batches: &[(Vec<Reported>, Between)]) -> MemoryTables {
    run_within(batches, Limits::default()).await
}

/// The same with other bounds on what one step does.
async fn run_within(batches: &[(Vec<Reported>, Between)], limits: Limits) -> MemoryTables {
    let mut process = Process::start(MemoryTables::default()).await;
    process.limits = limits;
    let mut offset = 0;
    for (events, between) in batches {
        let records = records(events, offset);
        offset += records.len() as u64;
        process = process.through(&records, *between).await;
        // Other records come before all remaining work is done.
        process = process
            .go_on(1 + events.len() % 3, *between, &mut offset)
            .await;
    }
    let (_, last) = batches.last().unwrap();
    let records = reprice(&process.tables, offset);
    offset += records.len() as u64;
    process.prices = prices(7, 2);
    process = process.through(&records, *last).await;
    process
        .go_on(STEPS_MAX, Between::Nothing, &mut offset)
        .await
        .tables
}

/// Far more than what follows from the events of one case.
const STEPS_MAX: usize = 20_000;

impl Process {
    /// Stores records after what happens before.
    async fn through(mut self, records: &[StoredRecord], between: Between) -> Self {
        match between {
            Between::Interrupted(seed) => {
                self.tables.interrupt_next_insert(seed);
                let interrupted = self.store(records).await.is_err();
                assert!(interrupted || records.is_empty());
                self = self.restarted().await;
            }
            Between::Restart => self = self.restarted().await,
            Between::Cold => self.hot.clear(),
            Between::Nothing => {}
        }
        self.store(records).await.unwrap();
        self.tables.assert_one_row_per_run();
        self
    }

    /// Processes this many of the records that earlier steps left; something happens before the first of them.
    async fn go_on(mut self, most: usize, mut between: Between, offset: &mut u64) -> Self {
        for step in 0..most {
            let Some(record) = self.left.pop_front() else {
                break;
            };
            assert!(
                step + 1 < STEPS_MAX,
                "what follows from a change never ends"
            );
            *offset += 1;
            let position = Position {
                partition: 0,
                offset: *offset,
            };
            let records = [StoredRecord { position, record }];
            self = self.through(&records, between).await;
            between = Between::Nothing;
        }
        self
    }

    async fn restarted(self) -> Self {
        let restarted = Self::start(self.tables).await;
        Self {
            prices: self.prices,
            limits: self.limits,
            left: self.left,
            ..restarted
        }
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn order_repetition_cuts_and_crashes_do_not_count_p2_p3_p6(
        (events, delivered) in proptest::collection::vec(any_event(), 1..40).prop_flat_map(|events| {
            let repeated: Vec<Reported> = events.iter().chain(&events[..events.len() / 2]).cloned().collect();
            (Just(events), Just(repeated).prop_shuffle())
        }),
        cuts in proptest::collection::vec((1usize..20, any_between()), 1..12),
        last in any_between(),
    ) {
        let mut rest = delivered.as_slice();
        let mut batches = Vec::new();
        for (size, between) in &cuts {
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            batches.push((batch.to_vec(), *between));
            rest = after;
        }
        batches.push((rest.to_vec(), last));
        let tables = block_on(run(&batches));
        prop_assert_eq!(tables.visible_runs(), crate::reference::fold(&events, &rates(7, 2)));
        prop_assert_eq!(tables.event_count(), crate::reference::distinct(&events));
        prop_assert_eq!(tables.feedback_count(), crate::reference::feedback_events(&events));
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Cycles of parents fit into one step, families do not.
    #[test]
    fn slices_of_any_trees_end_like_the_reference_p2_p3_p6(
        (events, batches) in any_batches(any_event().boxed()),
        (levels, below) in (5usize..7, 1usize..4),
    ) {
        let whole = |between| match between {
            Between::Interrupted(_) => Between::Restart,
            between => between,
        };
        let batches = batches.into_iter().map(|(events, between)| (events, whole(between)));
        let batches: Vec<_> = batches.collect();
        let limits = Limits { below, below_each: 0, above: 16, levels };
        let tables = block_on(run_within(&batches, limits));
        prop_assert_eq!(tables.visible_runs(), crate::reference::fold(&events, &rates(7, 2)));
    }

    #[test]
    fn slices_upwards_and_downwards_end_like_the_reference_p2_p3_p6(
        (events, batches) in any_batches(any_event().prop_map(without_cycles).boxed()),
        (levels, below, above) in (1usize..3, 1usize..4, 1usize..3),
    ) {
        let limits = Limits { below, below_each: 0, above, levels };
        let tables = block_on(run_within(&batches, limits));
        prop_assert_eq!(tables.visible_runs(), crate::reference::fold(&events, &rates(7, 2)));
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
    assert_eq!(
        tables.visible_runs(),
        crate::reference::fold(&events, &rates(7, 2))
    );
    assert!(
        tables
            .visible_runs()
            .values()
            .all(|run| run["root"] == "r0" && run["agent"] == "top")
    );
}

fn costing(run: &str, parent: Option<&str>, at: i64) -> Reported {
    Reported {
        project: "p",
        app: "a",
        event: json!({
            "name": "llm_call", "type": "llm", "run_id": run, "parent_run_id": parent, "timestamp": BASE_MS + at,
            "model": "dear", "prompt_tokens": 2, "completion_tokens": 1,
        }),
    }
}

#[test]
fn a_parent_that_comes_after_ten_thousand_children_counts_each_of_them_once_p6() {
    let mut events: Vec<Reported> = (0..10_000)
        .map(|child| costing(&format!("c{child}"), Some("late"), child % 30))
        .collect();
    events.push(costing("late", Some("top"), 3));
    events.push(costing("top", None, 2));
    events.push(costing("grandchild", Some("c77"), 40));
    let batches: Vec<_> = events
        .chunks(2500)
        .zip([
            Between::Nothing,
            Between::Cold,
            Between::Restart,
            Between::Nothing,
            Between::Cold,
        ])
        .map(|(chunk, between)| (chunk.to_vec(), between))
        .collect();
    let tables = block_on(run(&batches));
    let runs = tables.visible_runs();
    let of = |run: &str| runs[&("p".to_owned(), "a".to_owned(), run.to_owned())].clone();
    // Three tokens a call at seven units a token, by the second price table.
    assert_eq!(of("top")["totals"][0], (10_003 * 3 * 7).to_string());
    assert_eq!(of("late")["totals"][4], "10002");
    assert_eq!(of("c77")["totals"][4], "2");
    assert_eq!(of("c78")["totals"][4], "1");
}

#[test]
fn a_circle_of_parents_counts_each_run_once_and_forgets_who_left_it_p6() {
    // Each has a response of its own: none of them reports the call of another.
    let event = |run: &str, parent: &str, at: i64| {
        let mut call = costing(run, Some(parent), at);
        call.event["response_id"] = json!(run);
        call
    };
    let cycle = [
        event("a", "b", 9),
        event("b", "c", 9),
        event("c", "a", 9),
        event("below", "a", 9),
    ];
    let tables = |batches: &[(Vec<Reported>, Between)]| block_on(run(batches)).visible_runs();
    let calls = |runs: &BTreeMap<crate::memory_tables::RunId, Value>, run: &str| {
        let row = &runs[&("p".to_owned(), "a".to_owned(), run.to_owned())];
        row["totals"][4].as_str().unwrap().parse::<u64>().unwrap()
    };
    let first = (cycle.to_vec(), Between::Nothing);
    let runs = tables(std::slice::from_ref(&first));
    assert_eq!(
        ["a", "b", "c", "below"].map(|run| calls(&runs, run)),
        [4, 4, 4, 1]
    );
    // An earlier event says that b never hung below c: below it are a and what a has below it. It is a second call of b.
    let left = (vec![event("b", "b", 1)], Between::Cold);
    let runs = tables(&[first, left]);
    assert_eq!(
        ["a", "b", "c", "below"].map(|run| calls(&runs, run)),
        [3, 5, 1, 1]
    );
}

#[test]
fn what_stands_far_above_a_run_is_brought_in_with_few_look_ups_x1() {
    let depth = 3000;
    let mut chain: Vec<Reported> = (0..depth)
        .map(|run| {
            let parent = (run > 0).then(|| format!("r{}", run - 1));
            let mut step = costing(&format!("r{run}"), parent.as_deref(), 1);
            step.event["type"] = json!("chain");
            step
        })
        .collect();
    let leaf = costing("leaf", Some(&format!("r{}", depth - 1)), 2);
    block_on(async {
        let mut process = Process::start(MemoryTables::default()).await;
        process.limits.above = 2 * depth;
        process.assume_partial_writes.set(false);
        chain.reverse();
        process.store(&records(&chain, 0)).await.unwrap();
        process.hot.clear();
        let before = process.tables.lookups();
        process.store(&records(&[leaf], 1)).await.unwrap();
        let lookups = process.tables.lookups() - before;
        assert!(lookups < 40, "{lookups} look-ups for {depth} levels");
        let runs = process.tables.visible_runs();
        let top = &runs[&("p".to_owned(), "a".to_owned(), "r0".to_owned())];
        assert_eq!(top["totals"][4], "1");
    });
}

/// A chain of runs of which the last costs something, from the top down.
fn chain(depth: usize) -> Vec<Reported> {
    let run = |run: usize| {
        let parent = (run > 0).then(|| format!("r{}", run - 1));
        let mut step = costing(&format!("r{run}"), parent.as_deref(), 1);
        if run + 1 < depth {
            step.event["type"] = json!("chain");
        }
        step
    };
    (0..depth).map(run).collect()
}

/// Bounds that make small trees large.
const SMALL: Limits = Limits {
    below: 50,
    below_each: 0,
    above: 50,
    levels: 4,
};

/// Processes an event and all that follows from it; asserts that each step does little (X1).
async fn in_small_steps(mut process: Process, last: Reported) -> (Process, usize) {
    let mut offset = 1000;
    let mut steps = 0;
    process
        .left
        .extend(records(&[last], 0).into_iter().map(|stored| stored.record));
    while !process.left.is_empty() {
        let before = (process.tables.lookups(), process.metrics.run_rows.get());
        process = process.go_on(1, Between::Nothing, &mut offset).await;
        let lookups = process.tables.lookups() - before.0;
        let rows = process.metrics.run_rows.get() - before.1;
        assert!(lookups <= 40, "{lookups} look-ups in one step");
        assert!(rows <= 160, "{rows} rows in one step");
        steps += 1;
    }
    (process, steps)
}

/// Stores a tree, then an event that changes much of it: in small steps, with the result of the reference fold.
fn check_small_steps(tree: Vec<Reported>, last: Reported, steps: std::ops::Range<usize>) {
    let mut events = tree;
    block_on(async {
        let mut process = Process::start(MemoryTables::default()).await;
        process.assume_partial_writes.set(false);
        process.store(&records(&events, 0)).await.unwrap();
        process.hot.clear();
        process.limits = SMALL;
        let (process, taken) = in_small_steps(process, last.clone()).await;
        assert!(steps.contains(&taken), "{taken} steps");
        events.push(last);
        assert_eq!(
            process.tables.visible_runs(),
            crate::reference::fold(&events, &rates(3, 1))
        );
    });
}

#[test]
fn what_a_deep_or_wide_tree_inherits_takes_small_steps_x1() {
    let late = Reported {
        project: "p",
        app: "a",
        event: json!({
            "name": "agent_start", "run_id": "r0", "timestamp": BASE_MS, "agent": "late", "parent_run_id": "top",
        }),
    };
    let wide = (0..600).map(|child| costing(&format!("c{child}"), Some("r0"), 1));
    for mut tree in [chain(600), wide.collect()] {
        tree.push(costing("top", None, 0));
        check_small_steps(tree, late.clone(), 6..60);
    }
}

#[test]
fn an_event_below_a_deep_chain_takes_small_steps_x1_p6() {
    check_small_steps(chain(600), costing("leaf", Some("r599"), 2), 6..40);
}

#[test]
fn a_cycle_that_is_longer_than_is_followed_ends() {
    let ring: Vec<Reported> = (0..40)
        .map(|run| costing(&format!("r{run}"), Some(&format!("r{}", (run + 1) % 40)), 1))
        .collect();
    block_on(async {
        let mut process = Process::start(MemoryTables::default()).await;
        process.limits = Limits {
            below: 2,
            below_each: 0,
            above: 2,
            levels: 1,
        };
        let mut offset = 0;
        for run in ring {
            process.store(&records(&[run], offset)).await.unwrap();
            offset += 1;
        }
        // It goes around until the bound on levels: the number of records does not grow meanwhile.
        for _ in 0..50 {
            process = process.go_on(10, Between::Nothing, &mut offset).await;
            assert!(process.left.len() < 200, "{} records", process.left.len());
        }
    });
}
