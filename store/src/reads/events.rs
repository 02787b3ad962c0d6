//! Reads of the events of runs.

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::tables::decode;

/// Maximum number of events of one run in a result.
const EVENTS_OF_RUN: usize = 10_000;
/// Maximum payload bytes of a result.
const EVENTS_OF_RUN_BYTES: usize = 32 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct StoredEvent {
    pub event_id: u128,
    /// The event's own time, Unix milliseconds.
    pub timestamp: i64,
    pub name: String,
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// The event's own JSON bytes.
    #[serde(deserialize_with = "decode::bytes")]
    pub payload: Vec<u8>,
}

/// The events of a run, as many as fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunEvents {
    /// By (timestamp, event id), each event once.
    pub events: Vec<StoredEvent>,
    /// Whether there are more.
    pub cut: bool,
}

/// One run, with bounds from its row, which make the read a short range of the key.
#[derive(Clone, Copy, Debug)]
pub struct EventsOfRun<'a> {
    /// The project.
    pub project: &'a str,
    pub app: &'a str,
    pub run_id: &'a str,
    /// Earliest timestamp of its events, Unix milliseconds.
    pub first_ms: i64,
    /// Latest timestamp of its events.
    pub last_ms: i64,
}

impl Store {
    /// The events of one run in order, each once, bounded in rows and bytes.
    pub async fn events_of_run(&self, run: EventsOfRun<'_>) -> Result<RunEvents, StoreError> {
        let sql = "SELECT event_id, timestamp, name, received_at, payload FROM events \
                   WHERE project_id = {project:String} AND app_id = {app:String} AND run_id = {run:String} \
                     AND timestamp >= fromUnixTimestamp64Milli({first:Int64}) \
                     AND timestamp <= fromUnixTimestamp64Milli({last:Int64}) \
                   ORDER BY timestamp, event_id LIMIT 1 BY event_id LIMIT {limit:UInt64}";
        let mut cursor = self
            .bounded_query(sql)
            .param("project", run.project)
            .param("app", run.app)
            .param("run", run.run_id)
            .param("first", run.first_ms)
            .param("last", run.last_ms)
            .param("limit", EVENTS_OF_RUN + 1)
            .cursor::<StoredEvent>()
            .await?;
        let mut found = RunEvents::default();
        let mut bytes = 0;
        while let Some(event) = cursor.next().await? {
            bytes += event.payload.len();
            if found.events.len() == EVENTS_OF_RUN || bytes > EVENTS_OF_RUN_BYTES {
                found.cut = true;
                break;
            }
            found.events.push(event);
        }
        Ok(found)
    }
}

impl Store {
    /// Identity and timestamp (Unix milliseconds) of each event of the run at one of these `times`.
    pub async fn event_ids_at(
        &self,
        run: EventsOfRun<'_>,
        times: &[UnixMs],
    ) -> Result<Vec<(u128, UnixMs)>, StoreError> {
        let sql = "SELECT event_id, timestamp FROM events \
                   WHERE project_id = {project:String} AND app_id = {app:String} AND run_id = {run:String} \
                     AND timestamp >= fromUnixTimestamp64Milli({first:Int64}) \
                     AND timestamp <= fromUnixTimestamp64Milli({last:Int64}) \
                     AND toUnixTimestamp64Milli(timestamp) IN {times:Array(Int64)} \
                   LIMIT 1 BY event_id";
        self.bounded_query(sql)
            .param("project", run.project)
            .param("app", run.app)
            .param("run", run.run_id)
            .param("first", run.first_ms)
            .param("last", run.last_ms)
            .param("times", times)
            .rows()
            .await
    }
}

/// A run in a read of several runs' events.
#[derive(Clone, Copy, Debug)]
pub struct NamedRun<'a> {
    pub app: &'a str,
    pub run_id: &'a str,
    /// Unix milliseconds.
    pub started_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct EventOfRuns {
    pub app_id: String,
    pub run_id: String,
    pub event_id: u128,
    /// The event's own JSON bytes.
    #[serde(deserialize_with = "decode::bytes")]
    pub payload: Vec<u8>,
}

impl Store {
    /// The events that these runs of one project are folded from, in no order, possibly with duplicates; `None` when
    /// they have more than `max_bytes`: query fewer runs. At most a few hundred runs: their ids travel as one
    /// parameter.
    pub async fn events_of_runs(
        &self,
        project: &str,
        runs: &[NamedRun<'_>],
        max_bytes: usize,
    ) -> Result<Option<Vec<EventOfRuns>>, StoreError> {
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id).collect();
        let mut apps: Vec<&str> = runs.iter().map(|run| run.app).collect();
        apps.sort_unstable();
        apps.dedup();
        let starts = runs.iter().map(|run| run.started_at);
        let (Some(first), Some(last)) = (starts.clone().min(), starts.max()) else {
            return Ok(Some(Vec::new()));
        };
        // Replaced versions have fewer events, so all versions together span at least the current ones.
        let span = "SELECT min(first_event_at), max(last_event_at) FROM runs \
                    WHERE project_id = {project:String} AND run_id IN {runs:Array(String)} \
                      AND started_at >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
                      AND started_at <= fromUnixTimestamp64Milli({last:Int64}, 'UTC')";
        let (first, last): (i64, i64) = self
            .bounded_query(span)
            .param("project", project)
            .param("runs", &ids)
            .param("first", first)
            .param("last", last)
            .one()
            .await?;
        let sql = "SELECT app_id, run_id, event_id, payload FROM events \
                   PREWHERE project_id = {project:String} AND app_id IN {apps:Array(String)} \
                     AND timestamp >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
                     AND timestamp <= fromUnixTimestamp64Milli({last:Int64}, 'UTC') \
                     AND run_id IN {runs:Array(String)}";
        let mut cursor = self
            .bounded_query(sql)
            .param("project", project)
            .param("apps", &apps)
            .param("runs", &ids)
            .param("first", first)
            .param("last", last)
            .setting("max_result_rows", "0")
            .cursor::<EventOfRuns>()
            .await?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(event) = cursor.next().await? {
            bytes += event.payload.len() + size_of::<EventOfRuns>();
            if bytes > max_bytes {
                return Ok(None);
            }
            events.push(event);
        }
        Ok(Some(events))
    }
}
