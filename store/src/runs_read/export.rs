//! All runs that match, oldest first, a chunk at a time: each chunk is one bounded read, and nothing is held between
//! two of them but where the last one ended. So a reader may take hours, and holds neither memory nor a connection.
//!
//! Rows come where their run starts now. A run whose start moves while the export goes on comes once all the same:
//! one that moves ahead of what was read comes there unless it came before, and one that moves behind it is looked
//! up when the place is passed where it was. So the place of every row is a place to go on from: nothing after it in
//! the order is left out. A row that moved behind what was read is out of order; going on from it repeats runs.
//! An export that goes on after another one is told when that one began, and looks up what moved behind its beginning
//! since then; what moved ahead of it may come again, because nothing tells whether it came.

use std::collections::HashSet;

use schemas::filter::{RunFilter, Sort};
use schemas::timestamp::UnixMs;

use super::RunRecord;
use super::by_time::{Reach, Scan};
use super::keys::Key;
use super::moved::{Moved, Name, name_of};
use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Projects, conditions, scope, start_bounds};

/// ClickHouse's code for an answer above `max_result_bytes`.
const RESULT_TOO_LARGE: u32 = 396;
/// Runs in a chunk however large they are: at 64 KB each, the largest there can be, that many fit the bound.
const CHUNK_MIN: usize = 250;

/// A row's place in an export: what comes after it comes after it in every export of the same filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportPosition {
    /// Its start, Unix milliseconds.
    pub started_at_ms: UnixMs,
    /// Its project.
    pub project_id: String,
    /// Its app.
    pub app_id: String,
    /// Its run.
    pub run_id: String,
}

/// Which runs an export begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportStart {
    /// The last row of an export that this one goes on after.
    pub after: Option<ExportPosition>,
    /// When that export began, Unix milliseconds; now if it is not known.
    pub began_ms: Option<UnixMs>,
    /// Runs in a chunk, about.
    pub chunk: usize,
}

/// An export under way.
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

/// Runs that moved since the export began. At most as many as [`Moved`] takes in.
#[derive(Clone, Default)]
struct Moves {
    /// Those whose old place was passed without them, because they lie ahead.
    ahead: HashSet<Name>,
    /// Those that came.
    given: HashSet<Name>,
}

impl Store {
    /// Begins to export the runs in `projects` that match.
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
            reach: Reach::of(filter, &conditions),
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
    /// The next runs, at most about a chunk; none when there are no more. Dropping the future cancels its queries.
    /// After an error the same runs can be asked for again.
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
        // Read after the rows: a run that is not among them because it moved has left its tombstone by now.
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
            // What came is noted only once the chunk is whole: a read that fails half-way may be repeated.
            let mut moves = self.moves.clone();
            let (rows, missing) = moves.sort(rows, &moved, &passed);
            let found = self
                .store
                .runs_named(&self.scope, &missing, &self.filter)
                .await?;
            // First, so that no row of the chunk can be the last somebody has without these.
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

/// The part of the order that one chunk covers.
struct Passed<'a> {
    /// Where the export before this one ended.
    resumed: Option<&'a Key>,
    after: Option<&'a Key>,
    /// `None` for the rest of it.
    end: Option<&'a Key>,
}

impl Passed<'_> {
    fn was_before(&self, place: &Key) -> bool {
        self.after.is_some_and(|after| place <= after)
    }

    /// Whether a run that was there has come in this export, if nothing else is known of it.
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
    /// The rows that have not come before, and the places in this chunk whose runs are elsewhere.
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

    /// Of the runs that were in this chunk and are elsewhere, those that nothing else will find.
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
