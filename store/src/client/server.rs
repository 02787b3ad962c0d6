//! Cached facts about the server: its clock, and the types of its columns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::Row;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::Store;
use crate::error::StoreError;

/// Maximum age of a reading of the server's clock.
const CLOCK_AGE_MAX: Duration = Duration::from_secs(60);
/// Two clocks drift by less than one part in so many; clocks that are being corrected, by half of it.
const DRIFT_PART: u32 = 1000;
/// The server's time has a precision of a millisecond.
const CLOCK_TICK: Duration = Duration::from_millis(1);
/// Time-out of these queries.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Facts for inserts with a deadline. Shared by all clones of a store.
#[derive(Default)]
pub(crate) struct ServerFacts {
    clock: Mutex<Option<Reading>>,
    /// The types of the columns by table; migrations never change one.
    types: Mutex<HashMap<&'static str, Arc<HashMap<String, String>>>>,
}

/// A reading of the server's clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    server_ms: i64,
    /// When the response arrived: not before the server read its clock.
    at: Instant,
    /// The replica with this clock.
    replica: usize,
}

impl Reading {
    /// The server's time at `until` or a little before it, never after it: Unix milliseconds.
    fn deadline_ms(&self, until: Instant) -> i64 {
        let ahead = until.saturating_duration_since(self.at);
        let ahead = ahead.saturating_sub(ahead / DRIFT_PART + CLOCK_TICK);
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
        self.server_ms.saturating_add(ahead)
    }
}

#[derive(Row, Deserialize)]
struct ColumnType {
    name: String,
    kind: String,
}

impl Store {
    /// The end of a lease on the current replica's clock, rounded down: Unix milliseconds.
    pub(crate) async fn server_deadline_ms(&self, until: Instant) -> Result<i64, StoreError> {
        let replica = self.replicas.as_ref().map_or(0, |all| all.in_use());
        let mut clock = self.server.clock.lock().await;
        let reading = match *clock {
            Some(reading) if reading.replica == replica && reading.at.elapsed() < CLOCK_AGE_MAX => {
                reading
            }
            _ => {
                let asked = self
                    .client
                    .query_raw("SELECT toUnixTimestamp64Milli(now64(3))")
                    .fetch_one::<i64>();
                let server_ms = tokio::time::timeout(ASK_TIMEOUT, asked)
                    .await
                    .map_err(|_| StoreError::TimedOut(ASK_TIMEOUT))??;
                let at = Instant::now();
                *clock.insert(Reading {
                    server_ms,
                    at,
                    replica,
                })
            }
        };
        Ok(reading.deadline_ms(until))
    }

    /// The column types of a table, by name.
    pub(crate) async fn column_types(
        &self,
        table: &'static str,
    ) -> Result<Arc<HashMap<String, String>>, StoreError> {
        let mut known = self.server.types.lock().await;
        if let Some(types) = known.get(table) {
            return Ok(types.clone());
        }
        let sql = "SELECT name, type AS kind FROM system.columns \
                   WHERE database = currentDatabase() AND table = {table:String}";
        let query = self.bounded_query(sql).param("table", table);
        let columns: Vec<ColumnType> = query.rows().await?;
        let types = columns.into_iter().map(|column| (column.name, column.kind));
        let types: Arc<HashMap<String, String>> = Arc::new(types.collect());
        known.insert(table, types.clone());
        Ok(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_deadline_is_never_later_than_the_one_meant() {
        let at = Instant::now();
        let reading = Reading {
            server_ms: 1_000_000,
            at,
            replica: 0,
        };
        let in_ten = reading.deadline_ms(at + Duration::from_secs(10));
        assert_eq!(in_ten, 1_000_000 + 10_000 - 10 - 1);
        assert_eq!(reading.deadline_ms(at), 1_000_000);
        let earlier = at.checked_sub(Duration::from_secs(1)).unwrap_or(at);
        assert_eq!(reading.deadline_ms(earlier), 1_000_000);
    }
}
