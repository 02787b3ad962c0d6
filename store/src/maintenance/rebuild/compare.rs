//! Differences between the current rows of the two tables.
//!
//! Versions, the time of writing and the fold's own bytes are not compared: they depend on the history of a row. A run
//! whose own cost differs because the price table changed is marked as repriced, and so are the totals above it.

use clickhouse::Row;
use serde::Deserialize;

use super::{Rebuild, SHADOW, STREAM_BOUNDS};
use crate::error::StoreError;
use crate::maintenance::retention::RUN;
use crate::maintenance::statement;
use crate::reads::costs::HAS_CALL_DETAILS;
use crate::tables::runs::{Comparison, compared_as};

/// Numbers of differing runs, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Row, Deserialize)]
pub struct Differences {
    /// Runs with events and without a row.
    pub missing: u64,
    /// Rows that the events do not yield.
    pub extra: u64,
    /// Rows that differ from what the events yield.
    pub different: u64,
    /// Rows that differ only in cost, their own or a descendant's, because prices changed.
    pub repriced: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Difference {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
    /// `missing`, `extra` or `different`.
    pub kind: String,
    /// Start of its row, Unix milliseconds.
    pub started_at: i64,
}

/// The columns as text each, so that null is a distinct value.
fn texts<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let texts = columns
        .into_iter()
        .map(|column| format!("ifNull(toString({column}), '')"));
    texts.collect::<Vec<_>>().join(", ")
}

impl Rebuild {
    /// Compares the tables day by day, or only the suspects of the given days. Replaces earlier results.
    pub async fn compare(&self, suspects: Option<&[u32]>) -> Result<(), StoreError> {
        self.run("TRUNCATE TABLE rebuild_differences").await?;
        let days = match suspects {
            Some(days) => days.to_vec(),
            None => self.run_days().await?,
        };
        for day in days {
            self.compare_day(day, suspects.is_some()).await?;
        }
        Ok(())
    }

    async fn run_days(&self) -> Result<Vec<u32>, StoreError> {
        let sql = "SELECT DISTINCT toUInt32(partition_id) AS day FROM system.parts WHERE active \
                   AND database = currentDatabase() AND table IN ('runs', 'runs_rebuild') ORDER BY day";
        self.store.bounded_query(sql).rows().await
    }

    async fn compare_day(&self, day: u32, only_suspects: bool) -> Result<(), StoreError> {
        let suspects = match only_suspects {
            true => format!("AND {RUN} IN (SELECT key FROM rebuild_suspects)"),
            false => String::new(),
        };
        let side = |table: &str, side: u8| {
            format!(
                "SELECT project_id, app_id, run_id, started_at, root_run_id, {side} AS side, \
                   sipHash64({}) AS seen, sipHash64({}) AS own, total_cost, \
                   (cost_status IN ('priced', 'partly_priced', 'unpriced_model') \
                     OR cost_status = 'provided' AND {HAS_CALL_DETAILS}) AS is_by_price \
                 FROM {table} FINAL WHERE _partition_id = {{day:String}} AND {{project:String}} IN ('', project_id) {suspects}",
                texts(compared_as(&[Comparison::Folded])),
                texts(compared_as(&[Comparison::OwnCost])),
            )
        };
        let sql = format!(
            "INSERT INTO rebuild_differences \
             SELECT project_id, app_id, run_id, started_at, any(root_run_id), \
               multiIf(count() = 1 AND any(side) = 1, 'extra', count() = 1, 'missing', \
                 min(seen) != max(seen) OR min(own) != max(own) AND NOT min(is_by_price), 'different', 'cost'), \
               count() = 2 AND min(own) != max(own) AND min(is_by_price) \
             FROM ({} UNION ALL {}) GROUP BY project_id, app_id, run_id, started_at \
             HAVING count() != 2 OR min(seen) != max(seen) OR min(own) != max(own) OR min(total_cost) != max(total_cost) \
             SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 0",
            side("runs", 1),
            side(SHADOW, 2),
        );
        let query = self.statement(&sql);
        statement::finish(
            query
                .param("day", day.to_string())
                .param("project", &self.project),
        )
        .await
    }

    /// Records what has to be compared again: what differed, and what was written since a point in time; returns the
    /// days.
    pub async fn suspect(&self, since_ms: i64) -> Result<Vec<u32>, StoreError> {
        self.run("TRUNCATE TABLE rebuild_suspects").await?;
        let sql = format!(
            "INSERT INTO rebuild_suspects SELECT {RUN}, toYYYYMMDD(started_at) FROM rebuild_differences \
             UNION ALL SELECT {RUN}, toYYYYMMDD(started_at) FROM runs \
             WHERE updated_at >= fromUnixTimestamp64Milli({{since:Int64}}, 'UTC')"
        );
        statement::finish(self.statement(&sql).param("since", since_ms)).await?;
        // A run that moved to another day in one of the tables is listed twice.
        let sql = format!(
            "INSERT INTO rebuild_suspects SELECT {RUN}, toYYYYMMDD(started_at) FROM {SHADOW} \
             WHERE {RUN} IN (SELECT key FROM rebuild_suspects)"
        );
        self.run(&sql).await?;
        let sql = "SELECT DISTINCT day FROM rebuild_suspects ORDER BY day";
        self.store.bounded_query(sql).rows().await
    }

    /// Counts the differing runs.
    pub async fn differences(&self) -> Result<Differences, StoreError> {
        // A changed price explains differing totals in the same tree.
        let explained = "kind = 'cost' AND (is_repriced OR (project_id, app_id, root_run_id) IN (\
             SELECT project_id, app_id, root_run_id FROM rebuild_differences WHERE is_repriced))";
        let sql = format!(
            "SELECT countIf(kind = 'missing'), countIf(kind = 'extra'), \
               countIf(kind = 'different' OR kind = 'cost' AND NOT ({explained})), countIf({explained}) \
             FROM rebuild_differences"
        );
        let query = self.store.bounded_query_within(&sql, STREAM_BOUNDS);
        query.one().await
    }

    /// Some of the differing runs, without repriced ones.
    pub async fn examples(&self, most: u32) -> Result<Vec<Difference>, StoreError> {
        let sql = "SELECT project_id, app_id, run_id, if(kind = 'cost', 'different', kind) AS kind, started_at \
                   FROM rebuild_differences WHERE kind != 'cost' OR (project_id, app_id, root_run_id) NOT IN (\
                     SELECT project_id, app_id, root_run_id FROM rebuild_differences WHERE is_repriced) \
                   ORDER BY project_id, started_at, run_id LIMIT {most:UInt32}";
        let query = self.store.bounded_query_within(sql, STREAM_BOUNDS);
        query.param("most", most).rows().await
    }

    /// The names of the columns in which a run differs.
    pub async fn columns_of(&self, run: &Difference) -> Result<Vec<&'static str>, StoreError> {
        let columns: Vec<&str> = compared_as(&[
            Comparison::Folded,
            Comparison::OwnCost,
            Comparison::SubtreeCost,
        ])
        .collect();
        let mut sides: Vec<Vec<String>> = Vec::new();
        for table in ["runs", SHADOW] {
            let sql = format!(
                "SELECT [{}] FROM {table} FINAL WHERE project_id = {{project:String}} AND app_id = {{app:String}} \
                 AND run_id = {{run:String}} AND started_at = fromUnixTimestamp64Milli({{start:Int64}}, 'UTC')",
                texts(columns.iter().copied())
            );
            let query = self.store.bounded_query(&sql);
            let query = query
                .param("project", &run.project_id)
                .param("app", &run.app_id)
                .param("run", &run.run_id)
                .param("start", run.started_at);
            sides.push(query.optional().await?.unwrap_or_default());
        }
        let (stored, made) = (&sides[0], &sides[1]);
        let pairs = columns.into_iter().zip(stored.iter().zip(made));
        Ok(pairs
            .filter(|(_, (stored, made))| stored != made)
            .map(|(column, _)| column)
            .collect())
    }
}
