//! Inserts that must not come late.
//!
//! A processor may write only while its partitions are its own. It looks at its clock before it writes, but it may be
//! stopped between the look and the write, and its bytes may lie in a buffer while another one has long taken over. So
//! the server looks at its own clock, when it has all the rows and before it stores any of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::Row;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::client::Store;
use crate::error::{FENCED_MARK, StoreError};
use crate::row_binary::TableRow;

/// How old what is known of the server's clock may be: an insert in so many asks for it first.
const CLOCK_AGE_MAX: Duration = Duration::from_secs(60);
/// Two clocks run apart by less than one part in so many; those that are being set right, by half of it.
const DRIFT_PART: u32 = 1000;
/// The server tells its time without what is below a millisecond.
const CLOCK_TICK: Duration = Duration::from_millis(1);
/// How long the server may take to tell the time or what columns there are.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// What has to be known of a server to fence an insert. Shared by all clones of a store.
#[derive(Default)]
pub(crate) struct Fence {
    clock: Mutex<Option<Reading>>,
    /// The types of the columns by table; migrations never change one.
    types: Mutex<HashMap<&'static str, Arc<HashMap<String, String>>>>,
}

/// The server's clock, as it was read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    server_ms: i64,
    /// When the answer was here: not before the server had looked.
    at: Instant,
    /// Which replica's clock it is.
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
    /// A store whose inserts of events, runs, messages and feedback fail with [`StoreError::Fenced`] when they would be
    /// stored after `until`, however late their bytes arrive; all others stay as they are. `None` sets no limit.
    ///
    /// What has been looked at in time is stored a moment after that: a limit needs a margin of one insert.
    pub fn with_deadline(&self, until: Option<Instant>) -> Store {
        Store {
            until,
            ..self.clone()
        }
    }

    /// The source of a fenced insert: the rows as they are sent, unless the server has them all too late. The clock is
    /// read for each block, and the settings of inserts make all rows one block.
    pub(super) async fn fenced_source<T: TableRow>(
        &self,
        until: Instant,
    ) -> Result<String, StoreError> {
        if Instant::now() >= until {
            return Err(StoreError::Fenced);
        }
        let types = self.column_types(T::TABLE).await?;
        let deadline_ms = self.server_deadline_ms(until).await?;
        let mut structure = Vec::new();
        for column in T::columns().split(',') {
            let Some(kind) = types.get(column) else {
                return Err(StoreError::Shape(format!(
                    "the table {} has no column {column}",
                    T::TABLE
                )));
            };
            structure.push(format!("{column} {kind}"));
        }
        let structure = structure
            .join(", ")
            .replace('\\', "\\\\")
            .replace('\'', "\\'");
        Ok(format!(
            "SELECT * FROM input('{structure}') \
             WHERE throwIf(toUnixTimestamp64Milli(nowInBlock64(3)) > {deadline_ms}, '{FENCED_MARK}') = 0"
        ))
    }

    async fn server_deadline_ms(&self, until: Instant) -> Result<i64, StoreError> {
        let replica = self.replicas.as_ref().map_or(0, |all| all.in_use());
        let mut clock = self.fence.clock.lock().await;
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

    async fn column_types(
        &self,
        table: &'static str,
    ) -> Result<Arc<HashMap<String, String>>, StoreError> {
        let mut known = self.fence.types.lock().await;
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
