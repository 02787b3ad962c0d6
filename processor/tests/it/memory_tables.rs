//! Tables in memory: the guarantees of the engine, and inserts that stop half way.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use async_trait::async_trait;
use processor::run::RunToStore;
use processor::run::Scope;
use processor::{Rows, Tables};
use schemas::fold::Totals;
use schemas::ids::{AppId, ProjectId};
use serde_json::{Value, json};
use store::StoreError;
use store::reads::states::{Child, ChildSum, LinkedRun, RunPlace, StoredRun, run_hash};
use store::tables::rows::{EventRow, RunRow};

/// Project, app, run.
pub(crate) type RunId = (String, String, String);
/// A run and its start: the key of its row.
type RunKey = (RunId, i64);

const DAY_MS: i64 = 24 * 3600 * 1000;

#[derive(Clone, Debug)]
struct Row {
    stored: StoredRun,
    columns: Value,
}

#[derive(Debug, Default)]
struct Contents {
    events: BTreeSet<(String, String, i64, u128)>,
    runs: BTreeMap<RunKey, Row>,
    feedback: BTreeSet<u128>,
    lookups: usize,
    interruption: Option<u64>,
    is_away: bool,
    refuses: bool,
    /// Runs with this in their name are rejected, with this code.
    refused: Option<(String, u32)>,
    placed_by: Option<u32>,
}

impl Contents {
    fn put(&mut self, row: &RunRow<'_>) {
        let run = (
            row.project_id.to_owned(),
            row.app_id.to_owned(),
            row.run_id.to_owned(),
        );
        let key = (run, row.started_at);
        if self
            .runs
            .get(&key)
            .is_none_or(|kept| kept.stored.version <= row.version)
        {
            self.runs.insert(key, owned(row));
        }
    }
}

/// Clones are the same tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryTables(Arc<Mutex<Contents>>);

impl MemoryTables {
    /// The next insert stores only some of its parts, chosen by the bits of `seed`, and fails.
    pub(crate) fn interrupt_next_insert(&self, seed: u64) {
        self.0.lock().unwrap().interruption = Some(seed);
    }

    /// Every call fails, or no longer.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    /// Inserts fail for good, or no longer.
    pub(crate) fn set_refusing(&self, refuses: bool) {
        self.0.lock().unwrap().refuses = refuses;
    }

    /// The server rejects inserts with such a run, with this code.
    pub(crate) fn refuse_runs(&self, name: &str, code: u32) {
        self.0.lock().unwrap().refused = Some((name.to_owned(), code));
    }

    fn contents(&self) -> Result<MutexGuard<'_, Contents>, StoreError> {
        let contents = self.0.lock().unwrap();
        match contents.is_away {
            true => Err(StoreError::Unavailable("away, says the test".to_owned())),
            false => Ok(contents),
        }
    }

    /// The current rows.
    pub(crate) fn visible_runs(&self) -> BTreeMap<RunId, Value> {
        let contents = self.0.lock().unwrap();
        let live = contents
            .runs
            .iter()
            .filter(|(_, row)| row.stored.is_deleted == 0);
        live.map(|((run, _), row)| (run.clone(), row.columns.clone()))
            .collect()
    }

    /// (P3)
    pub(crate) fn assert_one_row_per_run(&self) {
        let contents = self.0.lock().unwrap();
        let mut seen = BTreeSet::new();
        for ((run, _), row) in &contents.runs {
            assert!(
                row.stored.is_deleted == 1 || seen.insert(run),
                "{run:?} has two rows"
            );
        }
    }

    /// The keys of the current rows.
    pub(crate) fn visible_keys(&self) -> Vec<(RunId, i64)> {
        let contents = self.0.lock().unwrap();
        let live = contents
            .runs
            .iter()
            .filter(|(_, row)| row.stored.is_deleted == 0);
        live.map(|(key, _)| key.clone()).collect()
    }

    /// Number of look-ups of states.
    pub(crate) fn lookups(&self) -> usize {
        self.0.lock().unwrap().lookups
    }

    /// Distinct feedback.
    pub(crate) fn feedback_count(&self) -> usize {
        self.0.lock().unwrap().feedback.len()
    }

    /// Distinct events.
    pub(crate) fn event_count(&self) -> usize {
        self.0.lock().unwrap().events.len()
    }
}

#[async_trait]
impl Tables for MemoryTables {
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let mut contents = self.contents()?;
        contents.lookups += 1;
        let run_ids: HashSet<&str> = run_ids.iter().copied().collect();
        let rows = contents.runs.iter().filter(|((run, _), _)| {
            run.0 == scope.project.as_str()
                && run.1 == scope.app.as_str()
                && run_ids.contains(run.2.as_str())
        });
        Ok(rows.map(|(_, row)| row.stored.clone()).collect())
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError> {
        let mut contents = self.contents()?;
        contents.lookups += 1;
        let parent_ids: HashSet<&str> = parent_ids.iter().copied().collect();
        let rows = contents.runs.iter().filter(|((run, _), row)| {
            run.0 == scope.project.as_str()
                && run.1 == scope.app.as_str()
                && row.stored.is_deleted == 0
                && run.2.as_str() > after
                && parent_ids.contains(row.stored.parent_run_id.as_str())
        });
        // The keys are in order of the ids.
        Ok(rows
            .take(limit)
            .map(|((run, _), row)| Child {
                run_id: run.2.clone(),
                parent_run_id: row.stored.parent_run_id.clone(),
            })
            .collect())
    }

    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let mut rows = Vec::new();
        for place in places {
            let scope = Scope::new(project.clone(), AppId::new(place.app), 0);
            let found = self.load_states(&scope, &[place.run_id]).await?;
            let is_there = |row: &StoredRun| row.started_at == place.started_at;
            rows.extend(found.into_iter().filter(is_there));
        }
        Ok(rows)
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        let contents = self.contents()?;
        let parent_ids: HashSet<&str> = parent_ids.iter().copied().collect();
        let only: Option<HashSet<&str>> = only.map(|only| only.iter().copied().collect());
        let mut sums: BTreeMap<String, Totals> = BTreeMap::new();
        for ((run, _), row) in &contents.runs {
            let parent = row.stored.parent_run_id.as_str();
            if run.0 == scope.project.as_str()
                && run.1 == scope.app.as_str()
                && row.stored.is_deleted == 0
                && parent_ids.contains(parent)
                && only
                    .as_ref()
                    .is_none_or(|only| only.contains(run.2.as_str()))
            {
                let sum = sums.entry(parent.to_owned()).or_default();
                sum.add(&row.stored.totals);
            }
        }
        let sums = sums.into_iter();
        Ok(sums
            .map(|(parent_run_id, totals)| ChildSum {
                parent_run_id,
                totals,
            })
            .collect())
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        let contents = self.contents()?;
        for ((run, _), row) in &contents.runs {
            if run.0 == scope.project.as_str()
                && run.1 == scope.app.as_str()
                && root_ids.contains(&row.stored.root_run_id.as_str())
            {
                each(Child {
                    run_id: run.2.clone(),
                    parent_run_id: row.stored.parent_run_id.clone(),
                });
            }
        }
        Ok(())
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        let mut contents = self.contents()?;
        if rows.expires.is_some_and(|until| Instant::now() >= until) {
            return Err(StoreError::Fenced);
        }
        if contents.refuses {
            return Err(StoreError::Shape("refused, says the test".to_owned()));
        }
        if let Some((name, code)) = &contents.refused
            && rows.runs.iter().any(|run| run.row().run_id.contains(name))
        {
            let message = "says the test".to_owned();
            let code = *code;
            // The rows before it are stored.
            let events: Vec<_> = rows.events.iter().map(owned_event).collect();
            contents.events.extend(events);
            return Err(StoreError::Refused { code, message });
        }
        let interruption = contents.interruption.take();
        let keeps =
            |part: i64| interruption.is_none_or(|seed| seed >> (part.rem_euclid(61)) & 1 == 1);
        for row in rows
            .events
            .iter()
            .filter(|row| keeps(row.timestamp / DAY_MS))
        {
            contents.events.insert(owned_event(row));
        }
        for row in rows
            .feedback
            .iter()
            .filter(|row| keeps(row.timestamp / DAY_MS + 3))
        {
            contents.feedback.insert(row.event_id);
        }
        // A part holds the rows of one day, and is stored whole or not at all.
        let keeps_run = |run: &&RunToStore<'_>| keeps(run.started_at_ms() / DAY_MS + 7);
        for run in rows.runs.iter().filter(keeps_run) {
            contents.put(&run.row());
        }
        // The causes are stored last, so an interruption before that leaves none of them.
        let all_stored = interruption.is_none_or(|seed| seed % 8 == 7)
            && rows.runs.iter().all(|run| keeps_run(&run));
        if all_stored {
            for run in rows
                .causes
                .iter()
                .filter(|run| keeps(run.started_at_ms() / DAY_MS + 11))
            {
                contents.put(&run.row());
            }
        }
        match interruption {
            Some(_) => Err(StoreError::Unavailable(
                "interrupted by the test".to_owned(),
            )),
            None => Ok(()),
        }
    }

    async fn known_runs(
        &self,
        _since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        let contents = self.contents()?;
        contents
            .runs
            .keys()
            .for_each(|((project, app, run), _)| each(run_hash(project, app, run)));
        Ok(contents.runs.len() as u64)
    }

    async fn waiting_parents(
        &self,
        _since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        let contents = self.contents()?;
        let waiting = contents
            .runs
            .values()
            .map(|row| &row.stored)
            .filter(|stored| {
                stored.is_deleted == 0
                    && !stored.parent_run_id.is_empty()
                    && stored.root_run_id == stored.run_id
            });
        let scope = |stored: &StoredRun| {
            let keys = contents.runs.keys();
            keys.filter(|((_, _, run), at)| *run == stored.run_id && *at == stored.started_at)
                .map(|((project, app, _), _)| (project.clone(), app.clone()))
                .collect::<Vec<_>>()
        };
        let mut count = 0;
        for stored in waiting {
            for (project, app) in scope(stored) {
                each(run_hash(&project, &app, &stored.parent_run_id));
                count += 1;
            }
        }
        Ok(count)
    }

    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        let mut contents = self.contents()?;
        contents.lookups += 1;
        let mut found: BTreeSet<(u64, String)> = BTreeSet::new();
        for ((run, _), row) in &contents.runs {
            if run.0 == scope.project.as_str() && run.1 == scope.app.as_str() {
                let links = row
                    .stored
                    .call_links
                    .iter()
                    .filter(|link| links.contains(link));
                found.extend(links.map(|link| (*link, run.2.clone())));
            }
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        found.retain(|(link, _)| {
            let count = counts.entry(*link).or_default();
            *count += 1;
            *count <= most
        });
        let found = found.into_iter();
        Ok(found
            .map(|(link, run_id)| LinkedRun { run_id, link })
            .collect())
    }

    async fn call_links(
        &self,
        _since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        let contents = self.contents()?;
        let links = contents
            .runs
            .values()
            .flat_map(|row| &row.stored.call_links);
        let mut count = 0;
        for link in links {
            each(*link);
            count += 1;
        }
        Ok(count)
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        Ok(self.contents()?.placed_by)
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        self.contents()?.placed_by = Some(partitions);
        Ok(())
    }
}

fn owned_event(row: &EventRow<'_>) -> (String, String, i64, u128) {
    let (project, app) = (row.project_id.to_owned(), row.app_id.to_owned());
    (project, app, row.timestamp, row.event_id)
}

fn owned(row: &RunRow<'_>) -> Row {
    Row {
        stored: StoredRun {
            app_id: row.app_id.to_owned(),
            run_id: row.run_id.to_owned(),
            started_at: row.started_at,
            version: row.version,
            is_deleted: row.is_deleted,
            parent_run_id: row.parent_run_id.to_owned(),
            root_run_id: row.root_run_id.to_owned(),
            agent: row.agent.to_owned(),
            user_email: row.user_email.to_owned(),
            thread_id: row.thread_id.to_owned(),
            turn_at: row.turn_at,
            input_preview: row.input_preview.to_owned(),
            output_preview: row.output_preview.to_owned(),
            cost: row.cost,
            cost_status: row.cost_status,
            cost_estimated: row.cost_estimated,
            counted_run_id: row.counted_run_id.to_owned(),
            enclosing_call: row.enclosing_call.to_owned(),
            call_links: row.call_links.to_vec(),
            totals: Totals {
                cost: row.total_cost,
                prompt_tokens: row.total_prompt_tokens,
                completion_tokens: row.total_completion_tokens,
                tokens: row.total_tokens_with_children,
                llm_calls: row.llm_calls,
                errors: row.error_count,
            },
            state: row.state.to_vec(),
        },
        columns: json!({
            "started_at": row.started_at, "ended_at": row.ended_at, "status": row.status.as_str(),
            "parent": row.parent_run_id, "root": row.root_run_id, "agent": row.agent, "user": row.user_email,
            "thread": row.thread_id, "turn": row.turn_at,
            "tags": row.tags, "name": row.name, "saved": row.saved == 1,
            "feedback": [row.feedback_rating, row.feedback_comment],
            "cost": [row.cost.to_string(), format!("{:?}", row.cost_status)],
            "counted by": row.counted_run_id, "calls": row.calls,
            "totals": [row.total_cost.to_string(), row.total_prompt_tokens.to_string(),
                row.total_completion_tokens.to_string(), row.total_tokens_with_children.to_string(),
                row.llm_calls.to_string(), row.error_count.to_string()],
        }),
    }
}
