//! After dropping: data to bring back because it was saved while it was being dropped, and runs related to it.

use clickhouse::Row;
use serde::Deserialize;

use super::{COUNTED, CURRENT, ENCLOSING, KEY, PARENT, Retention};
use crate::client::query::{Cursor, ReadBounds};
use crate::error::StoreError;
use crate::tables::decode;

/// Reading dropped data: rare and little, but found by scanning.
const SCAN_BOUNDS: ReadBounds = ReadBounds {
    time: std::time::Duration::from_secs(3600),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 1 << 30,
    threads: 2,
};

/// An event to process again.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct BackEvent {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// The event's own bytes.
    #[serde(deserialize_with = "decode::bytes")]
    pub payload: Vec<u8>,
}

/// A run that stays and was related to a dropped one.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct UnresolvedRun {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
    /// Its start, Unix milliseconds.
    pub started_at: i64,
}

impl Retention {
    /// Whether original days were set aside and not deleted: the work of a process that died has to be completed.
    pub async fn is_unfinished(&self) -> Result<bool, StoreError> {
        let sql = "SELECT count() FROM system.tables WHERE database = currentDatabase() \
                   AND name LIKE 'retention_before_%' AND total_rows > 0";
        let tables: u64 = self.store.bounded_query(sql).one().await?;
        Ok(tables > 0)
    }

    /// The runs that stay and had a dropped child or parent, or a model call that a dropped run counts or that was below
    /// them, by project and app; `None` when nothing was dropped.
    pub async fn unresolved_runs(&self) -> Result<Option<Cursor<UnresolvedRun>>, StoreError> {
        if self.is_empty("retention_gone").await? {
            return Ok(None);
        }
        let sql = format!(
            "SELECT project_id, app_id, run_id, started_at FROM runs FINAL \
             WHERE (parent_run_id != '' AND {PARENT} IN (SELECT key FROM retention_gone) \
                OR counted_run_id != '' AND {COUNTED} IN (SELECT key FROM retention_gone) \
                OR {KEY} IN (SELECT {PARENT} FROM retention_before_runs \
                             WHERE parent_run_id != '' AND {KEY} IN (SELECT key FROM retention_gone)) \
                OR {KEY} IN (SELECT {ENCLOSING} FROM retention_before_runs \
                             WHERE enclosing_call != '' AND {KEY} IN (SELECT key FROM retention_gone))) \
             ORDER BY project_id, app_id, started_at SETTINGS {CURRENT}"
        );
        let query = self.store.bounded_query_within(&sql, SCAN_BOUNDS);
        query.cursor().await.map(Some)
    }

    /// The events of dropped runs that are kept by now, of [`Retention::find_kept`]; by project, app and time of
    /// acceptance. They include events that stayed, because a run is the fold of all of them. `None` when there are
    /// none.
    pub async fn wanted_back(&self) -> Result<Option<Cursor<BackEvent>>, StoreError> {
        let parts = ["events", "retention_before_events"].map(|table| {
            format!(
                "SELECT project_id, app_id, received_at, timestamp, event_id, payload FROM {table} \
                 WHERE {KEY} IN (SELECT key FROM retention_wanted)"
            )
        });
        self.run("DROP TABLE IF EXISTS retention_wanted SYNC")
            .await?;
        // Dropped runs, and other kept rows whose events are gone: messages, and marks on runs that were never seen.
        self.run(&format!(
            "CREATE TABLE retention_wanted ENGINE = MergeTree ORDER BY key AS \
             SELECT DISTINCT key FROM retention_kept WHERE key IN (SELECT key FROM retention_gone) OR key IN (\
               SELECT {KEY} FROM retention_before_events WHERE {KEY} IN (SELECT key FROM retention_kept) \
                 AND event_id NOT IN (SELECT event_id FROM events WHERE _partition_id IN (\
                   SELECT partition_id FROM system.parts WHERE active AND database = currentDatabase() \
                     AND table = 'retention_before_events') AND {KEY} IN (SELECT key FROM retention_kept)))"
        ))
        .await?;
        if self.is_empty("retention_wanted").await? {
            return Ok(None);
        }
        let sql = format!(
            "SELECT project_id, app_id, received_at, payload FROM ({}) \
             ORDER BY project_id, app_id, received_at, timestamp LIMIT 1 BY event_id",
            parts.join(" UNION ALL ")
        );
        let query = self.store.bounded_query_within(&sql, SCAN_BOUNDS);
        query.cursor().await.map(Some)
    }

    pub(super) async fn is_empty(&self, table: &'static str) -> Result<bool, StoreError> {
        let sql = format!("SELECT count() FROM (SELECT 1 FROM {table} LIMIT 1)");
        let rows: u64 = self.store.bounded_query(&sql).one().await?;
        Ok(rows == 0)
    }
}
