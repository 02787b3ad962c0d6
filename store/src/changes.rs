//! Runs as they change: who follows asks again and again, and gets what was written since.
//!
//! Rows carry the time of their writing, given just before they are inserted, and become visible a little later, not
//! always in that order. So each look goes back by an overlap and leaves out what was found before. It is pulled: who
//! reads slowly gets less often what changed, and never what changed in between twice, because a run comes as it is
//! when it is read. Nothing waits in memory but one page. Who falls so far behind that a look costs too much goes on
//! from now, and is told of the gap.

use std::collections::HashMap;
use std::time::Duration;

use clickhouse::Row;
use schemas::filter::RunFilter;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Projects, Value, conditions, scope, start_bounds, time};
use crate::reads::ReadBounds;
use crate::runs_read::{Key, RunRecord, seek};

/// How far behind a follower may be: further back a list is the better answer.
pub const BEHIND_MAX: Duration = Duration::from_secs(60 * 60);
/// From here on a look that costs too much is not tried again: it would only cost more each time. Above [`CLOCKS`],
/// how far a quiet follower looks back anyway.
const BEHIND_DEAR: Duration = Duration::from_secs(120);
/// What a look may cost. A usual one takes milliseconds; one that takes seconds takes them from all others.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Memory of a look in the database: some hundred thousand changed runs.
const LOOK_BYTES: u64 = 128 << 20;
/// How much later than its time a row may become visible and still be found: many times what an insert takes.
const OVERLAP: Duration = Duration::from_secs(10);
/// How far the clock of a writer may be behind while nothing changes.
const CLOCKS: Duration = Duration::from_secs(60);
/// Runs given at a time: what a reader has waiting, so a megabyte.
const PAGE: usize = 500;
/// Rows remembered so as not to be given twice. With more of them in the overlap, the overlap gets shorter.
const REMEMBERED: usize = 10_000;

/// Follows the runs of some projects that fulfil a filter.
pub struct Changes {
    store: Store,
    projects: Projects,
    filter: RunFilter,
    /// Looks begin here, Unix milliseconds.
    from_ms: UnixMs,
    /// The newest row given or passed over.
    newest_ms: UnixMs,
    /// Rows since `from_ms` that were given: the version and when it was written.
    given: HashMap<Key, (u64, UnixMs)>,
    /// The last row of a full page: the next one goes on behind it.
    after: Option<Written>,
    /// What a look may cost.
    bounds: ReadBounds,
}

/// A run that changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// The run as it is now.
    pub run: RunRecord,
    /// Follow from here to miss nothing after this one, Unix milliseconds.
    pub at_ms: UnixMs,
}

/// Changes, and whether there are more to be had at once.
#[derive(Clone, Debug, Default)]
pub struct ChangePage {
    /// Oldest change first.
    pub changes: Vec<Change>,
    /// Whether there are more.
    pub has_more: bool,
    /// What was passed over because it was too much, and then `changes` is empty.
    pub gap: Option<Gap>,
}

/// A time in which changes were passed over, Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where the follower had come to.
    pub from_ms: UnixMs,
    /// Where it goes on.
    pub to_ms: UnixMs,
}

#[derive(Clone, Debug, Row, Deserialize)]
struct Written {
    started_at: i64,
    project_id: String,
    app_id: String,
    run_id: String,
    version: u64,
    written_ms: i64,
}

impl Changes {
    /// Follows from now on: what was written before is passed over.
    pub async fn from_now(
        store: Store,
        projects: Projects,
        filter: RunFilter,
        now_ms: UnixMs,
    ) -> Result<Self, StoreError> {
        let mut changes = Self::from(store, projects, filter, now_ms);
        match changes.written(now_ms, REMEMBERED).await {
            Ok(before) if before.len() < REMEMBERED => {
                before.iter().for_each(|row| changes.remember(row));
            }
            Err(error) if !is_dear(&error) => return Err(error),
            // Too much at once to tell what becomes visible late.
            _ => changes.from_ms = now_ms,
        }
        Ok(changes)
    }

    /// Follows from a change that was given before, which may come again.
    pub fn from(store: Store, projects: Projects, filter: RunFilter, at_ms: UnixMs) -> Self {
        Self {
            store,
            projects,
            filter,
            from_ms: at_ms.saturating_sub(millis(OVERLAP)),
            newest_ms: at_ms,
            given: HashMap::new(),
            after: None,
            bounds: ReadBounds {
                time: LOOK_TIME,
                memory_bytes: LOOK_BYTES,
                ..ReadBounds::default()
            },
        }
    }

    /// The same with other bounds on what a look may cost.
    #[must_use]
    pub fn within(self, bounds: ReadBounds) -> Self {
        Self { bounds, ..self }
    }

    /// What changed since the last look. An error changes nothing: look again. Further behind than [`BEHIND_MAX`], or
    /// well behind and with too much to look at, it goes on from now, and says so with a gap.
    pub async fn next(&mut self, now_ms: UnixMs) -> Result<ChangePage, StoreError> {
        let behind_ms = now_ms.saturating_sub(self.position());
        if behind_ms > millis(BEHIND_MAX + CLOCKS) {
            return Ok(self.skip(now_ms));
        }
        match self.look(now_ms).await {
            Err(error) if behind_ms > millis(BEHIND_DEAR) && is_dear(&error) => {
                Ok(self.skip(now_ms))
            }
            looked => looked,
        }
    }

    /// Up to when everything was given.
    fn position(&self) -> UnixMs {
        let after = self.after.as_ref().map(|row| row.written_ms);
        after.unwrap_or(self.from_ms.max(self.newest_ms))
    }

    /// Goes on from now, whatever was not given yet.
    fn skip(&mut self, now_ms: UnixMs) -> ChangePage {
        let gap = Gap {
            from_ms: self.position(),
            to_ms: now_ms,
        };
        (self.from_ms, self.newest_ms) = (now_ms, now_ms);
        self.given.clear();
        self.after = None;
        ChangePage {
            gap: Some(gap),
            ..ChangePage::default()
        }
    }

    async fn look(&mut self, now_ms: UnixMs) -> Result<ChangePage, StoreError> {
        let ask = match self.after {
            None => self.given.len() + PAGE,
            Some(_) => PAGE,
        };
        let found = self.written(now_ms, ask).await?;
        let last = found.last().cloned().filter(|_| found.len() == ask);
        let fresh: Vec<Written> = found.into_iter().filter(|row| self.is_fresh(row)).collect();
        let keys: Vec<Key> = fresh.iter().map(Written::key).collect();
        let filter = conditions(&self.filter, now_ms);
        let rows = self
            .store
            .current_rows(&scope(&self.projects), &keys, &filter)
            .await?;
        let mut rows: HashMap<Key, RunRecord> =
            rows.into_iter().map(|row| (Key::of(&row), row)).collect();
        let mut changes = Vec::with_capacity(rows.len());
        for row in &fresh {
            self.remember(row);
            // What does not fulfil the filter any more, or moved, comes by its newer row if it comes.
            if let Some(run) = rows.remove(&row.key()) {
                changes.push(Change {
                    run,
                    at_ms: self.newest_ms,
                });
            }
        }
        self.after = last;
        self.forget(now_ms);
        Ok(ChangePage {
            changes,
            has_more: self.after.is_some(),
            gap: None,
        })
    }

    /// Rows written since `from_ms`, or behind the last page, whose run fulfilled the filter when they were; oldest
    /// first.
    async fn written(&self, now_ms: UnixMs, limit: usize) -> Result<Vec<Written>, StoreError> {
        let mut at = scope(&self.projects);
        at.and("is_deleted = 0");
        let after = self.after.as_ref();
        at.and_with(
            "updated_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC')",
            "since",
            time(after.map_or(self.from_ms, |row| row.written_ms)),
        );
        let mut behind = Conditions::default();
        if let Some(row) = after {
            behind.and(
                "(written_ms, toUnixTimestamp64Milli(started_at), project_id, app_id, run_id) > \
                 ({since:Int64}, {after_start:Int64}, {after_project:String}, {after_app:String}, {after_run:String})",
            );
            behind.give("after_start", Value::Number(row.started_at));
            behind.give("after_project", Value::Text(row.project_id.clone()));
            behind.give("after_app", Value::Text(row.app_id.clone()));
            behind.give("after_run", Value::Text(row.run_id.clone()));
        }
        let at = at.with(&start_bounds(&self.filter));
        let filter = conditions(&self.filter, now_ms);
        let sql = format!(
            "SELECT started_at, project_id, app_id, run_id, max(version), \
             toUnixTimestamp64Milli(max(updated_at)) AS written_ms FROM runs WHERE {} AND {} \
             GROUP BY started_at, project_id, app_id, run_id HAVING {} \
             ORDER BY written_ms, started_at, project_id, app_id, run_id LIMIT {{limit:UInt64}}",
            at.sql(),
            filter.sql(),
            behind.sql()
        );
        let query = behind
            .fill(filter.fill(at.fill(seek(self.store.bounded_query_within(&sql, self.bounds)))));
        query.param("limit", limit).rows().await
    }

    fn is_fresh(&self, row: &Written) -> bool {
        let given = self.given.get(&row.key());
        given.is_none_or(|(version, _)| *version < row.version)
    }

    fn remember(&mut self, row: &Written) {
        self.newest_ms = self.newest_ms.max(row.written_ms);
        self.given.insert(row.key(), (row.version, row.written_ms));
    }

    /// Moves the beginning of the next look, and forgets what lies before it.
    fn forget(&mut self, now_ms: UnixMs) {
        let mut from_ms = self.newest_ms.saturating_sub(millis(OVERLAP));
        if self.after.is_none() {
            from_ms = from_ms.max(now_ms.saturating_sub(millis(CLOCKS)));
        }
        if self.given.len() > REMEMBERED {
            let mut times: Vec<UnixMs> = self.given.values().map(|(_, at_ms)| *at_ms).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            from_ms = from_ms.max(*median + 1);
        }
        self.from_ms = self.from_ms.max(from_ms);
        let from_ms = self.from_ms;
        self.given.retain(|_, (_, at_ms)| *at_ms >= from_ms);
    }
}

impl Written {
    fn key(&self) -> Key {
        Key {
            started_at: self.started_at,
            project_id: self.project_id.clone(),
            app_id: self.app_id.clone(),
            run_id: self.run_id.clone(),
        }
    }
}

/// Whether less to look at would have helped. Memory is also short when others use it: who is well behind is one of
/// those that can give way.
fn is_dear(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TooExpensive { .. } | StoreError::TimedOut(_) | StoreError::Overloaded { .. }
    )
}

fn millis(time: Duration) -> UnixMs {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
