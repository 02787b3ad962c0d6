//! A second table of runs: made from the stored events, compared with the first, and exchanged with it.
//!
//! The fold itself is elsewhere; see [`crate::Store::shadow`] for the store that writes into the second table. One
//! caller at a time; the work tables have fixed names and are recreated at each start.

mod compare;

use std::time::Duration;

use clickhouse::Row;
use clickhouse::query::Query;
use serde::Deserialize;

pub use compare::{Difference, Differences};

use crate::client::Store;
use crate::client::query::{Cursor, ReadBounds};
use crate::error::StoreError;
use crate::maintenance::statement;
use crate::tables::decode;

/// The second table.
const SHADOW: &str = "runs_rebuild";
/// Reading a day of events, at the speed of the fold.
const STREAM_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(6 * 3600),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 1 << 30,
    threads: 1,
};

/// An event to fold again.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct FoldEvent {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// The event's own bytes.
    #[serde(deserialize_with = "decode::bytes")]
    pub payload: Vec<u8>,
}

/// A rebuild of `runs`, of one project or of all.
#[derive(Clone)]
pub struct Rebuild {
    store: Store,
    project: String,
}

impl Store {
    /// The store whose look-ups and inserts of runs go to the second table.
    pub fn shadow(&self) -> Store {
        Store {
            runs: SHADOW,
            ..self.clone()
        }
    }

    /// Of one project if given.
    pub fn rebuild(&self, project: Option<&str>) -> Rebuild {
        Rebuild {
            store: self.clone(),
            project: project.unwrap_or_default().to_owned(),
        }
    }
}

impl Rebuild {
    /// Creates the work tables, empty.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        self.store.only_on_one_server(
            "a rebuild",
            "read the log again, or replay an export into a new database",
        )?;
        self.forget().await?;
        self.run(&format!("CREATE TABLE {SHADOW} AS runs")).await?;
        self.run(
            "CREATE TABLE rebuild_differences (project_id String, app_id String, run_id String, \
               started_at DateTime64(3, 'UTC'), root_run_id String, kind String, is_repriced UInt8) \
             ENGINE = MergeTree ORDER BY (project_id, started_at)",
        )
        .await?;
        self.run("CREATE TABLE rebuild_suspects (key UInt64, day UInt32) ENGINE = MergeTree ORDER BY key")
            .await
    }

    /// Drops the work tables.
    pub async fn forget(&self) -> Result<(), StoreError> {
        for name in [SHADOW, "rebuild_differences", "rebuild_suspects"] {
            self.run(&format!("DROP TABLE IF EXISTS {name} SYNC"))
                .await?;
        }
        Ok(())
    }

    /// The days with events, oldest first, each with their number.
    pub async fn event_days(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = "SELECT _partition_id AS day, count() FROM events WHERE {project:String} IN ('', project_id) \
                   GROUP BY day ORDER BY day";
        let query = self.store.bounded_query_within(sql, STREAM_BOUNDS);
        query.param("project", &self.project).rows().await
    }

    /// The events of a day, app by app and in order.
    pub async fn events_of_day(&self, day: &str) -> Result<Cursor<FoldEvent>, StoreError> {
        let sql = "SELECT project_id, app_id, received_at, payload FROM events \
                   WHERE _partition_id = {day:String} AND {project:String} IN ('', project_id) \
                   ORDER BY project_id, app_id, timestamp, event_id";
        let query = self.store.bounded_query_within(sql, STREAM_BOUNDS);
        query
            .param("day", day)
            .param("project", &self.project)
            .cursor()
            .await
    }

    /// The events stored since a point in time, app by app and in order.
    pub async fn events_since(&self, since_ms: i64) -> Result<Cursor<FoldEvent>, StoreError> {
        let sql = "SELECT project_id, app_id, received_at, payload FROM events \
                   WHERE stored_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC') AND {project:String} IN ('', project_id) \
                   ORDER BY project_id, app_id, timestamp, event_id";
        let query = self.store.bounded_query_within(sql, STREAM_BOUNDS);
        query
            .param("since", since_ms)
            .param("project", &self.project)
            .cursor()
            .await
    }

    /// Copies runs without stored events, which cannot be made again, and must not be lost. Returns how many. Call it
    /// after the comparison.
    pub async fn carry_over(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count() FROM rebuild_differences WHERE kind = 'extra'";
        let extra: u64 = self.store.bounded_query(sql).one().await?;
        if extra == 0 {
            return Ok(0);
        }
        let run = crate::maintenance::retention::RUN;
        let count = "SELECT count() FROM runs_rebuild FINAL";
        let before: u64 = self.store.bounded_query(count).one().await?;
        self.run(&format!(
            "INSERT INTO {SHADOW} SELECT * FROM runs FINAL WHERE {run} IN (SELECT {run} FROM rebuild_differences WHERE kind = 'extra') \
               AND {run} NOT IN (SELECT {run} FROM events WHERE {run} IN (SELECT {run} FROM rebuild_differences WHERE kind = 'extra')) \
             SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 0"
        ))
        .await?;
        let after: u64 = self.store.bounded_query(count).one().await?;
        Ok(after.saturating_sub(before))
    }

    /// Exchanges the two tables atomically.
    pub async fn exchange(&self) -> Result<(), StoreError> {
        self.store.forget_table("runs").await?;
        self.run(&format!("EXCHANGE TABLES runs AND {SHADOW}"))
            .await
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        statement::finish(self.statement(sql)).await
    }

    fn statement(&self, sql: &str) -> Query {
        let in_memory = statement::MEMORY_BYTES / 4;
        statement::of(&self.store, sql)
            .with_setting("max_bytes_before_external_group_by", in_memory.to_string())
    }
}
