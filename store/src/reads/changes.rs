//! Changes of runs: a follower polls for runs that were written since its last look.
//!
//! Rows contain the time of their writing, set just before they are inserted, and become visible a little later, not
//! always in that order. So each look goes back by an overlap and skips what it has already returned. Followers pull: a
//! slow one receives changes less often, and never a run twice for changes in between, because a run is returned in its
//! state at the time of reading. Only one page is held in memory. A follower that falls so far behind that a look costs
//! too much continues from now, and receives a notice of the gap.

use std::collections::HashMap;
use std::time::Duration;

use clickhouse::Row;
use schemas::filter::RunFilter;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::client::query::ReadBounds;
use crate::error::StoreError;
use crate::reads::filter_sql::{
    Conditions, Projects, Value, conditions, scope, start_bounds, time,
};
use crate::reads::runs::{Key, RunRecord, seek};

/// How far behind a follower may be: further back a list is the better tool.
pub const BEHIND_MAX: Duration = Duration::from_secs(60 * 60);
/// From here on a look that costs too much is not retried: it would only cost more each time. Above [`CLOCKS`], how far
/// a quiet follower looks back anyway.
const BEHIND_DEAR: Duration = Duration::from_secs(120);
/// Time-out of a look. A typical one takes milliseconds; one that takes seconds delays all others.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Memory of a look in the database: some hundred thousand changed runs.
const LOOK_BYTES: u64 = 128 << 20;
/// How much later than its time a row may become visible and still be found: many times the duration of an insert.
const OVERLAP: Duration = Duration::from_secs(10);
/// How far a writer's clock may be behind while nothing changes.
const CLOCKS: Duration = Duration::from_secs(60);
/// Runs per page: about a megabyte in memory per follower.
const PAGE: usize = 500;
/// Rows remembered to avoid duplicates. With more of them in the overlap, the overlap gets shorter.
const REMEMBERED: usize = 10_000;

/// Follows the runs of some projects that satisfy a filter.
pub struct Changes {
    store: Store,
    projects: Projects,
    filter: RunFilter,
    /// Start of the next look, Unix milliseconds.
    from_ms: UnixMs,
    /// The newest row returned or skipped.
    newest_ms: UnixMs,
    /// Returned rows since `from_ms`: their version and time of writing.
    given: HashMap<Key, (u64, UnixMs)>,
    /// The last row of a full page: the next page continues after it.
    after: Option<Written>,
    /// Bounds on a look.
    bounds: ReadBounds,
}

#[derive(Clone, Debug)]
pub struct Change {
    /// The run in its current state.
    pub run: RunRecord,
    /// Following from here misses nothing after this change, Unix milliseconds.
    pub at_ms: UnixMs,
}

#[derive(Clone, Debug, Default)]
pub struct ChangePage {
    /// Oldest change first.
    pub changes: Vec<Change>,
    /// Whether there are more.
    pub has_more: bool,
    /// The range that was skipped because it was too large; then `changes` is empty.
    pub gap: Option<Gap>,
}

/// A range of time whose changes were skipped, Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The follower's last position.
    pub from_ms: UnixMs,
    /// Its new position.
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
    /// Follows from now on: earlier writes are skipped.
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
            // Too many at once to recognize rows that become visible late.
            _ => changes.from_ms = now_ms,
        }
        Ok(changes)
    }

    /// Follows from a change that was returned before, which may come again.
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

    /// With other bounds on a look.
    #[must_use]
    pub fn within(self, bounds: ReadBounds) -> Self {
        Self { bounds, ..self }
    }

    /// The changes since the last look. After an error, look again. Further behind than [`BEHIND_MAX`], or well behind
    /// and with too much to read, it continues from now, and returns a gap.
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

    /// Everything up to here was returned.
    fn position(&self) -> UnixMs {
        let after = self.after.as_ref().map(|row| row.written_ms);
        after.unwrap_or(self.from_ms.max(self.newest_ms))
    }

    /// Continues from now, skipping everything not yet returned.
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
            // A run that no longer satisfies the filter, or moved, is returned by its newer row, if at all.
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

    /// Rows written since `from_ms`, or after the last page, whose run satisfied the filter at that time; oldest first.
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

    /// Advances the start of the next look, and drops what is before it.
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

/// Whether a smaller look would have helped. Memory is also short when other queries use it: a follower that is well
/// behind can give way.
fn is_dear(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TooExpensive { .. } | StoreError::TimedOut(_) | StoreError::Overloaded { .. }
    )
}

fn millis(time: Duration) -> UnixMs {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
