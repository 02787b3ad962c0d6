//! Lists by latency, cost or tokens: the greatest values of the whole range, a page at a time.
//!
//! First the runs that tie with the last one returned, then the greatest values below it. A found value is compared
//! with the current row, as in all lists (P3). A run whose value changes between two pages may be repeated or missed:
//! only a moved start is taken into account.

use clickhouse::Row;
use serde::Deserialize;

use super::Placed;
use super::by_time::Scan;
use super::keys::{Key, seek};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{SortColumn, Value, time};

/// The position of a run in a list by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) value: i128,
    pub(super) key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
struct Candidate {
    value: i128,
    started_at: i64,
    project_id: String,
    app_id: String,
    run_id: String,
}

impl Candidate {
    fn rank(self) -> Rank {
        let Self {
            value,
            started_at,
            project_id,
            app_id,
            run_id,
        } = self;
        Rank {
            value,
            key: Key {
                started_at,
                project_id,
                app_id,
                run_id,
            },
        }
    }
}

/// The part of the list that is read.
enum Part<'a> {
    All,
    Tied(&'a Rank),
    Below(i128),
}

/// Up to `need` runs after `after`, in order. Fewer mean that there are no more.
pub(super) async fn page(
    store: &Store,
    scan: &Scan<'_>,
    after: Option<Rank>,
    need: usize,
) -> Result<Vec<Placed>, StoreError> {
    let mut page = Vec::new();
    let mut after = after;
    loop {
        let missing = need - page.len();
        let ask = missing + missing / 16 + 2;
        let mut found = Vec::new();
        match &after {
            None => found.extend(candidates(store, scan, Part::All, ask).await?),
            Some(rank) => {
                found.extend(candidates(store, scan, Part::Tied(rank), ask).await?);
                if found.len() < ask {
                    let below =
                        candidates(store, scan, Part::Below(rank.value), ask - found.len()).await?;
                    found.extend(below);
                }
            }
        }
        let full = found.len() >= ask;
        let Some(last) = found.last().cloned() else {
            return Ok(page);
        };
        page.extend(verified(store, scan, found).await?);
        if page.len() >= need || !full {
            page.truncate(need);
            return Ok(page);
        }
        after = Some(last);
    }
}

async fn candidates(
    store: &Store,
    scan: &Scan<'_>,
    part: Part<'_>,
    limit: usize,
) -> Result<Vec<Rank>, StoreError> {
    let Some(column) = SortColumn::of(scan.sort) else {
        return Err(StoreError::Invalid(
            "this order is not one by value".to_owned(),
        ));
    };
    let mut at = scan.scope.clone();
    at.and("is_deleted = 0");
    let (value, value_type) = (column.sql, column.sql_type);
    match part {
        Part::All => {}
        Part::Tied(rank) => {
            at.and_with(
                &format!("{value} = {{value:{value_type}}}"),
                "value",
                column.parameter(rank.value),
            );
            at.and_with(
                "started_at <= fromUnixTimestamp64Milli({near:Int64}, 'UTC')",
                "near",
                time(rank.key.started_at),
            );
            at.and(
                "(started_at < fromUnixTimestamp64Milli({near:Int64}, 'UTC') \
                  OR (project_id, app_id, run_id) < ({near_project:String}, {near_app:String}, {near_run:String}))",
            );
            at.give("near_project", Value::Text(rank.key.project_id.clone()));
            at.give("near_app", Value::Text(rank.key.app_id.clone()));
            at.give("near_run", Value::Text(rank.key.run_id.clone()));
        }
        Part::Below(bound) => {
            at.and_with(
                &format!("{value} < {{value:{value_type}}}"),
                "value",
                column.parameter(bound),
            );
        }
    }
    let at = at.with(scan.filter);
    // The smallest value of the page is found first, from that one column; other columns are read only where it is
    // reached.
    let sql = format!(
        "WITH (SELECT min(v) FROM (SELECT {value} AS v FROM runs WHERE {} ORDER BY v DESC LIMIT {{limit:UInt64}})) AS bound \
         SELECT {} AS value, started_at, project_id, app_id, run_id FROM runs WHERE {} AND {value} >= bound AND {} \
         ORDER BY value DESC, started_at DESC, project_id DESC, app_id DESC, run_id DESC LIMIT {{limit:UInt64}}",
        at.sql(),
        column.as_integer,
        at.sql(),
        column.coarse,
    );
    let query = at
        .fill(seek(store.bounded_query(&sql)))
        .param("limit", limit);
    let rows: Vec<Candidate> = query.rows().await?;
    Ok(rows.into_iter().map(Candidate::rank).collect())
}

/// The current rows of these candidates that still match with their value, in order.
async fn verified(
    store: &Store,
    scan: &Scan<'_>,
    mut found: Vec<Rank>,
) -> Result<Vec<Placed>, StoreError> {
    found.dedup();
    let keys: Vec<Key> = found.iter().map(|rank| rank.key.clone()).collect();
    let mut rows: std::collections::HashMap<Key, super::RunRecord> = store
        .current_rows(scan.scope, &keys, scan.filter)
        .await?
        .into_iter()
        .map(|row| (Key::of(&row), row))
        .collect();
    let mut placed = Vec::with_capacity(rows.len());
    for rank in found {
        if rows
            .get(&rank.key)
            .is_some_and(|row| row.sort_value(scan.sort) == Some(rank.value))
            && let Some(row) = rows.remove(&rank.key)
        {
            placed.push(Placed { at: rank.key, row });
        }
    }
    Ok(placed)
}
