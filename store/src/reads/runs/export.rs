//! All matching runs, oldest first, a chunk at a time: each chunk is one bounded read, and only the end of the last one
//! is held between two of them. So a client may take hours, and holds neither memory nor a connection.
//!
//! Rows are ordered by their run's current start. A run whose start moves during the export is returned exactly once:
//! one that moves ahead of the position is returned there unless it was before, and one that moves behind it is looked
//! up when its former position is passed. So an export can continue from every row: nothing after it in the order is
//! missed. A row that moved behind the position is out of order; continuing from it repeats runs. An export that
//! continues another one gets the start of that one, and looks up what moved behind its beginning since then; what
//! moved ahead of it may be repeated, because nothing says whether it was returned.

use std::collections::HashSet;

use schemas::filter::{RunFilter, Sort};
use schemas::timestamp::UnixMs;

use super::RunRecord;
use super::by_time::{Reach, Scan};
use super::keys::Key;
use super::moved::{Moved, Name, name_of};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Projects, conditions, scope, start_bounds};

/// ClickHouse's code for a result above `max_result_bytes`.
const RESULT_TOO_LARGE: u32 = 396;
/// Runs in a chunk however large they are: at 64 KB each, the maximum, that many fit into the bound.
const CHUNK_MIN: usize = 250;

/// A row's position in an export: the order is the same in every export with the same filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportPosition {
    /// Unix milliseconds.
    pub started_at_ms: UnixMs,
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
}

/// Where an export begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportStart {
    /// The last row of the export that this one continues.
    pub after: Option<ExportPosition>,
    /// When that export began, Unix milliseconds; `None` for now.
    pub began_ms: Option<UnixMs>,
    /// Approximate number of runs in a chunk.
    pub chunk: usize,
}

pub struct RunExport {
    store: Store,
    scope: Conditions,
    filter: Conditions,
    reach: Reach,
    bounds: (Option<UnixMs>, Option<UnixMs>),
    now_ms: UnixMs,
    began_ms: UnixMs,
    resumed: Option<Key>,
    after: Option<Key>,
    chunk: usize,
    moves: Moves,
    is_done: bool,
}

/// Runs that moved since the export began. At most as many as [`Moved`] holds.
#[derive(Clone, Default)]
struct Moves {
    /// Runs whose former position was passed and that are ahead.
    ahead: HashSet<Name>,
    /// Returned runs.
    given: HashSet<Name>,
}

impl Store {
    /// Begins to export the matching runs in `projects`.
    pub fn export_runs(
        &self,
        projects: &Projects,
        filter: &RunFilter,
        start: ExportStart,
        now_ms: UnixMs,
    ) -> RunExport {
        let after = start.after.map(|after| Key {
            started_at: after.started_at_ms,
            project_id: after.project_id,
            app_id: after.app_id,
            run_id: after.run_id,
        });
        let conditions = conditions(filter, now_ms);
        RunExport {
            store: self.clone(),
            scope: scope(projects),
            reach: Reach::of(filter),
            filter: conditions.with(&start_bounds(filter)),
            bounds: (filter.from_ms, filter.to_ms),
            now_ms,
            began_ms: start.began_ms.unwrap_or(now_ms).min(now_ms),
            resumed: after.clone(),
            after,
            chunk: start.chunk.max(1),
            moves: Moves::default(),
            is_done: false,
        }
    }
}

impl RunExport {
    /// The next runs, at most about a chunk; empty at the end. Dropping the future cancels its queries. After an error
    /// the same runs can be requested again.
    pub async fn next(&mut self) -> Result<Vec<RunRecord>, StoreError> {
        while !self.is_done {
            let rows = match self.read().await {
                Err(StoreError::TooExpensive {
                    code: RESULT_TOO_LARGE,
                    ..
                }) if self.chunk > CHUNK_MIN => {
                    self.chunk = (self.chunk / 4).max(CHUNK_MIN);
                    continue;
                }
                read => read?,
            };
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }

    async fn read(&mut self) -> Result<Vec<RunRecord>, StoreError> {
        let scan = Scan {
            scope: &self.scope,
            filter: &self.filter,
            sort: Sort::StartedAtAsc,
            now_ms: self.now_ms,
            reach: self.reach,
            from_ms: self.bounds.0,
            to_ms: self.bounds.1,
        };
        let still = Moved::default();
        let after = self.after.clone();
        let page = scan
            .page(&self.store, after.clone(), self.chunk, &still)
            .await?;
        // Read after the rows: a run that is missing because it moved has left its tombstone by now.
        let moved = Moved::since(&self.store, &self.scope, self.began_ms).await?;
        let is_last = page.len() < self.chunk;
        let end = page.last().filter(|_| !is_last).map(|last| last.at.clone());
        let rows = page.into_iter().map(|placed| placed.row).collect();
        let rows = if moved.is_empty() {
            rows
        } else {
            let passed = Passed {
                resumed: self.resumed.as_ref(),
                after: after.as_ref(),
                end: end.as_ref(),
            };
            // Returned runs are recorded only once the chunk is complete: a read that fails half-way may be repeated.
            let mut moves = self.moves.clone();
            let (rows, missing) = moves.sort(rows, &moved, &passed);
            let found = self
                .store
                .runs_named(&self.scope, &missing, &self.filter)
                .await?;
            // First, so that no row of the chunk can be the last that a client received without these.
            let mut all = moves.behind(found, &moved, &passed);
            all.extend(rows);
            self.moves = moves;
            all
        };
        self.after = end.or(self.after.take());
        self.is_done = is_last;
        Ok(rows)
    }
}

/// The range of the order that one chunk covers.
struct Passed<'a> {
    /// Where the previous export ended.
    resumed: Option<&'a Key>,
    after: Option<&'a Key>,
    /// `None` for the rest of it.
    end: Option<&'a Key>,
}

impl Passed<'_> {
    fn was_before(&self, place: &Key) -> bool {
        self.after.is_some_and(|after| place <= after)
    }

    /// Whether a run at this position was returned by this export, if nothing else is known of it.
    fn has_given(&self, place: &Key) -> bool {
        self.was_before(place) && self.resumed.is_none_or(|resumed| place > resumed)
    }

    fn is_beyond(&self, place: &Key) -> bool {
        self.end.is_some_and(|end| place > end)
    }

    fn covers(&self, place: &Key) -> bool {
        !self.was_before(place) && !self.is_beyond(place)
    }
}

impl Moves {
    /// The rows that were not returned before, and the positions in this chunk whose runs are elsewhere.
    fn sort(
        &mut self,
        rows: Vec<RunRecord>,
        moved: &Moved,
        passed: &Passed<'_>,
    ) -> (Vec<RunRecord>, Vec<Key>) {
        let rows = rows
            .into_iter()
            .filter(|row| {
                let name = name_of(row);
                let Some(was_at) = moved.was_at(&name) else {
                    return true;
                };
                let came = passed.has_given(&was_at) && !self.ahead.contains(&name);
                !came && self.given.insert(name)
            })
            .collect();
        let missing = moved
            .places()
            .filter(|place| passed.covers(place) && !self.given.contains(&name(place)))
            .collect();
        (rows, missing)
    }

    /// Of the runs that were in this chunk and are elsewhere, the ones that nothing else will find.
    fn behind(
        &mut self,
        found: Vec<RunRecord>,
        moved: &Moved,
        passed: &Passed<'_>,
    ) -> Vec<RunRecord> {
        found
            .into_iter()
            .filter(|row| {
                let name = name_of(row);
                if !moved
                    .was_at(&name)
                    .is_some_and(|place| passed.covers(&place))
                {
                    return false;
                }
                if passed.is_beyond(&Key::of(row)) {
                    self.ahead.insert(name);
                    return false;
                }
                self.given.insert(name)
            })
            .collect()
    }
}

fn name(place: &Key) -> Name {
    (
        place.project_id.clone(),
        place.app_id.clone(),
        place.run_id.clone(),
    )
}
