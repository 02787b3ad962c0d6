//! Keys of runs, and reads of the current rows at given keys: the second of the two steps of every list.

use std::collections::HashSet;

use clickhouse::Row;
use schemas::timestamp::to_text;
use serde::Deserialize;

use super::RunRecord;
use crate::client::Store;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value, time};

/// Keys in one query, and bytes of their ids: a parameter is limited to 128 KiB, and escaping can double it.
const KEYS_PER_QUERY: usize = 1200;
const KEY_BYTES_PER_QUERY: usize = 56 << 10;

/// A range with more rows than this for each wanted one is read by times.
const SPARSE: u64 = 4;
/// Bytes of the rows of one range: many times some thousand typical runs.
const RANGE_BYTES: usize = 32 << 20;

/// The key of a run in the table, in the order in which lists break ties.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Row, Deserialize)]
pub(crate) struct Key {
    pub(crate) started_at: i64,
    pub(crate) project_id: String,
    pub(crate) app_id: String,
    pub(crate) run_id: String,
}

impl Key {
    pub(crate) fn of(record: &RunRecord) -> Self {
        Self {
            started_at: record.started_at,
            project_id: record.project_id.clone(),
            app_id: record.app_id.clone(),
            run_id: record.run_id.clone(),
        }
    }
}

/// A side of a key in the order of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Keys before it.
    Before,
    /// It, and keys before it.
    To,
    /// It, and keys after it.
    From,
    /// Keys after it.
    After,
}

impl Conditions {
    /// Adds that keys are on this side of a key, whose parameters begin with `name`. Column by column, which the
    /// primary index supports, while a comparison of tuples is evaluated for every row.
    pub(super) fn and_key(&mut self, side: Side, name: &str, key: &Key) {
        let (beyond, end) = match side {
            Side::Before => ("<", "<"),
            Side::To => ("<", "<="),
            Side::From => (">", ">="),
            Side::After => (">", ">"),
        };
        let moment = format!("fromUnixTimestamp64Milli({{{name}:Int64}}, 'UTC')");
        let (project, app, run) = (
            format!("{{{name}_project:String}}"),
            format!("{{{name}_app:String}}"),
            format!("{{{name}_run:String}}"),
        );
        self.and_with(
            &format!("started_at {beyond}= {moment}"),
            name,
            time(key.started_at),
        );
        self.and(&format!(
            "(started_at {beyond} {moment} OR project_id {beyond} {project} OR (project_id = {project} AND \
             (app_id {beyond} {app} OR (app_id = {app} AND run_id {end} {run}))))"
        ));
        let texts = [
            ("project", &key.project_id),
            ("app", &key.app_id),
            ("run", &key.run_id),
        ];
        for (column, text) in texts {
            self.give(&format!("{name}_{column}"), Value::Text(text.clone()));
        }
    }
}

/// Settings of reads that find a handful of rows in a large table. The engine's optimizations of `ORDER BY ... LIMIT`
/// (reading in order, pruning while sorting, fetching columns later) suit other tables: at 10 million runs they made a
/// filter that finds little ten times slower (690 ms and 66 ms), so they are off.
pub(crate) fn seek(query: BoundedQuery) -> BoundedQuery {
    [
        "optimize_read_in_order",
        "use_top_k_dynamic_filtering",
        "use_skip_indexes_for_top_k",
        "use_skip_indexes_on_data_read",
        "query_plan_optimize_lazy_materialization",
    ]
    .into_iter()
    .fold(query, |query, name| query.setting(name, "0"))
}

/// A read that merges rows of one key as it goes. Keys never leave their partition, so partitions are independent; a
/// filter's index must not hide the newer row of a key from the merge.
pub(crate) fn merged(query: BoundedQuery) -> BoundedQuery {
    query
        .setting("do_not_merge_across_partitions_select_final", "1")
        .setting("use_skip_indexes_if_final", "0")
}

impl Store {
    /// The current rows at these keys that satisfy the conditions, in no order.
    pub(crate) async fn current_rows(
        &self,
        scope: &Conditions,
        keys: &[Key],
        filter: &Conditions,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in chunks(keys) {
            let (near, far) = keys.split_at(if is_spread(keys) { keys.len() / 2 } else { 0 });
            let (near, far) = tokio::try_join!(
                self.rows_at(scope, near, filter),
                self.rows_at(scope, far, filter)
            )?;
            found.extend(near);
            found.extend(far);
        }
        Ok(found)
    }

    /// [`Store::current_rows`] for more keys than one query can name: by their range, and the times in it at which
    /// something matches.
    pub(super) async fn current_rows_between(
        &self,
        scope: &Conditions,
        keys: &[Key],
        filter: &Conditions,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let (Some(first), Some(last)) = (keys.iter().min(), keys.iter().max()) else {
            return Ok(Vec::new());
        };
        let mut at = scope.clone();
        // By the whole key: many runs may start in one millisecond, and each range would read all of them.
        at.and_key(Side::From, "first", first);
        at.and_key(Side::To, "last", last);
        let (at_sql, filter_sql) = (at.sql(), filter.sql());
        // All rows of a key share their start, so a condition on it before the merge hides none of them. It pays where
        // most rows of the range are others: where all are wanted it made exports five times as slow.
        let there = format!("SELECT count() FROM runs WHERE {at_sql}");
        let is_sparse = filter_sql != "1" && {
            let rows: u64 = at.fill(self.bounded_query(&there)).one().await?;
            rows > SPARSE * keys.len() as u64
        };
        let moments = if is_sparse {
            format!(
                " AND started_at IN (SELECT started_at FROM runs WHERE {at_sql} AND {filter_sql})"
            )
        } else {
            String::new()
        };
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {at_sql}{moments} WHERE {filter_sql}",
            RunRecord::list_columns()
        );
        let query = merged(seek(self.bounded_query(&sql)))
            .setting("max_result_bytes", RANGE_BYTES.to_string());
        let rows: Vec<RunRecord> = filter.fill(at.fill(query)).rows().await?;
        let wanted: HashSet<&Key> = keys.iter().collect();
        Ok(rows
            .into_iter()
            .filter(|row| wanted.contains(&Key::of(row)))
            .collect())
    }

    async fn rows_at(
        &self,
        scope: &Conditions,
        keys: &[Key],
        filter: &Conditions,
    ) -> Result<Vec<RunRecord>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut at = scope.clone();
        let times = keys.iter().map(|key| column_text(key.started_at)).collect();
        let ids = keys.iter().map(|key| key.run_id.clone()).collect();
        at.and("started_at IN {key_times:Array(DateTime64(3, 'UTC'))}");
        at.give("key_times", Value::Texts(times));
        at.and_with(
            "run_id IN {key_runs:Array(String)}",
            "key_runs",
            Value::Texts(ids),
        );
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {} WHERE {}",
            RunRecord::list_columns(),
            at.sql(),
            filter.sql()
        );
        let query = filter.fill(at.fill(merged(seek(self.bounded_query(&sql)))));
        let rows: Vec<RunRecord> = query.rows().await?;
        // Separate conditions on start and run are faster than one on both, and find a little more.
        let wanted: HashSet<&Key> = keys.iter().collect();
        Ok(rows
            .into_iter()
            .filter(|row| wanted.contains(&Key::of(row)))
            .collect())
    }
}

/// Whether these rows are in many places of many partitions. The engine gives so few rows to one thread, however far
/// apart they are: then two reads of half the keys take half the time.
fn is_spread(keys: &[Key]) -> bool {
    const WORTH_KEYS: usize = 16;
    const PARTITION_MS: u64 = 24 * 60 * 60 * 1000;
    let span = |first: &Key, last: &Key| first.started_at.abs_diff(last.started_at);
    keys.len() >= WORTH_KEYS
        && keys
            .first()
            .zip(keys.last())
            .is_some_and(|(first, last)| span(first, last) > PARTITION_MS)
}

/// A time in the format of the column: a list of them is a set that the primary key can be searched by.
fn column_text(time_ms: i64) -> String {
    to_text(time_ms).replace('T', " ").replace('Z', "")
}

/// Divides keys into lists that fit into one query.
fn chunks(keys: &[Key]) -> impl Iterator<Item = &[Key]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(KEYS_PER_QUERY).take_while(|key| {
            bytes += key.run_id.len() + 3;
            bytes <= KEY_BYTES_PER_QUERY
        });
        let (chunk, after) = rest.split_at(fitting.count().max(1).min(rest.len()));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_to_what_a_query_takes_and_none_is_lost() {
        let key = |n: usize| Key {
            started_at: n as i64,
            project_id: "p".to_owned(),
            app_id: "a".to_owned(),
            run_id: format!("{n:0256}"),
        };
        let keys: Vec<Key> = (0..3000).map(key).collect();
        let cut: Vec<&[Key]> = chunks(&keys).collect();
        assert!(
            cut.iter()
                .all(|chunk| chunk.len() <= KEYS_PER_QUERY
                    && chunk.len() * 259 <= KEY_BYTES_PER_QUERY)
        );
        assert_eq!(cut.concat(), keys);
        assert_eq!(chunks(&[]).count(), 0);
    }
}
