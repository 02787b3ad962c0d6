//! Lists by start: windows that grow from the near end until the page is full.
//!
//! Each window takes two steps: the keys of matching rows are found without merging, then the current rows at those
//! keys are read merged and filtered again. The current row of a matching run is itself among the candidates, so none
//! is missed; a row that was replaced meanwhile fails the second step (P3).

use schemas::filter::{Condition, RunFilter, Sort};
use schemas::timestamp::UnixMs;

use super::keys::{Key, Side, merged, seek};
use super::moved::Moved;
use super::{Placed, RunRecord};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, is_start, time};
use crate::recent_pages::{Kind, Range};

const MINUTE_MS: i64 = 60_000;
/// First window of a list without a filter: on a busy server it contains a page, and finding it empty is cheap.
const FIRST_WINDOW_MS: i64 = 15 * MINUTE_MS;
/// First window of a list with a filter: finding little costs a query more, so it is wider.
const FIRST_FILTERED_WINDOW_MS: i64 = 4 * 60 * MINUTE_MS;
/// First window of a list whose filter has an index: a wide one costs little.
const FIRST_INDEXED_WINDOW_MS: i64 = 24 * 60 * MINUTE_MS;
/// Growth of the window after one without results: a filter that finds little costs a query and a merged read per
/// window, so few wide windows are better than many narrow ones.
const GROWTH: i64 = 64;
/// A window that would leave less than this many times itself takes in the rest.
const REST: i64 = 2;

/// With more candidates than this, their range is read instead of their keys: about where one query of the one kind
/// costs as much as two of the other.
const DENSE_KEYS: usize = 2_000;

/// Rows that the one read of a page may read, unmerged ones and those beside the range in its granules included.
const RANGE_ROWS_MAX: usize = 50_000;

/// The parameters of one list.
pub(super) struct Scan<'a> {
    pub(super) scope: &'a Conditions,
    /// The whole filter, bounds on the start included.
    pub(super) filter: &'a Conditions,
    pub(super) sort: Sort,
    pub(super) now_ms: UnixMs,
    /// Selectivity of the filter.
    pub(super) reach: Reach,
    pub(super) from_ms: Option<UnixMs>,
    pub(super) to_ms: Option<UnixMs>,
}

/// The selectivity of a filter, by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everything, or one app.
    Most,
    /// Found by reading columns.
    Some,
    /// Found by an index.
    Few,
}

impl Reach {
    pub(super) fn of(filter: &RunFilter) -> Self {
        let is_indexed = filter.user_email.is_some()
            || filter.thread_id.is_some()
            || filter.parent_run_id.is_some();
        let mut others = filter.given().filter(|(declared, _)| !is_start(declared));
        if is_indexed {
            Reach::Few
        } else if others.all(|(declared, _)| declared.condition == Condition::Equals("app_id")) {
            Reach::Most
        } else {
            Reach::Some
        }
    }
}

/// How far the list has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Read {
    #[default]
    Nothing,
    /// Everything on the near side of this time, inclusive if the far bound was inclusive.
    Until(UnixMs),
    /// Everything up to and including this key.
    Through(Key),
}

/// A page that is partly read.
#[derive(Default)]
struct Begun {
    page: Vec<Placed>,
    read: Read,
    /// The first window, where earlier pages tell it.
    first: Option<Range>,
}

impl Read {
    fn moment(&self) -> Option<UnixMs> {
        match self {
            Read::Nothing => None,
            Read::Until(ms) => Some(*ms),
            Read::Through(key) => Some(key.started_at),
        }
    }
}

impl Scan<'_> {
    fn descending(&self) -> bool {
        self.sort != Sort::StartedAtAsc
    }

    /// The first `need` runs, in order. Fewer mean that there are no more. Pages of one `kind` are read faster after
    /// the first of them.
    pub(super) async fn first_page(
        &self,
        store: &Store,
        kind: Option<Kind>,
        need: usize,
    ) -> Result<Vec<Placed>, StoreError> {
        let Some(kind) = kind else {
            return self
                .windows(store, Begun::default(), need, &Moved::default())
                .await;
        };
        let mut begun = Begun {
            first: store.recent_pages.range(kind, self.now_ms),
            ..Begun::default()
        };
        let mut is_whole = false;
        if let Some(Range {
            far: Some(far),
            is_short: true,
        }) = begun.first.take_if(|range| range.is_short)
        {
            match self.newest(store, far, need).await {
                Ok(rows) => {
                    is_whole = self.from_ms.is_some_and(|from| far <= from);
                    begun.page = rows.into_iter().map(Placed::where_it_is).collect();
                    begun.read = Read::Until(far);
                }
                // The range has more rows than it had.
                Err(StoreError::TooExpensive { .. }) => store.recent_pages.forget(kind),
                Err(error) => return Err(error),
            }
        }
        let page = match is_whole {
            true => begun.page,
            false => self.windows(store, begun, need, &Moved::default()).await?,
        };
        let last = page.last().filter(|_| page.len() >= need);
        // What a bound cut off is not known.
        if last.is_some() || self.from_ms.is_none() {
            let last_ms = last.map(|last| last.at.started_at);
            store
                .recent_pages
                .remember(kind, page.len(), last_ms, self.now_ms);
        }
        Ok(page)
    }

    /// Up to `need` runs after `after`, in order. Fewer mean that there are no more.
    pub(super) async fn page(
        &self,
        store: &Store,
        after: Option<Key>,
        need: usize,
        moved: &Moved,
    ) -> Result<Vec<Placed>, StoreError> {
        let begun = Begun {
            read: after.map_or(Read::Nothing, Read::Through),
            ..Begun::default()
        };
        self.windows(store, begun, need, moved).await
    }

    /// The rest of a page.
    async fn windows(
        &self,
        store: &Store,
        begun: Begun,
        need: usize,
        moved: &Moved,
    ) -> Result<Vec<Placed>, StoreError> {
        let Begun {
            mut page,
            mut read,
            mut first,
        } = begun;
        if page.len() >= need {
            return Ok(page);
        }
        let mut width = match self.reach {
            Reach::Most => FIRST_WINDOW_MS,
            Reach::Some => FIRST_FILTERED_WINDOW_MS,
            Reach::Few => FIRST_INDEXED_WINDOW_MS,
        };
        let mut extent = store.recent_pages.extent();
        if extent.is_none() && !self.descending() && read.moment().is_none() {
            extent = Some(store.extent().await?);
        }
        // Candidates of several windows are read merged together: that step costs more than finding them.
        let mut waiting: Vec<Key> = Vec::new();
        loop {
            let far = match first.take() {
                Some(range) => range
                    .far
                    .filter(|far| self.from_ms.is_none_or(|from| *far > from)),
                None => self.far(&read, width, extent),
            };
            let missing = need - page.len();
            let ask = (missing + missing / 16 + 2)
                .saturating_sub(waiting.len())
                .max(1);
            let found = match extent {
                Some(_) => self.candidates(store, &read, far, ask).await?,
                None => {
                    let (found, known) =
                        tokio::try_join!(self.candidates(store, &read, far, ask), store.extent())?;
                    extent = Some(known);
                    found
                }
            };
            let (is_full, count, last) = (found.len() >= ask, found.len(), found.last().cloned());
            waiting.extend(found);
            waiting.dedup();
            if is_full || far.is_none() {
                let rows = self.verified(store, &waiting).await?;
                waiting.clear();
                page.extend(
                    rows.into_iter()
                        .filter(|row| !moved.contains(row))
                        .map(Placed::where_it_is),
                );
                if page.len() >= need || !is_full {
                    page.truncate(need);
                    return Ok(page);
                }
            }
            match (is_full, last, far) {
                (true, Some(last), _) => read = Read::Through(last),
                (_, _, Some(far)) => {
                    read = Read::Until(far);
                    let found = i64::try_from(count).unwrap_or(i64::MAX);
                    let missing = i64::try_from(ask.saturating_sub(count)).unwrap_or(i64::MAX);
                    let growth = if found == 0 {
                        GROWTH
                    } else {
                        (2 * missing / found).clamp(2, GROWTH)
                    };
                    width = width.saturating_mul(growth);
                }
                (_, _, None) => return Ok(page),
            }
        }
    }

    /// The far end of the next window; `None` when it takes in the rest.
    fn far(&self, read: &Read, width: i64, extent: Option<(UnixMs, UnixMs)>) -> Option<UnixMs> {
        let (oldest, newest) = extent.unwrap_or((i64::MIN, i64::MAX));
        if self.descending() {
            let near = read
                .moment()
                .unwrap_or(self.now_ms)
                .min(self.to_ms.unwrap_or(i64::MAX))
                .min(newest);
            let far = near.saturating_sub(width);
            let end = oldest.max(self.from_ms.unwrap_or(i64::MIN));
            (far.saturating_sub(end) > width.saturating_mul(REST)).then_some(far)
        } else {
            let near = read
                .moment()
                .unwrap_or(i64::MIN)
                .max(self.from_ms.unwrap_or(i64::MIN))
                .max(oldest);
            let far = near.saturating_add(width);
            let end = newest.min(self.to_ms.unwrap_or(i64::MAX));
            (end.saturating_sub(far) > width.saturating_mul(REST)).then_some(far)
        }
    }

    /// Keys of matching rows, best first, possibly with duplicates.
    /// The newest `need` current rows that match and start at `far` or later, newest first, in one read.
    ///
    /// # Errors
    /// [`StoreError::TooExpensive`] if the range has many rows.
    async fn newest(
        &self,
        store: &Store,
        far: UnixMs,
        need: usize,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut at = self.scope.clone();
        let bound = "started_at >= fromUnixTimestamp64Milli({far:Int64}, 'UTC')";
        at.and_with(bound, "far", time(far));
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {} WHERE {} \
             ORDER BY started_at DESC, project_id DESC, app_id DESC, run_id DESC LIMIT {{limit:UInt64}}",
            RunRecord::list_columns(),
            at.sql(),
            self.filter.sql()
        );
        let query = self
            .filter
            .fill(at.fill(merged(seek(store.bounded_query(&sql)))));
        query
            .setting("max_rows_to_read", RANGE_ROWS_MAX.to_string())
            .setting("max_threads", "1")
            .param("limit", need)
            .rows()
            .await
    }

    async fn candidates(
        &self,
        store: &Store,
        read: &Read,
        far: Option<UnixMs>,
        limit: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let mut at = self.scope.clone();
        let (near_sql, beyond, far_sql, order) = if self.descending() {
            (
                "started_at < fromUnixTimestamp64Milli({near:Int64}, 'UTC')",
                Side::Before,
                "started_at >= fromUnixTimestamp64Milli({far:Int64}, 'UTC')",
                "started_at DESC, project_id DESC, app_id DESC, run_id DESC",
            )
        } else {
            (
                "started_at > fromUnixTimestamp64Milli({near:Int64}, 'UTC')",
                Side::After,
                "started_at <= fromUnixTimestamp64Milli({far:Int64}, 'UTC')",
                "started_at, project_id, app_id, run_id",
            )
        };
        match read {
            Read::Nothing => {}
            Read::Until(moment) => at.and_with(near_sql, "near", time(*moment)),
            Read::Through(key) => at.and_key(beyond, "near", key),
        }
        if let Some(far) = far {
            at.and_with(far_sql, "far", time(far));
        }
        let sql = format!(
            "SELECT started_at, project_id, app_id, run_id FROM runs WHERE {} AND {} ORDER BY {order} LIMIT {{limit:UInt64}}",
            at.sql(),
            self.filter.sql()
        );
        let query = self.filter.fill(at.fill(seek(store.bounded_query(&sql))));
        query.param("limit", limit).rows().await
    }

    /// The current rows at these keys that still match, in the order of the list.
    async fn verified(&self, store: &Store, keys: &[Key]) -> Result<Vec<RunRecord>, StoreError> {
        let mut rows = if keys.len() > DENSE_KEYS {
            store
                .current_rows_between(self.scope, keys, self.filter)
                .await?
        } else {
            store.current_rows(self.scope, keys, self.filter).await?
        };
        rows.sort_by_cached_key(Key::of);
        if self.descending() {
            rows.reverse();
        }
        Ok(rows)
    }
}

impl Store {
    /// Start of the oldest and of the newest run, from the engine's metadata of its partitions.
    pub(super) async fn extent(&self) -> Result<(UnixMs, UnixMs), StoreError> {
        let extent = self
            .bounded_query("SELECT min(started_at), max(started_at) FROM runs")
            .one()
            .await?;
        self.recent_pages.remember_extent(extent);
        Ok(extent)
    }
}
