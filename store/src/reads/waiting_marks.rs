//! Marks (`saved`, `unsaved`, `feedback`) that came before their run: rows of `runs` that no reader sees (decision 0011).

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::tables::decode;

/// Waiting runs in one result.
pub const WAITING_MAX: usize = 50_000;
/// How long before a mark its trace may have begun, and how far a client's clock may be behind.
const TRACE_BEFORE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
const TRACE_AFTER_MS: i64 = 24 * 60 * 60 * 1000;

/// A run id with marks in an app, where no event of the run itself is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Row, Deserialize)]
pub struct WaitingRun {
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
    /// Time of the earliest mark.
    pub first_mark_ms: UnixMs,
    /// Greater with each further mark.
    pub version: u64,
}

/// The run at the top of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct RootOfTrace {
    pub trace_id: String,
    pub app_id: String,
    pub run_id: String,
    /// 1 for a run whose parent is not stored, which may still come.
    pub has_parent: u8,
}

/// A stored event of a run, as it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Mark {
    pub run_id: String,
    /// The event's own time, Unix milliseconds.
    pub timestamp: UnixMs,
    /// When it was accepted, Unix milliseconds.
    pub received_at: UnixMs,
    /// The event's own JSON bytes.
    #[serde(deserialize_with = "decode::bytes")]
    pub payload: Vec<u8>,
}

impl Store {
    /// Runs of all projects whose marks wait, the newest first, at most [`WAITING_MAX`].
    pub async fn waiting_runs(&self) -> Result<Vec<WaitingRun>, StoreError> {
        // Only a row without events of the run has no time of its first event. A newer row of its key may replace it.
        let waits = "is_deleted = 1 AND first_event_at = toDateTime64(0, 3, 'UTC')";
        let key = "project_id, app_id, started_at, run_id";
        let sql = format!(
            "SELECT project_id, app_id, run_id, started_at, version FROM (\
               SELECT {key}, version, is_deleted, first_event_at FROM runs \
               WHERE ({key}) IN (SELECT {key} FROM runs WHERE {waits}) \
               ORDER BY version DESC LIMIT 1 BY {key}) \
             WHERE {waits} ORDER BY started_at DESC LIMIT {WAITING_MAX}"
        );
        self.bounded_query(&sql).rows().await
    }

    /// The topmost runs of these traces of spans, in all apps of a project, in no order. Only traces that began within a
    /// month before the marks are looked for, of which the earliest is at `first_mark_ms` and the latest at
    /// `last_mark_ms`: the runs of a project in a time are read one by one.
    pub async fn roots_of_traces(
        &self,
        project: &str,
        trace_ids: &[&str],
        [first_mark_ms, last_mark_ms]: [UnixMs; 2],
    ) -> Result<Vec<RootOfTrace>, StoreError> {
        let sql = "SELECT trace_id, top.3, top.4, top.1 FROM (\
               SELECT metadata['trace_id'] AS trace_id, \
                 min((toUInt8(parent_run_id != ''), started_at, app_id, run_id)) AS top FROM runs \
               PREWHERE project_id = {project:String} AND root_run_id = run_id \
                 AND started_at >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
                 AND started_at <= fromUnixTimestamp64Milli({last:Int64}, 'UTC') \
               WHERE is_deleted = 0 AND metadata['trace_id'] IN {ids:Array(String)} GROUP BY trace_id)";
        let query = self.bounded_query(sql).param("project", project);
        let query = query.param("ids", trace_ids);
        let query = query.param("first", first_mark_ms.saturating_sub(TRACE_BEFORE_MS));
        let query = query.param("last", last_mark_ms.saturating_add(TRACE_AFTER_MS));
        query.rows().await
    }

    /// The events of these waiting runs of one app, in no order, each once; from the earliest mark on.
    pub async fn marks_of(
        &self,
        project: &str,
        app: &str,
        run_ids: &[&str],
        first_ms: UnixMs,
    ) -> Result<Vec<Mark>, StoreError> {
        let sql = "SELECT run_id, timestamp, received_at, payload FROM events \
                   PREWHERE project_id = {project:String} AND app_id = {app:String} \
                     AND timestamp >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') AND run_id IN {ids:Array(String)} \
                   LIMIT 1 BY event_id";
        let query = self.bounded_query(sql).param("project", project);
        let query = query.param("app", app).param("ids", run_ids);
        query.param("first", first_ms).rows().await
    }

    /// The events with the times of these marks that runs of an app have, in no order.
    pub async fn events_at_marks(
        &self,
        project: &str,
        app: &str,
        marks: &[Mark],
    ) -> Result<Vec<Mark>, StoreError> {
        let times = marks.iter().map(|mark| mark.timestamp);
        let (Some(first), Some(last)) = (times.clone().min(), times.clone().max()) else {
            return Ok(Vec::new());
        };
        let ids: Vec<&str> = marks.iter().map(|mark| mark.run_id.as_str()).collect();
        let times: Vec<UnixMs> = times.collect();
        let sql = "SELECT run_id, timestamp, received_at, payload FROM events \
                   PREWHERE project_id = {project:String} AND app_id = {app:String} \
                     AND timestamp >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
                     AND timestamp <= fromUnixTimestamp64Milli({last:Int64}, 'UTC') AND run_id IN {ids:Array(String)} \
                   WHERE toUnixTimestamp64Milli(timestamp) IN {times:Array(Int64)} LIMIT 1 BY event_id";
        let query = self.bounded_query(sql).param("project", project);
        let query = query.param("app", app).param("ids", ids);
        let query = query.param("first", first).param("last", last);
        query.param("times", times).rows().await
    }
}
