//! Reads of runs for users: lists, one run, trees. Exactly one row per run, whatever is unmerged in the table (P3).
//!
//! A list takes two steps: it finds the keys of matching rows without merging, bounded in number and, in lists by
//! start, in windows that grow from the near end; then it reads the current rows at those keys merged and applies the
//! filter again. Merging everything that a filter reads would cost seconds at 10 million runs; merging a page costs
//! milliseconds.

mod by_time;
mod by_value;
mod export;
mod keys;
mod moved;
mod row;
mod same_call;
mod tree;

use schemas::cursor::Cursor;
use schemas::filter::{RunQuery, Sort};
use schemas::timestamp::UnixMs;

pub use export::{ExportPosition, ExportStart, RunExport};
pub use tree::Tree;

use crate::client::Store;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;
use crate::reads::current::{Current, Scope};
use crate::reads::filter_sql::{Conditions, Projects, Value, conditions, scope, start_bounds};
use crate::tables::decode::columns_of;
pub use crate::tables::runs::RunRecord;
use by_time::{Reach, Scan};
use by_value::Rank;
pub(crate) use keys::{Key, merged, seek};
use moved::{Moved, PageToFill, by_run_index};

/// Upper bound on a count: beyond it the exact number is of no use.
pub const COUNT_MAX: u64 = 10_000;
/// Maximum number of apps in the look-up of one run id.
const APPS_OF_RUN: u64 = 100;

/// A merged read that finds its rows by run id.
pub(crate) fn by_run(query: BoundedQuery) -> BoundedQuery {
    by_run_index(merged(seek(query)))
}

/// A run and its position in the list: its current one, unless it moved since the list was begun.
#[derive(Clone, Debug)]
struct Placed {
    at: Key,
    row: RunRecord,
}

impl Placed {
    fn where_it_is(row: RunRecord) -> Self {
        Self {
            at: Key::of(&row),
            row,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ListedRuns {
    /// In order.
    pub runs: Vec<RunRecord>,
    /// Where to continue, if there are more.
    pub next: Option<Cursor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCount {
    /// At most [`COUNT_MAX`].
    pub count: u64,
    /// Whether there are more.
    pub is_capped: bool,
}

impl Store {
    /// One page of the runs in `projects` that satisfy `query`, after `cursor` if there is one.
    ///
    /// Bounded in rows, memory and time by each of its queries, and in time as a whole (Q1). Over the pages of one list
    /// by start no run is repeated or missed, while runs arrive, change and move.
    pub async fn list_runs(
        &self,
        projects: &Projects,
        query: &RunQuery,
        cursor: Option<&Cursor>,
        now_ms: UnixMs,
    ) -> Result<ListedRuns, StoreError> {
        let limit = self.config().query_timeout;
        match tokio::time::timeout(limit, self.page(projects, query, cursor, now_ms)).await {
            Ok(page) => page,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    async fn page(
        &self,
        projects: &Projects,
        query: &RunQuery,
        cursor: Option<&Cursor>,
        now_ms: UnixMs,
    ) -> Result<ListedRuns, StoreError> {
        let scope = scope(projects);
        let filter = conditions(&query.filter, now_ms);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let is_first = cursor.is_none() && query.sort == Sort::StartedAtDesc;
        let kind = (is_first && query.filter.to_ms.is_none()).then(|| {
            self.recent_pages
                .kind(&scope, &filter, filter.sql(), limit + 1)
        });
        let reach = Reach::of(&query.filter);
        let filter = filter.with(&start_bounds(&query.filter));
        let scan = Scan {
            scope: &scope,
            filter: &filter,
            sort: query.sort,
            now_ms,
            reach,
            from_ms: query.filter.from_ms,
            to_ms: query.filter.to_ms,
        };
        let after = cursor.map(|cursor| Key {
            started_at: cursor.started_at_ms,
            project_id: cursor.project_id.clone(),
            app_id: cursor.app_id.clone(),
            run_id: cursor.run_id.clone(),
        });
        let since_ms = cursor.map_or(now_ms, |cursor| cursor.since_ms);
        let mut page = match query.sort {
            Sort::StartedAtDesc | Sort::StartedAtAsc => match after {
                None => scan.first_page(self, kind, limit + 1).await?,
                Some(after) => {
                    // Nearly always nothing moved: the page is read without waiting for that.
                    let still = Moved::default();
                    let (moved, mut page) = tokio::try_join!(
                        Moved::since(self, &scope, since_ms),
                        scan.page(self, Some(after.clone()), limit + 1, &still)
                    )?;
                    if !moved.is_empty() {
                        page = scan
                            .page(self, Some(after.clone()), limit + 1, &moved)
                            .await?;
                        let mut filled = PageToFill {
                            rows: page,
                            need: limit + 1,
                        };
                        moved.place(self, &scan, &after, &mut filled).await?;
                        page = filled.rows;
                    }
                    page
                }
            },
            _ => {
                let value = cursor.and_then(|cursor| cursor.value);
                let after = after.zip(value).map(|(key, value)| Rank { value, key });
                by_value::page(self, &scan, after, limit + 1).await?
            }
        };
        let has_more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| has_more).map(|last| Cursor {
            since_ms,
            value: last.row.sort_value(query.sort),
            started_at_ms: last.at.started_at,
            project_id: last.at.project_id.clone(),
            app_id: last.at.app_id.clone(),
            run_id: last.at.run_id.clone(),
        });
        Ok(ListedRuns {
            runs: page.into_iter().map(|placed| placed.row).collect(),
            next,
        })
    }

    /// Number of matching runs, up to [`COUNT_MAX`].
    pub async fn count_runs(
        &self,
        projects: &Projects,
        query: &RunQuery,
        now_ms: UnixMs,
    ) -> Result<RunCount, StoreError> {
        let layout = self.layout(&query.filter).await?;
        let asked = Scope {
            projects,
            filter: &query.filter,
            now_ms,
        };
        let current = Current::of(&layout, asked);
        let sql = format!(
            "SELECT count() FROM (SELECT 1 FROM {} LIMIT {})",
            current.rows("started_at", None),
            COUNT_MAX + 1,
        );
        let count: u64 = current.query(self, &sql).one().await?;
        Ok(RunCount {
            count: count.min(COUNT_MAX),
            is_capped: count > COUNT_MAX,
        })
    }

    /// The runs with this id, newest first: one per project and app.
    pub async fn runs_by_id(
        &self,
        projects: &Projects,
        app_id: Option<&str>,
        run_id: &str,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut at = scope(projects);
        at.and_with(
            "run_id = {run:String}",
            "run",
            Value::Text(run_id.to_owned()),
        );
        let mut app = Conditions::default();
        if let Some(app_id) = app_id {
            app.and_with(
                "app_id = {app:String}",
                "app",
                Value::Text(app_id.to_owned()),
            );
        }
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {} WHERE {} \
             ORDER BY started_at DESC, project_id, app_id LIMIT {APPS_OF_RUN}",
            columns_of::<RunRecord>(),
            at.sql(),
            app.sql()
        );
        app.fill(at.fill(by_run_index(merged(seek(self.bounded_query(&sql))))))
            .rows()
            .await
    }
}
