//! The cost of a thread: its linked runs, each with all descendants.
//!
//! Linked are the turns of the thread, runs that a message names, and runs whose parent a message names. A run
//! below another linked one is already in that one's totals, so only the topmost count.

use std::collections::{HashMap, HashSet};

use clickhouse::Row;
use schemas::thread::{GroupedBy, WINDOW_GAP_MS};
use serde::Deserialize;

use super::ThreadRecord;
use super::speakers::Speakers;
use super::sql::{self, Inheritance, MS, Stretch};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value};
use crate::tables::runs::NO_TURN;

/// Ids in one query, and their bytes: a parameter is limited to 128 KiB, escaping can double it, and it is sent once.
const IDS_PER_QUERY: usize = 1200;
const ID_BYTES_PER_QUERY: usize = 56 << 10;
/// Slots in which messages of one speaker may name one run: two months without a pause.
const SLOTS_OF_RUN: usize = 3000;
/// Runs linked by one query: further ones are reported as missing.
const RUNS_PER_QUERY: usize = 20_000;

/// Cost and tokens of a thread's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkedTotals {
    /// USD times 10^18.
    pub(super) cost: i128,
    pub(super) tokens: u64,
    /// Whether there are runs that were not counted.
    pub(super) truncated: bool,
}

/// Bounds on the run ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) ids_of_thread: usize,
    pub(super) ids: usize,
    pub(super) may_inherit: bool,
    /// How to read the messages of windows.
    pub(super) speakers: Speakers,
}

impl Wanted {
    /// Maximum rows to read: several threads may name one run.
    fn rows(self) -> usize {
        self.ids.saturating_mul(2)
    }
}

/// The messages whose runs are read.
struct Of {
    key: &'static str,
    slot: String,
    condition: &'static str,
    inheritance: Inheritance,
    speakers: Speakers,
}

/// A run that a message names.
#[derive(Row, Deserialize)]
struct Said {
    key: u64,
    run_id: String,
    /// Slots of these messages: they distinguish windows of one speaker.
    slots: Vec<i64>,
}

/// The columns of a run for totals.
#[derive(Clone, Debug, Row, Deserialize)]
struct Linked {
    project_id: String,
    app_id: String,
    run_id: String,
    parent_run_id: String,
    root_run_id: String,
    thread_id: String,
    turn_at: i64,
    total_cost: i128,
    total_tokens: u64,
}

/// An id in its project and app.
type Name = (String, String, String);

/// The runs that messages of threads name.
pub(super) struct SaidRuns {
    named: Vec<Said>,
    windows: Vec<Said>,
}

impl Store {
    /// The runs that messages of these threads name, the newest of each thread.
    pub(super) async fn said_runs(
        &self,
        scope: &Conditions,
        threads: &[ThreadRecord],
        wanted: Wanted,
    ) -> Result<SaidRuns, StoreError> {
        let (named, windows) = tokio::try_join!(
            self.said_in_named(scope, threads, wanted),
            self.said_in_windows(scope, threads, wanted)
        )?;
        Ok(SaidRuns { named, windows })
    }

    /// The totals of each of these threads.
    pub(super) async fn totals(
        &self,
        scope: &Conditions,
        threads: &[ThreadRecord],
        said: SaidRuns,
        wanted: Wanted,
    ) -> Result<Vec<LinkedTotals>, StoreError> {
        let mut totals = vec![LinkedTotals::default(); threads.len()];
        // The threads that a run id is linked to, by the id alone: project and app are compared with the run's.
        let mut by_run: HashMap<String, HashSet<usize>> = HashMap::new();
        for (said, grouped_by) in [
            (said.named, GroupedBy::ThreadId),
            (said.windows, GroupedBy::Window),
        ] {
            let mut of_key: HashMap<u64, Vec<usize>> = HashMap::new();
            for (at, thread) in threads.iter().enumerate() {
                if thread.place.grouped_by == grouped_by {
                    of_key.entry(thread.place.key).or_default().push(at);
                }
            }
            // The oldest ids were cut off, of any thread.
            let was_cut = said.len() >= wanted.rows();
            let mut counts: HashMap<u64, usize> = HashMap::new();
            for said in said {
                let count = counts.entry(said.key).or_default();
                *count += 1;
                let is_known = by_run.contains_key(&said.run_id);
                let is_over = by_run.len() >= wanted.ids && !is_known;
                for at in of_key.get(&said.key).into_iter().flatten().copied() {
                    if was_cut || *count > wanted.ids_of_thread {
                        totals[at].truncated = true;
                    }
                    let is_of_thread =
                        grouped_by == GroupedBy::ThreadId || holds_one(&threads[at], &said.slots);
                    if is_of_thread && is_over {
                        totals[at].truncated = true;
                    } else if is_of_thread {
                        by_run.entry(said.run_id.clone()).or_default().insert(at);
                    }
                }
            }
        }
        let ids: Vec<&str> = by_run.keys().map(String::as_str).collect();
        let names: Vec<&str> = threads
            .iter()
            .filter(|thread| thread.place.grouped_by == GroupedBy::ThreadId)
            .map(|thread| thread.name.as_str())
            .collect();
        let mut linked: HashMap<Name, Linked> = HashMap::new();
        let mut was_cut = false;
        // Separate queries: an `OR` of two columns uses no index.
        let by_message = chunks(&ids).flat_map(|ids| [("run_id", ids), ("parent_run_id", ids)]);
        // Rows of earlier versions do not tell whether they are turns.
        let by_name = chunks(&names).map(|names| ("thread_id", names));
        for (link, ids) in by_message.chain(by_name) {
            let only = match link {
                "thread_id" => "turn_at != 0",
                _ => "1",
            };
            let runs = self.linked_runs(scope, link, ids, only).await?;
            was_cut |= runs.len() >= RUNS_PER_QUERY;
            linked.extend(runs.into_iter().map(|run| (run.name(), run)));
        }
        let mut of_thread: Vec<HashSet<&Name>> = vec![HashSet::new(); threads.len()];
        for (name, run) in &linked {
            let by_message = [&run.run_id, &run.parent_run_id]
                .into_iter()
                .filter_map(|id| by_run.get(id))
                .flatten()
                .copied();
            let by_name = threads
                .iter()
                .enumerate()
                .filter(|(_, thread)| {
                    run.turn_at != NO_TURN
                        && !thread.name.is_empty()
                        && thread.name == run.thread_id
                })
                .map(|(at, _)| at);
            for at in by_message.chain(by_name) {
                if threads[at].project_id == run.project_id && threads[at].app_id == run.app_id {
                    of_thread[at].insert(name);
                }
            }
        }
        let parents = self.parents_between(scope, &linked, &of_thread).await?;
        for (totals, runs) in totals.iter_mut().zip(&of_thread) {
            totals.truncated |= was_cut;
            for run in topmost(runs, &linked, &parents) {
                totals.cost = totals.cost.saturating_add(run.total_cost);
                totals.tokens = totals.tokens.saturating_add(run.total_tokens);
            }
        }
        Ok(totals)
    }

    async fn said_in_named(
        &self,
        scope: &Conditions,
        threads: &[ThreadRecord],
        wanted: Wanted,
    ) -> Result<Vec<Said>, StoreError> {
        let named: Vec<&ThreadRecord> = of(threads, GroupedBy::ThreadId);
        // Messages that inherit a thread name the same runs as the messages that they inherit it from.
        let of = Of {
            key: "thread_key",
            slot: "toInt64(0)".to_owned(),
            condition: "thread_key IN {keys:Array(UInt64)}",
            inheritance: Inheritance::Nothing,
            speakers: Speakers::Own,
        };
        self.said(scope, &named, of, wanted).await
    }

    async fn said_in_windows(
        &self,
        scope: &Conditions,
        threads: &[ThreadRecord],
        wanted: Wanted,
    ) -> Result<Vec<Said>, StoreError> {
        let windows: Vec<&ThreadRecord> = of(threads, GroupedBy::Window);
        let of = Of {
            key: "speaker_key",
            slot: sql::slot(),
            condition: "thread_key = 0 AND speaker_key IN {keys:Array(UInt64)}",
            inheritance: if wanted.may_inherit {
                Inheritance::LookedUp
            } else {
                Inheritance::Nothing
            },
            speakers: wanted.speakers,
        };
        self.said(scope, &windows, of, wanted).await
    }

    async fn said(
        &self,
        scope: &Conditions,
        threads: &[&ThreadRecord],
        of: Of,
        wanted: Wanted,
    ) -> Result<Vec<Said>, StoreError> {
        let (Some(from_ms), Some(to_ms)) = (
            threads.iter().map(|thread| thread.first.0).min(),
            threads.iter().map(|thread| thread.last.0).max(),
        ) else {
            return Ok(Vec::new());
        };
        let keys = sql::keys(threads.iter().map(|thread| thread.place.key));
        let at = Stretch { from_ms, to_ms }.condition();
        let asking = format!("{} AND {}", at.sql(), of.speakers.may(of.condition));
        let sql = format!(
            "SELECT {key} AS key, run_id, groupUniqArray({SLOTS_OF_RUN})({slot}) FROM {messages} \
             WHERE {scope} AND {at} AND {condition}{without_inherited} \
             GROUP BY key, run_id ORDER BY max({MS}) DESC, run_id \
             LIMIT {per_thread} BY key LIMIT {most}",
            key = of.key,
            slot = of.slot,
            messages = of.speakers.messages(scope.sql(), &asking),
            scope = scope.sql(),
            at = at.sql(),
            condition = of.condition,
            without_inherited = sql::without_inherited(scope.sql(), &asking, of.inheritance),
            per_thread = wanted.ids_of_thread + 1,
            most = wanted.rows(),
        );
        let query = of.speakers.settings(sql::grouped(self.bounded_query(&sql)));
        at.fill(keys.fill(scope.fill(query))).rows().await
    }

    /// The current rows of the runs with this link, each once (P3).
    async fn linked_runs(
        &self,
        scope: &Conditions,
        link: &str,
        ids: &[&str],
        only: &str,
    ) -> Result<Vec<Linked>, StoreError> {
        let mut links = Conditions::default();
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let link = format!("{link} IN {{ids:Array(String)}}");
        links.and_with(&link, "ids", Value::Texts(ids));
        links.and(only);
        let sql = format!(
            "SELECT project_id, app_id, run_id, parent_run_id, root_run_id, thread_id, turn_at, total_cost, \
               total_tokens_with_children \
             FROM runs FINAL PREWHERE {scope} AND (started_at, run_id) IN (\
               SELECT started_at, run_id FROM runs WHERE {scope} AND is_deleted = 0 AND {links} LIMIT {RUNS_PER_QUERY}) \
             WHERE {links} LIMIT {RUNS_PER_QUERY}",
            scope = scope.sql(),
            links = links.sql(),
        );
        let query = self.bounded_query(&sql);
        let query = crate::reads::runs::merged(crate::reads::runs::seek(query));
        links.fill(scope.fill(query)).rows().await
    }

    /// Parents of runs that may be between two linked runs of one tree, neither of which is its root.
    async fn parents_between(
        &self,
        scope: &Conditions,
        linked: &HashMap<Name, Linked>,
        of_thread: &[HashSet<&Name>],
    ) -> Result<HashMap<Name, String>, StoreError> {
        let mut roots: HashSet<&str> = HashSet::new();
        for runs in of_thread {
            let mut of_root: HashMap<Name, usize> = HashMap::new();
            let runs = runs.iter().filter_map(|name| linked.get(*name));
            for run in runs.filter(|run| run.root_run_id != run.run_id) {
                *of_root.entry(run.named(&run.root_run_id)).or_default() += 1;
            }
            roots.extend(linked.values().filter_map(|run| {
                let several = of_root.get(&run.named(&run.root_run_id)).copied() > Some(1);
                several.then_some(run.root_run_id.as_str())
            }));
        }
        let roots: Vec<&str> = roots.into_iter().collect();
        let mut parents = HashMap::new();
        for roots in chunks(&roots) {
            let runs = self.linked_runs(scope, "root_run_id", roots, "1").await?;
            parents.extend(runs.into_iter().map(|run| (run.name(), run.parent_run_id)));
        }
        Ok(parents)
    }
}

impl Linked {
    fn name(&self) -> Name {
        self.named(&self.run_id)
    }

    /// Another run of the same project and app.
    fn named(&self, run_id: &str) -> Name {
        (
            self.project_id.clone(),
            self.app_id.clone(),
            run_id.to_owned(),
        )
    }
}

/// The runs that are not below another of the given runs.
fn topmost<'a>(
    runs: &HashSet<&Name>,
    linked: &'a HashMap<Name, Linked>,
    parents: &HashMap<Name, String>,
) -> Vec<&'a Linked> {
    const GENERATIONS: usize = 1000;
    let parent_of = |name: &Name| match linked.get(name) {
        Some(run) => Some(&run.parent_run_id),
        None => parents.get(name),
    };
    let is_below = |run: &Linked| {
        let mut met: Option<String> = None;
        let mut at = run.named(&run.parent_run_id);
        for _ in 0..GENERATIONS {
            if at.2 == run.run_id {
                // A cycle: the first of its runs stands for all of them.
                return met.is_some_and(|met| met < run.run_id);
            }
            if runs.contains(&at) && met.as_ref().is_none_or(|met| at.2 < *met) {
                met = Some(at.2.clone());
            }
            match parent_of(&at).filter(|parent| !parent.is_empty()) {
                Some(parent) => at.2.clone_from(parent),
                None => break,
            }
        }
        met.is_some()
            || (run.root_run_id != run.run_id && runs.contains(&run.named(&run.root_run_id)))
    };
    runs.iter()
        .filter_map(|name| linked.get(*name))
        .filter(|run| !is_below(run))
        .collect()
}

fn of(threads: &[ThreadRecord], grouped_by: GroupedBy) -> Vec<&ThreadRecord> {
    threads
        .iter()
        .filter(|thread| thread.place.grouped_by == grouped_by)
        .collect()
}

fn holds_one(thread: &ThreadRecord, slots: &[i64]) -> bool {
    let slot_of = |ms: i64| ms.div_euclid(WINDOW_GAP_MS);
    let held = slot_of(thread.first.0)..=slot_of(thread.last.0);
    slots.iter().any(|slot| held.contains(slot))
}

/// Divides ids into lists that fit into one query.
pub(crate) fn chunks<'a, 'b>(ids: &'b [&'a str]) -> impl Iterator<Item = &'b [&'a str]> {
    let mut rest = ids;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(IDS_PER_QUERY).take_while(|id| {
            bytes += id.len() + 3;
            bytes <= ID_BYTES_PER_QUERY
        });
        let (chunk, after) = rest.split_at(fitting.count().max(1).min(rest.len()));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}
