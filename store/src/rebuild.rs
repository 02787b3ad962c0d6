//! A second table of runs: made from the stored events, compared with the first, and put in its place.
//!
//! Who folds the events is not known here; see [`crate::Store::shadow`] for the store that writes into the second
//! table. One caller at a time; the tables of work have fixed names and are made anew at every beginning.

mod compare;

use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;

pub use compare::{Difference, Differences};

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::{Cursor, ReadBounds};
use crate::rows::raw_bytes;

/// The second table.
const SHADOW: &str = "runs_rebuild";
/// Time for one statement over the table.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);
/// Memory of one statement; what needs more goes to disk.
const STATEMENT_MEMORY_BYTES: u64 = 1 << 30;
/// Reading a day of events, as fast as they are folded.
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
    /// The tenant.
    pub project_id: String,
    /// The app.
    pub app_id: String,
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// Its own bytes.
    #[serde(with = "raw_bytes")]
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

    /// A rebuild; of one project if given.
    pub fn rebuild(&self, project: Option<&str>) -> Rebuild {
        Rebuild {
            store: self.clone(),
            project: project.unwrap_or_default().to_owned(),
        }
    }
}

impl Rebuild {
    /// Makes the tables of work, empty.
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

    /// Removes the tables of work.
    pub async fn forget(&self) -> Result<(), StoreError> {
        for name in [SHADOW, "rebuild_differences", "rebuild_suspects"] {
            self.run(&format!("DROP TABLE IF EXISTS {name} SYNC"))
                .await?;
        }
        Ok(())
    }

    /// The days that have events, oldest first, each with how many.
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

    /// The events that were stored since a moment, app by app and in order.
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

    /// Brings runs over of which no event is stored: they cannot be made again, and are not lost for it. Returns
    /// how many. To be called when the tables were compared.
    pub async fn carry_over(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count() FROM rebuild_differences WHERE kind = 'extra'";
        let extra: u64 = self.store.bounded_query(sql).one().await?;
        if extra == 0 {
            return Ok(0);
        }
        let run = crate::retention::RUN;
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

    /// Puts the second table in the first one's place, at once. The first one is then the second.
    pub async fn exchange(&self) -> Result<(), StoreError> {
        self.store.forget_table("runs").await?;
        self.run(&format!("EXCHANGE TABLES runs AND {SHADOW}"))
            .await
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.finish(self.statement(sql)).await
    }

    fn statement(&self, sql: &str) -> clickhouse::query::Query {
        let seconds = STATEMENT_TIMEOUT.as_secs().to_string();
        self.store
            .client
            .query_raw(sql)
            .with_setting("max_execution_time", seconds)
            .with_setting("max_memory_usage", STATEMENT_MEMORY_BYTES.to_string())
            .with_setting(
                "max_bytes_before_external_group_by",
                (STATEMENT_MEMORY_BYTES / 4).to_string(),
            )
            .with_setting("max_threads", "2")
            .with_setting("max_partitions_per_insert_block", "0")
    }

    async fn finish(&self, query: clickhouse::query::Query) -> Result<(), StoreError> {
        let limit = STATEMENT_TIMEOUT + Duration::from_secs(2);
        match tokio::time::timeout(limit, query.execute()).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }
}
