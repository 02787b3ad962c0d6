//! Places marks that came before their run.
//!
//! A mark (`saved`, `unsaved`, `feedback`) that names no app and whose run is not known waits in the default app, and the
//! run may come in another app later (decision 0026). Every process with a processor looks for such marks, and appends
//! them to the log once more, for the app of the run. Doing it twice changes nothing: the event has one identity there.
//!
//! A mark may name a trace of spans in place of a run (a score of Langfuse's SDKs): it is appended for the trace's root.
//!
//! The row that waits stays in the default app, where no reader sees it, until retention drops it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use eventlog::{Log, LogError};
use moka::sync::Cache;
use schemas::batch;
use schemas::control::WaitingMarks;
use schemas::timestamp::UnixMs;
use store::reads::waiting_marks::{Mark, WAITING_MAX, WaitingRun};
use store::{Store, StoreError};
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::step::again;
use crate::stop::stopped_by;

/// Pause between two looks: how long after its run a mark is placed. A look reads two small columns of `runs`.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Run ids in one question for their apps.
const RUNS_PER_LOOKUP: usize = 200;
/// Runs that one look asks about: the newest, and as many of the others, in turns.
const NEWEST_PER_LOOK: usize = 2000;
/// Looks that ask for the root of a trace: its spans come within minutes of the mark, or were there before. It reads
/// more than other look-ups.
const LOOKS_FOR_ROOT: u32 = 30;
/// Looks after which a span counts as the root although its parent is not there: a trace may begin in a process that
/// exports nothing.
const LOOKS_FOR_PARENT: u32 = 6;
/// Runs that are remembered as settled: more than are looked at.
const SETTLED_MAX: u64 = 4 * WAITING_MAX as u64;

/// Looks for marks that wait, and places them.
pub struct LateMarks {
    store: Store,
    log: Arc<dyn Log>,
    metrics: Metrics,
    waiting: watch::Sender<Option<WaitingMarks>>,
    /// Runs whose marks are placed, and messages, by [`key`].
    settled: Cache<u64, ()>,
    /// How often the root of a trace was looked for, by [`key`].
    looks: Cache<u64, u32>,
    /// Where the next look begins among the runs that are not the newest.
    turn: usize,
}

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    #[error("the log: {0}")]
    Log(#[from] LogError),
}

impl LateMarks {
    /// `log` is the log of events.
    pub fn new(store: Store, log: Arc<dyn Log>, metrics: Metrics) -> Self {
        Self {
            store,
            log,
            metrics,
            waiting: watch::Sender::default(),
            settled: Cache::new(SETTLED_MAX),
            looks: Cache::new(SETTLED_MAX),
            turn: 0,
        }
    }

    /// Follows how many runs have marks that wait; `None` before the first look.
    pub fn waiting(&self) -> watch::Receiver<Option<WaitingMarks>> {
        self.waiting.subscribe()
    }

    /// Looks until `stop` becomes true or its sender is dropped.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let looked = tokio::select! {
                looked = self.look() => looked,
                () = stopped_by(&mut stop) => return,
            };
            match looked {
                Ok(waiting) => self.tell(waiting),
                Err(error) => {
                    tracing::warn!(error = %error, "marks that wait for their run cannot be looked for now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = stopped_by(&mut stop) => return,
            }
        }
    }

    fn tell(&self, waiting: WaitingMarks) {
        let age_ms = waiting
            .oldest_ms
            .map_or(0, |oldest_ms| Utc::now().timestamp_millis() - oldest_ms);
        // A client's clock may be ahead.
        let age_ms = age_ms.max(0);
        let runs = i64::try_from(waiting.runs).unwrap_or(i64::MAX);
        self.metrics.waiting_marks.set(runs);
        self.metrics.waiting_marks_age_seconds.set(age_ms / 1000);
        self.waiting.send_replace(Some(waiting));
    }

    /// Places what can be placed; gives what still waits.
    async fn look(&mut self) -> Result<WaitingMarks, LookError> {
        let mut waiting = self.store.waiting_runs().await?;
        waiting.retain(|run| !self.settled.contains_key(&key(run)));
        let mut by_app: BTreeMap<(&str, &str), Vec<&WaitingRun>> = BTreeMap::new();
        for run in in_turns(&waiting, &mut self.turn) {
            let app = (run.project_id.as_str(), run.app_id.as_str());
            by_app.entry(app).or_default().push(run);
        }
        for runs in by_app
            .values()
            .flat_map(|runs| runs.chunks(RUNS_PER_LOOKUP))
        {
            self.place(runs).await?;
        }
        waiting.retain(|run| !self.settled.contains_key(&key(run)));
        Ok(WaitingMarks {
            runs: waiting.len() as u64,
            oldest_ms: waiting.iter().map(|run| run.first_mark_ms).min(),
        })
    }

    /// Places the marks on these runs of one app that are in another app by now.
    async fn place(&self, runs: &[&WaitingRun]) -> Result<(), LookError> {
        let Some(first) = runs.first() else {
            return Ok(());
        };
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let mut found: HashMap<String, Vec<(UnixMs, String)>> = HashMap::new();
        for run in self.store.apps_of_runs(&first.project_id, &ids).await? {
            let apps = found.entry(run.run_id).or_default();
            apps.push((run.started_at, run.app_id));
        }
        let mut by_target: BTreeMap<&str, Vec<&WaitingRun>> = BTreeMap::new();
        let mut traces = Vec::new();
        for run in runs {
            let apps = found.get(&run.run_id).into_iter().flatten();
            match apps.max() {
                None if trace_of(&run.run_id).is_some() => traces.push(*run),
                None => {}
                // A message: it has no run of its own, and shows its marks.
                Some((_, app)) if *app == run.app_id => self.settled.insert(key(run), ()),
                Some((_, app)) => by_target.entry(app.as_str()).or_default().push(run),
            }
        }
        for (target, runs) in by_target {
            let placed = self.append_for(target, &runs).await?;
            let placed = runs.iter().filter(|run| placed.contains(&run.run_id));
            placed.for_each(|run| self.settled.insert(key(run), ()));
        }
        self.place_on_roots(&traces).await
    }

    /// Places the marks on these traces of one app on the roots that are stored by now.
    async fn place_on_roots(&self, traces: &[&WaitingRun]) -> Result<(), LookError> {
        let looks = |trace: &WaitingRun| self.looks.get(&key(trace)).unwrap_or(0);
        let mut asked: HashMap<&str, Vec<&WaitingRun>> = HashMap::new();
        for trace in traces.iter().filter(|one| looks(one) < LOOKS_FOR_ROOT) {
            let id = trace_of(&trace.run_id).unwrap_or(&trace.run_id);
            asked.entry(id).or_default().push(trace);
        }
        let times = asked.values().flatten().map(|trace| trace.first_mark_ms);
        let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
            return Ok(());
        };
        let Some(project) = traces.first().map(|trace| trace.project_id.as_str()) else {
            return Ok(());
        };
        let ids: Vec<&str> = asked.keys().copied().collect();
        let roots = self.store.roots_of_traces(project, &ids, [first, last]);
        for root in roots.await? {
            let waiting = asked.get(root.trace_id.as_str()).into_iter().flatten();
            let is_root =
                |trace: &&&WaitingRun| root.has_parent == 0 || looks(trace) >= LOOKS_FOR_PARENT;
            for trace in waiting.filter(is_root) {
                let run = [trace.run_id.as_str()];
                let (app, since) = (trace.app_id.as_str(), trace.first_mark_ms);
                let marks = self.store.marks_of(project, app, &run, since).await?;
                let marks = marks.iter().filter(|mark| names_no_app(mark));
                let marks: Vec<Mark> = marks
                    .filter_map(|mark| on_root(mark, &root.run_id))
                    .collect();
                self.append_missing(project, &root.app_id, &marks).await?;
                self.settled.insert(key(trace), ());
            }
        }
        for trace in asked.values().flatten() {
            self.looks.insert(key(trace), looks(trace) + 1);
        }
        Ok(())
    }

    /// Appends the marks on these runs of one app that name no app, for the app of the runs, unless they are there.
    /// Gives the ids of the runs with such marks.
    async fn append_for(
        &self,
        target: &str,
        runs: &[&WaitingRun],
    ) -> Result<HashSet<String>, LookError> {
        let Some(first) = runs.first() else {
            return Ok(HashSet::new());
        };
        let (project, app) = (first.project_id.as_str(), first.app_id.as_str());
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let since = runs.iter().map(|run| run.first_mark_ms).min();
        let since = since.unwrap_or_default();
        let mut marks = self.store.marks_of(project, app, &ids, since).await?;
        marks.retain(names_no_app);
        let floating = marks.iter().map(|mark| mark.run_id.clone()).collect();
        self.append_missing(project, target, &marks).await?;
        Ok(floating)
    }

    /// Appends these marks for an app, unless they are there.
    async fn append_missing(
        &self,
        project: &str,
        target: &str,
        marks: &[Mark],
    ) -> Result<(), LookError> {
        let there = self.store.events_at_marks(project, target, marks).await?;
        let there: HashSet<(&str, &[u8])> = there.iter().map(identity).collect();
        let missing = marks.iter().filter(|mark| !there.contains(&identity(mark)));
        for mark in missing {
            tracing::debug!(
                project.id = project,
                app.id = target,
                run.id = mark.run_id,
                "a mark that came before its run is placed"
            );
            let record = again::record(project, target, mark.received_at, &[&mark.payload]);
            self.log.append(record).await?;
            self.metrics.late_marks.inc();
        }
        Ok(())
    }
}

/// Changes with a further mark.
fn key(run: &WaitingRun) -> u64 {
    let WaitingRun {
        project_id,
        app_id,
        run_id,
        version,
        first_mark_ms: _,
    } = run;
    // No project contains a slash.
    let key = format!("{project_id}/{version}/{app_id}\0{run_id}");
    xxhash_rust::xxh3::xxh3_64(key.as_bytes())
}

fn identity(mark: &Mark) -> (&str, &[u8]) {
    (&mark.run_id, &mark.payload)
}

/// The newest runs, and part of the others: those that the last look left out come first.
fn in_turns<'a>(waiting: &'a [WaitingRun], turn: &mut usize) -> Vec<&'a WaitingRun> {
    let (newest, others) = waiting.split_at(waiting.len().min(NEWEST_PER_LOOK));
    let from = if *turn < others.len() { *turn } else { 0 };
    let to = others.len().min(from + NEWEST_PER_LOOK);
    *turn = to;
    newest.iter().chain(&others[from..to]).collect()
}

/// The trace of OpenTelemetry that a mark names in place of a run: 16 bytes in hexadecimal digits, behind which each
/// score has a name of its own, so that every one waits by itself. The ids of most clients' runs are UUIDs, which have
/// hyphens.
fn trace_of(run_id: &str) -> Option<&str> {
    let trace = run_id.split_once('/').map_or(run_id, |(trace, _)| trace);
    let is_trace = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_trace.then_some(trace)
}

/// The mark on another run; `None` if it is no longer read.
fn on_root(mark: &Mark, root: &str) -> Option<Mark> {
    let mut event: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&mark.payload).ok()?;
    // In either dialect.
    let named = ["run_id", "runId"]
        .into_iter()
        .find(|key| event.contains_key(*key))?;
    event.insert(named.to_owned(), root.into());
    Some(Mark {
        run_id: root.to_owned(),
        payload: serde_json::to_vec(&event).ok()?,
        ..mark.clone()
    })
}

fn names_no_app(mark: &Mark) -> bool {
    let mut names_none = false;
    // A stored event was valid when it was accepted. One that is not read any more stays where it is.
    let read = batch::visit(&again::body(&[&mark.payload]), mark.received_at, |slot| {
        names_none = slot.event.is_ok_and(|event| event.app.is_none());
    });
    read.is_ok() && names_none
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(payload: &str) -> Mark {
        Mark {
            run_id: "r".to_owned(),
            timestamp: 1_795_168_800_007,
            received_at: 1_795_168_800_100,
            payload: payload.as_bytes().to_vec(),
        }
    }

    #[test]
    fn only_a_mark_without_an_app_is_placed_elsewhere() {
        let event = |app: &str| {
            format!(
                r#"{{"name":"saved","run_id":"r",{app}"timestamp":"2026-11-20T10:00:00.007Z"}}"#
            )
        };
        assert!(names_no_app(&mark(&event(""))));
        assert!(!names_no_app(&mark(&event(r#""app_id":"main","#))));
        assert!(!names_no_app(&mark("{}")));
    }

    #[test]
    fn a_mark_on_a_trace_becomes_one_on_its_root() {
        let trace = "2d711642b726b04401627ca9fbac32f5";
        for (id, expected) in [
            (trace, Some(trace)),
            ("2d711642b726b04401627ca9fbac32f5/00ff", Some(trace)),
            ("2d711642-b726-b044-0162-7ca9fbac32f5", None),
            ("2d711642b726b04401627ca9fbac32fx", None),
            ("23d3f2ad257f3f17", None),
        ] {
            assert_eq!(trace_of(id), expected, "{id}");
        }
        let old = r#"{"event":"feedback","runId":"r","feedback":{"thumb":"up"},"timestamp":"2026-11-20T10:00:00.007Z"}"#;
        for (payload, named) in [
            (old, "runId"),
            (
                r#"{"name":"saved","run_id":"r","timestamp":"2026-11-20T10:00:00.007Z"}"#,
                "run_id",
            ),
        ] {
            let mark = mark(payload);
            let placed = on_root(&mark, "root").unwrap();
            assert_eq!(placed.run_id, "root");
            assert_eq!(placed.timestamp, mark.timestamp);
            let mut expected: serde_json::Value = serde_json::from_str(payload).unwrap();
            expected[named] = "root".into();
            let found: serde_json::Value = serde_json::from_slice(&placed.payload).unwrap();
            assert_eq!(found, expected);
        }
        assert_eq!(on_root(&mark("{}"), "root"), None);
    }

    #[test]
    fn every_waiting_run_has_its_turn_and_the_newest_always_x1() {
        let run = |number: usize| WaitingRun {
            project_id: "p".to_owned(),
            app_id: "a".to_owned(),
            run_id: format!("r{number}"),
            first_mark_ms: 0,
            version: 1,
        };
        let waiting: Vec<WaitingRun> = (0..2 * NEWEST_PER_LOOK + 500).map(run).collect();
        let (mut turn, mut seen) = (0, HashSet::new());
        for _ in 0..3 {
            let asked = in_turns(&waiting, &mut turn);
            assert!(asked.len() <= 2 * NEWEST_PER_LOOK);
            assert_eq!(
                asked[..NEWEST_PER_LOOK],
                waiting.iter().take(NEWEST_PER_LOOK).collect::<Vec<_>>()[..]
            );
            seen.extend(asked);
        }
        assert_eq!(seen.len(), waiting.len());
        assert_eq!(in_turns(&waiting[..3], &mut turn).len(), 3);
    }
}
