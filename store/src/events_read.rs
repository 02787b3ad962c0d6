//! Reading the events of one run back.

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::rows::raw_bytes;

/// Events of one run in one answer, at most.
const EVENTS_OF_RUN: usize = 10_000;
/// Payload bytes of one answer, at most.
const EVENTS_OF_RUN_BYTES: usize = 32 << 20;

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct StoredEvent {
    /// Identity.
    pub event_id: u128,
    /// The event's own time, Unix milliseconds.
    pub timestamp: i64,
    /// The event's name.
    pub name: String,
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// The event's own JSON bytes.
    #[serde(with = "raw_bytes")]
    pub payload: Vec<u8>,
}

/// The events of a run, as many as fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunEvents {
    /// By (timestamp, event id), each event once.
    pub events: Vec<StoredEvent>,
    /// Whether there are more than are here.
    pub cut: bool,
}

/// Names the events of one run: the bounds come with the run's row and make the read a short range of the key.
#[derive(Clone, Copy, Debug)]
pub struct EventsOfRun<'a> {
    /// The tenant.
    pub project: &'a str,
    /// The app.
    pub app: &'a str,
    /// The run.
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
