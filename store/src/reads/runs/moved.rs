//! Runs whose start moved while a client pages through a list by start.
//!
//! A run is moved by a new row and a tombstone at its former start. A client that began to page before that would
//! receive the run twice, or not at all. So a page places such a run where it was when the first page was read: the
//! oldest tombstone written since then says where.

use std::collections::HashMap;

use schemas::timestamp::UnixMs;

use super::by_time::Scan;
use super::keys::{Key, merged, seek};
use super::{Placed, RunRecord};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value, time};

/// Moves that one listing can hold. With more of them between two pages, the rest is shown at the current position.
const MOVES: usize = 10_000;
/// Moved runs looked up for one page.
const MOVES_PER_PAGE: usize = 1000;

pub(super) type Name = (String, String, String);

/// A page of a list with at most `need` rows.
pub(super) struct PageToFill {
    pub(super) rows: Vec<Placed>,
    pub(super) need: usize,
}

/// Former positions of runs that moved since the listing began.
#[derive(Debug, Default)]
pub(super) struct Moved {
    starts: HashMap<Name, UnixMs>,
}

impl Moved {
    /// Reads the moves since then.
    pub(super) async fn since(
        store: &Store,
        scope: &Conditions,
        since_ms: UnixMs,
    ) -> Result<Self, StoreError> {
        let mut at = scope.clone();
        at.and("is_deleted = 1");
        at.and_with(
            "updated_at > fromUnixTimestamp64Milli({since:Int64}, 'UTC')",
            "since",
            time(since_ms),
        );
        let sql = format!(
            "SELECT started_at, project_id, app_id, run_id FROM runs WHERE {} \
             ORDER BY updated_at, version LIMIT 1 BY project_id, app_id, run_id LIMIT {MOVES}",
            at.sql()
        );
        let keys: Vec<Key> = at.fill(seek(store.bounded_query(&sql))).rows().await?;
        let starts = keys
            .into_iter()
            .map(|key| ((key.project_id, key.app_id, key.run_id), key.started_at))
            .collect();
        Ok(Self { starts })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The former position of the run with this name, if it moved.
    pub(super) fn was_at(&self, name: &Name) -> Option<Key> {
        let started_at = *self.starts.get(name)?;
        Some(place(name, started_at))
    }

    /// All former positions, in no order.
    pub(super) fn places(&self) -> impl Iterator<Item = Key> + '_ {
        self.starts
            .iter()
            .map(|(name, started_at)| place(name, *started_at))
    }

    /// Whether the run of this row has another position in this listing than its own.
    pub(super) fn contains(&self, row: &RunRecord) -> bool {
        !self.starts.is_empty() && self.starts.contains_key(&name_of(row))
    }

    /// Adds runs that were after `after` to the page; if the page is full, only runs that were before its end.
    pub(super) async fn place(
        &self,
        store: &Store,
        scan: &Scan<'_>,
        after: &Key,
        page: &mut PageToFill,
    ) -> Result<(), StoreError> {
        let PageToFill { rows: page, need } = page;
        let need = *need;
        let descending = scan.sort == schemas::filter::Sort::StartedAtDesc;
        let before = |left: &Key, right: &Key| {
            if descending {
                left > right
            } else {
                left < right
            }
        };
        let end = if page.len() >= need {
            page.last().map(|last| last.at.clone())
        } else {
            None
        };
        let mut places: Vec<Key> = self
            .places()
            .filter(|place| {
                before(after, place) && end.as_ref().is_none_or(|end| before(place, end))
            })
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        places.sort();
        if descending {
            places.reverse();
        }
        places.truncate(MOVES_PER_PAGE);
        let rows = store.runs_named(scan.scope, &places, scan.filter).await?;
        page.extend(rows.into_iter().filter_map(|row| {
            let started_at = *self.starts.get(&name_of(&row))?;
            let at = Key {
                started_at,
                ..Key::of(&row)
            };
            places.contains(&at).then_some(Placed { at, row })
        }));
        page.sort_by(|left, right| left.at.cmp(&right.at));
        if descending {
            page.reverse();
        }
        page.truncate(need);
        Ok(())
    }
}

impl Store {
    /// The current rows of these runs, wherever they are now, that satisfy the conditions.
    pub(super) async fn runs_named(
        &self,
        scope: &Conditions,
        runs: &[Key],
        filter: &Conditions,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut found = Vec::new();
        for runs in runs.chunks(200) {
            let ids = runs.iter().map(|run| run.run_id.clone()).collect();
            let mut at = scope.clone();
            at.and_with("run_id IN {runs:Array(String)}", "runs", Value::Texts(ids));
            let sql = format!(
                "SELECT {} FROM runs FINAL PREWHERE {} WHERE {}",
                RunRecord::list_columns(),
                at.sql(),
                filter.sql()
            );
            let query = by_run_index(merged(seek(self.bounded_query(&sql))));
            found.extend(filter.fill(at.fill(query)).rows::<RunRecord>().await?);
        }
        Ok(found)
    }
}

/// Lets a merged read use the index on the run id: all rows of a key have the same run id, so it hides none of them.
pub(super) fn by_run_index(
    query: crate::client::query::BoundedQuery,
) -> crate::client::query::BoundedQuery {
    query
        .setting("use_skip_indexes_if_final", "1")
        .setting("use_skip_indexes_if_final_exact_mode", "0")
        .setting(
            "ignore_data_skipping_indices",
            "by_user,by_tag,by_latency,by_cost,by_update,by_parent,by_root,by_thread,by_text",
        )
}

fn place(name: &Name, started_at: UnixMs) -> Key {
    let (project_id, app_id, run_id) = name.clone();
    Key {
        started_at,
        project_id,
        app_id,
        run_id,
    }
}

pub(super) fn name_of(row: &RunRecord) -> Name {
    (
        row.project_id.clone(),
        row.app_id.clone(),
        row.run_id.clone(),
    )
}
