//! The current row of every run in a query, for counts and sums: each run once (P3).
//!
//! `FINAL` over ten million rows costs seconds as soon as replacing rows are scattered over the table. But most rows
//! replace nothing. Within a partition, parts that result from a merge and whose starts do not overlap contain each key
//! once: these are *settled*. A row of them is current unless a row outside of them has the same start; only runs with
//! such a start are read merged. Where too little of a partition is settled, all of it is read merged.
//!
//! The list of settled parts is read just before and may be outdated when it is used. That costs speed, never
//! correctness: a part that is gone by then is not among the settled ones, so its rows are read merged. Everything else
//! is in one query over one snapshot of the table.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::client::query::{BoundedQuery, ReadBounds};
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Projects, Value, conditions, scope, start_bounds};
use schemas::filter::RunFilter;
use schemas::timestamp::UnixMs;

/// Parts to read; the engine rejects inserts long before there are more.
const PARTS: usize = 20_000;
/// Settled parts named in a query: a parameter is limited to 128 KiB. Others are read merged.
const NAMED_PARTS: usize = 2000;
/// A partition is read merged as a whole when more than one in so many of its rows is outside of settled parts: then
/// looking those up costs more than merging.
const UNSETTLED_PART: u64 = 4;
/// Memory of one query: latencies of ten million runs for exact quantiles, and a set of starts.
const MEMORY_BYTES: u64 = 1 << 30;
/// 2299-12-31: the last day whose name sorts among the others.
const LAST_MS: UnixMs = 10_413_705_600_000;
/// From this many starts on, looking them up in the primary key costs more than reading the column.
const STARTS_IN_INDEX: &str = "5000";

/// The scope of a query over many runs.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The projects that may be read (T1).
    pub projects: &'a Projects,
    pub filter: &'a RunFilter,
    /// Unix milliseconds: stale runs depend on it.
    pub now_ms: UnixMs,
}

/// The cheapest way to read the current rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Parts whose rows are current unless a row outside has the same start.
    settled: Vec<String>,
    /// Partitions read merged as a whole.
    merged: Vec<String>,
}

#[derive(Clone, Debug, Row, Deserialize)]
struct Part {
    partition: String,
    name: String,
    first: i64,
    last: i64,
    rows: u64,
}

impl Part {
    /// Whether it results from a merge, so that it contains each key once:
    /// `<partition>_<first>_<last>_<level>[_<mutation>]`.
    fn is_merged(&self) -> bool {
        let level = self.name.split('_').nth(3);
        level
            .and_then(|level| level.parse::<u32>().ok())
            .is_some_and(|level| level > 0)
    }
}

impl Layout {
    fn of(parts: Vec<Part>) -> Self {
        let mut partitions: BTreeMap<String, Vec<Part>> = BTreeMap::new();
        for part in parts {
            partitions
                .entry(part.partition.clone())
                .or_default()
                .push(part);
        }
        let mut layout = Self::default();
        for (partition, mut parts) in partitions {
            let all: u64 = parts.iter().map(|part| part.rows).sum();
            parts.retain(Part::is_merged);
            parts.sort_by(|left, right| (right.rows, &right.name).cmp(&(left.rows, &left.name)));
            let mut settled: Vec<Part> = Vec::new();
            for part in parts {
                let stands_apart = settled
                    .iter()
                    .all(|other| part.last < other.first || other.last < part.first);
                if stands_apart && layout.settled.len() + settled.len() < NAMED_PARTS {
                    settled.push(part);
                }
            }
            let unsettled = all - settled.iter().map(|part| part.rows).sum::<u64>();
            if unsettled.saturating_mul(UNSETTLED_PART) > all {
                layout.merged.push(partition);
            } else {
                layout
                    .settled
                    .extend(settled.into_iter().map(|part| part.name));
            }
        }
        layout
    }

    /// A table expression with the columns of each current run that satisfies the conditions.
    ///
    /// `at` are conditions on the key, `filter` conditions on any column.
    fn sql(&self, columns: &str, at: &Conditions, filter: &Conditions) -> String {
        let (at, filter) = (at.sql(), filter.sql());
        if self.settled.is_empty() {
            // Including partitions that were created meanwhile.
            return format!("(SELECT {columns} FROM runs FINAL PREWHERE {at} WHERE {filter})");
        }
        let apart = if self.merged.is_empty() {
            "1"
        } else {
            "_partition_id NOT IN {merged_partitions:Array(String)}"
        };
        let starts = format!(
            "(SELECT started_at FROM runs WHERE {at} AND {apart} AND _part NOT IN {{settled_parts:Array(String)}})"
        );
        let mut branches = vec![
            format!(
                "SELECT {columns} FROM runs WHERE _part IN {{settled_parts:Array(String)}} AND {at} AND is_deleted = 0 \
                 AND started_at NOT IN {starts} AND {filter}"
            ),
            format!(
                "SELECT {columns} FROM runs FINAL PREWHERE {at} AND {apart} AND started_at IN {starts} WHERE {filter}"
            ),
        ];
        if !self.merged.is_empty() {
            branches.push(format!(
                "SELECT {columns} FROM runs FINAL PREWHERE {at} AND _partition_id IN {{merged_partitions:Array(String)}} \
                 WHERE {filter}"
            ));
        }
        format!("({})", branches.join(" UNION ALL "))
    }

    /// Adds the names to a query made of [`Layout::sql`].
    fn fill(&self, query: BoundedQuery) -> BoundedQuery {
        let mut query = query;
        if !self.settled.is_empty() {
            query = query.param("settled_parts", &self.settled);
        }
        if !self.merged.is_empty() {
            query = query.param("merged_partitions", &self.merged);
        }
        query
    }
}

/// A prepared query: SQL over the current rows, with its parameters.
pub(crate) struct Current<'a> {
    layout: &'a Layout,
    at: Conditions,
    filter: Conditions,
}

impl Store {
    /// The layout of the rows within the filter's bounds on the start.
    pub(crate) async fn layout(&self, filter: &RunFilter) -> Result<Layout, StoreError> {
        if self.config.cluster.is_some() {
            // Parts of two shards may have the same name: all is read merged.
            return Ok(Layout::default());
        }
        let bounds = partition_bounds(filter);
        let sql = format!(
            "SELECT _partition_id AS partition, _part AS name, min(started_at) AS first, max(started_at) AS last, \
             count() AS rows FROM runs WHERE {} GROUP BY partition, name LIMIT {PARTS}",
            bounds.sql()
        );
        let query = bounds.fill(self.bounded_query(&sql));
        query.rows().await.map(Layout::of)
    }
}

impl<'a> Current<'a> {
    /// The runs of the scope.
    pub(crate) fn of(layout: &'a Layout, asked: Scope<'_>) -> Self {
        Self {
            layout,
            at: scope(asked.projects).with(&start_bounds(asked.filter)),
            filter: conditions(asked.filter, asked.now_ms),
        }
    }

    /// The table expression of these columns, optionally with a further condition.
    pub(crate) fn rows(&self, columns: &str, further: Option<&str>) -> String {
        let mut filter = Conditions::default();
        filter.and(self.filter.sql());
        if let Some(further) = further {
            filter.and(further);
        }
        self.layout.sql(columns, &self.at, &filter)
    }

    /// A table expression of these columns of every row that may be current, replaced ones among them: fast, and enough
    /// to collect the existing values.
    pub(crate) fn candidates(&self, columns: &str, further: Option<&str>) -> String {
        format!(
            "(SELECT {columns} FROM runs WHERE {} AND is_deleted = 0 AND {} AND {})",
            self.at.sql(),
            self.filter.sql(),
            further.unwrap_or("1")
        )
    }

    pub(crate) fn query(&self, store: &Store, sql: &str) -> BoundedQuery {
        let bounds = ReadBounds {
            time: store.config().query_timeout,
            memory_bytes: MEMORY_BYTES,
            ..ReadBounds::default()
        };
        let query = store
            .bounded_query_within(sql, bounds)
            // Every part of the query sees the same parts of the table, which makes the branches exact together.
            .setting("enable_shared_storage_snapshot_in_query", "1")
            .setting("do_not_merge_across_partitions_select_final", "1")
            .setting("use_skip_indexes_if_final", "0")
            .setting(
                "use_index_for_in_with_subqueries_max_values",
                STARTS_IN_INDEX,
            );
        self.filter.fill(self.at.fill(self.layout.fill(query)))
    }
}

/// Bounds on whole partitions, which the engine answers from the metadata of its parts, without reading rows.
fn partition_bounds(filter: &RunFilter) -> Conditions {
    let mut all = Conditions::default();
    let day = |time_ms: UnixMs| {
        let day = chrono::DateTime::from_timestamp_millis(time_ms.clamp(0, LAST_MS));
        Value::Text(day.unwrap_or_default().format("%Y%m%d").to_string())
    };
    if let Some(from_ms) = filter.from_ms {
        all.and_with(
            "_partition_id >= {from_day:String}",
            "from_day",
            day(from_ms),
        );
    }
    if let Some(to_ms) = filter.to_ms {
        all.and_with("_partition_id <= {to_day:String}", "to_day", day(to_ms));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, first: i64, last: i64, rows: u64) -> Part {
        let partition = name.split('_').next().unwrap_or_default().to_owned();
        let name = name.to_owned();
        Part {
            partition,
            name,
            first,
            last,
            rows,
        }
    }

    #[test]
    fn merged_parts_that_stand_apart_are_settled_and_no_others() {
        let layout = Layout::of(vec![
            part("20261120_1_50_3", 0, 500, 1000),
            part("20261120_51_60_1_99", 501, 600, 400),
            part("20261120_61_62_1", 600, 601, 100),
            part("20261120_63_63_0", 700, 800, 100),
        ]);
        assert_eq!(layout.settled, ["20261120_1_50_3", "20261120_51_60_1_99"]);
        assert!(layout.merged.is_empty());
    }

    #[test]
    fn a_partition_of_which_little_is_settled_is_read_merged() {
        let layout = Layout::of(vec![
            part("20261120_1_50_3", 0, 500, 1000),
            part("20261120_51_60_1", 400, 900, 900),
            part("20261119_1_1_0", 0, 1, 5),
        ]);
        assert_eq!(layout.merged, ["20261119", "20261120"]);
        assert!(layout.settled.is_empty());
    }
}
