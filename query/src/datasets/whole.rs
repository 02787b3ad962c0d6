//! Saved runs with the input, output and metadata of their events, read some hundred runs at a time.

use std::collections::{HashMap, VecDeque};

use schemas::fold::full::FullRun;
use schemas::ids::EventId;
use schemas::limits::EARLIEST_TIMESTAMP_MS;
use schemas::run::RunError;
use schemas::timestamp::UnixMs;
use serde_json::value::RawValue;
use store::reads::events::{EventsOfRun, NamedRun};
use store::reads::filter_sql::Projects;
use store::reads::runs::RunRecord;
use store::{Store, StoreError};

use crate::export::{Records, Row, RowSource, Whole};
use crate::views::{run_detail, with_project};

/// Runs whose events are read together, and bytes of their ids: a query parameter has at most 128 KiB, and escaping can
/// double the ids.
const RUNS_TOGETHER: usize = 1000;
const ID_BYTES_TOGETHER: usize = 48 << 10;
/// Bytes of events that are read together: in memory twice, stored and folded.
const EVENT_BYTES_TOGETHER: usize = 16 << 20;

/// Source of full rows.
pub(crate) struct WholeRuns {
    records: Records,
    reader: Reader,
    waiting: VecDeque<RunRecord>,
}

impl WholeRuns {
    pub(crate) fn new(records: Records, reader: Reader) -> Self {
        Self {
            records,
            reader,
            waiting: VecDeque::new(),
        }
    }
}

impl RowSource for WholeRuns {
    async fn next(&mut self) -> Result<Vec<Row>, StoreError> {
        if self.waiting.is_empty() {
            self.waiting = self.records.next().await?.into();
        }
        self.reader.rows(together(&mut self.waiting)).await
    }
}

/// Takes the next runs whose events can be read together; none at the end.
pub(crate) fn together(waiting: &mut VecDeque<RunRecord>) -> Vec<RunRecord> {
    let mut bytes = 0;
    let fitting = waiting.iter().take(RUNS_TOGETHER).take_while(|run| {
        bytes += run.run_id.len() + 3;
        bytes <= ID_BYTES_TOGETHER
    });
    let count = fitting.count();
    waiting.drain(..count).collect()
}

/// Reads the events of runs.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) store: Store,
    pub(crate) projects: Projects,
    pub(crate) now_ms: UnixMs,
}

impl Reader {
    /// Full rows of these runs, in the same order.
    pub(crate) async fn rows(&self, records: Vec<RunRecord>) -> Result<Vec<Row>, StoreError> {
        let mut folded = HashMap::new();
        let mut open: Vec<Vec<&RunRecord>> = by_project(&records);
        while let Some(mut runs) = open.pop() {
            let named: Vec<NamedRun<'_>> = runs.iter().map(|run| named(run)).collect();
            let Some(first) = runs.first() else { continue };
            let project = first.project_id.as_str();
            let found = match runs.len() {
                1 => None,
                _ => {
                    let events = self
                        .store
                        .events_of_runs(project, &named, EVENT_BYTES_TOGETHER);
                    events.await?
                }
            };
            match found {
                Some(events) => {
                    // Apps and run ids are separate conditions: the events may contain another app's run with the same id.
                    let known: HashMap<(&str, &str), &RunRecord> = runs
                        .iter()
                        .map(|run| ((run.app_id.as_str(), run.run_id.as_str()), *run))
                        .collect();
                    for event in &events {
                        if let Some(run) = known.get(&(&event.app_id, &event.run_id)) {
                            let (full, _) = folded.entry(key_of(run)).or_default();
                            apply(full, event.event_id, &event.payload);
                        }
                    }
                }
                None if runs.len() > 1 => {
                    let half = runs.split_off(runs.len() / 2);
                    open.extend([runs, half]);
                }
                // A single run has its own bounds, at which its events are cut.
                None => {
                    let one = self.one(first).await?;
                    folded.insert(key_of(first), one);
                }
            }
        }
        let mut whole: Vec<(Whole, Option<RunError>)> = records
            .iter()
            .map(|record| match folded.remove(&key_of(record)) {
                Some((full, is_cut)) => unfold(&full, is_cut),
                None => unfold(&FullRun::default(), false),
            })
            .collect();
        let rows = records.into_iter().zip(whole.drain(..));
        let row = |(record, (whole, error)): (RunRecord, (Whole, Option<RunError>))| {
            let mut run = with_project(record.into_run(self.now_ms), &self.projects);
            run.error = error.or(run.error);
            Row {
                run,
                whole: Some(whole),
            }
        };
        Ok(rows.map(row).collect())
    }

    async fn one(&self, run: &RunRecord) -> Result<(FullRun, bool), StoreError> {
        let of = EventsOfRun {
            project: &run.project_id,
            app: &run.app_id,
            run_id: &run.run_id,
            first_ms: EARLIEST_TIMESTAMP_MS,
            last_ms: run_detail::LATEST_MS,
        };
        let events = self.store.events_of_run(of).await?;
        let mut full = FullRun::default();
        for event in &events.events {
            apply(&mut full, event.event_id, &event.payload);
        }
        Ok((full, events.cut))
    }
}

fn by_project(records: &[RunRecord]) -> Vec<Vec<&RunRecord>> {
    let mut groups: HashMap<&str, Vec<&RunRecord>> = HashMap::new();
    for record in records {
        groups.entry(&record.project_id).or_default().push(record);
    }
    groups.into_values().collect()
}

fn named(run: &RunRecord) -> NamedRun<'_> {
    NamedRun {
        app: &run.app_id,
        run_id: &run.run_id,
        started_at: run.started_at,
    }
}

fn key_of(run: &RunRecord) -> (&str, &str, &str) {
    (&run.project_id, &run.app_id, &run.run_id)
}

fn apply(full: &mut FullRun, event_id: u128, payload: &[u8]) {
    if let Some(event) = run_detail::read(payload) {
        full.apply(&event, EventId(event_id));
    }
}

fn unfold(full: &FullRun, is_cut: bool) -> (Whole, Option<RunError>) {
    let metadata = run_detail::object(full.metadata());
    let whole = Whole {
        input: full.input().and_then(run_detail::raw),
        output: full.output().and_then(run_detail::raw),
        metadata: serde_json::value::to_raw_value(&metadata)
            .unwrap_or_else(|_| RawValue::NULL.to_owned()),
        events_truncated: is_cut,
    };
    (whole, full.error().map(run_detail::error))
}
