//! The only way to read: bounded in rows, memory and time, canceled with its future (Q1).

use std::pin::Pin;
use std::time::{Duration, Instant};

use clickhouse::query::{Query, RowCursor};
use clickhouse::{Row, RowOwned, RowRead};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use crate::client::Store;
use crate::client::cluster::reads_small_tables;
use crate::error::StoreError;
use crate::shares::Share;

/// A little longer than the server's own limit, so that the server's error arrives first.
const CLIENT_GRACE: Duration = Duration::from_secs(2);

/// Priorities of reads: a lower number comes first.
const FOREGROUND: &str = "1";
const BACKGROUND: &str = "2";
/// How long a block of a background read waits for others, milliseconds: they slow it down and do not stop it.
const YIELD_MS: &str = "20";
/// The time limit of a background read, as a multiple of its bounds: waiting for others counts.
const BACKGROUND_PATIENCE: u32 = 6;

/// Bounds on one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBounds {
    /// Time on the server; the client gives up a little later.
    pub time: Duration,
    /// Rows of the result; more is an error, so query with a `LIMIT` below it.
    pub result_rows: u64,
    /// Bytes of the result; more is an error.
    pub result_bytes: u64,
    /// Memory of the query on the server.
    pub memory_bytes: u64,
    /// Threads on the server; more help one query and hurt the others.
    pub threads: u32,
}

impl Default for ReadBounds {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            result_rows: 100_000,
            result_bytes: 256 << 20,
            memory_bytes: 512 << 20,
            threads: 2,
        }
    }
}

/// A read with its bounds. Values from outside are passed only by [`BoundedQuery::param`].
#[must_use]
#[derive(Clone)]
pub struct BoundedQuery {
    store: Store,
    query: Query,
    time: Duration,
}

impl Store {
    /// A read with the default bounds. `sql` is fixed text of this program, with values as `{name:Type}`.
    pub fn bounded_query(&self, sql: &str) -> BoundedQuery {
        let bounds = ReadBounds {
            time: self.config.query_timeout,
            ..ReadBounds::default()
        };
        self.bounded_query_within(sql, bounds)
    }

    pub fn bounded_query_within(&self, sql: &str, bounds: ReadBounds) -> BoundedQuery {
        let (priority, patience) = match self.is_background {
            false => (FOREGROUND, 1),
            true => (BACKGROUND, BACKGROUND_PATIENCE),
        };
        let time = bounds.time * patience;
        let mut query = self.client.query_raw(sql);
        if self.replicated().is_some() && reads_small_tables(sql) {
            query = query.with_setting("select_sequential_consistency", "1");
        }
        let query = query
            // Only read-only queries are canceled when the client disconnects; 2 still allows settings.
            .with_setting("readonly", "2")
            .with_setting("cancel_http_readonly_queries_on_client_close", "1")
            .with_setting("max_execution_time", format!("{:.3}", time.as_secs_f64()))
            .with_setting("max_result_rows", bounds.result_rows.to_string())
            .with_setting("max_result_bytes", bounds.result_bytes.to_string())
            .with_setting("max_memory_usage", bounds.memory_bytes.to_string())
            .with_setting("max_threads", bounds.threads.to_string())
            .with_setting("priority", priority)
            .with_setting("low_priority_query_wait_time_ms", YIELD_MS);
        BoundedQuery {
            store: self.clone(),
            query,
            time,
        }
    }
}

impl BoundedQuery {
    /// Sets the value of `{name:Type}`. The server parses it as that type and never as SQL.
    pub fn param(self, name: &str, value: impl Serialize) -> Self {
        Self {
            query: self.query.param(name, value),
            ..self
        }
    }

    /// A setting of the server for this read.
    pub fn setting(self, name: &str, value: impl Into<String>) -> Self {
        Self {
            query: self.query.with_setting(name, value),
            ..self
        }
    }

    pub async fn rows<T: RowOwned + RowRead>(self) -> Result<Vec<T>, StoreError> {
        self.repeated(async |query| {
            let mut cursor = query.cursor::<T>().await?;
            let mut rows = Vec::new();
            while let Some(row) = cursor.next().await? {
                rows.push(row);
            }
            Ok(rows)
        })
        .await
    }

    pub async fn optional<T: RowOwned + RowRead>(self) -> Result<Option<T>, StoreError> {
        self.repeated(async |query| query.cursor::<T>().await?.next().await)
            .await
    }

    /// Retries once where the connection broke and there is another replica.
    async fn repeated<T>(
        self,
        ask: impl AsyncFn(Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let limit = self.client_limit();
        // Boxed: readers are nested deeply, and every level of them would carry all of it on the stack.
        if self.store.replicas.is_none() {
            return within(limit, Box::pin(ask(self))).await;
        }
        let again = self.clone();
        match within(limit, Box::pin(ask(self))).await {
            Err(StoreError::Unavailable(_)) => within(limit, Box::pin(ask(again))).await,
            answer => answer,
        }
    }

    /// The first row; fails if there is none.
    pub async fn one<T: RowOwned + RowRead>(self) -> Result<T, StoreError> {
        self.optional()
            .await?
            .ok_or_else(|| StoreError::Shape("the answer has no row".to_owned()))
    }

    /// The rows one by one, for results that should not be held in memory. Waits for a free connection (X1).
    ///
    /// The time limit covers all rows, the caller's work between them included: an engine that never answers blocks no
    /// reader (Q1).
    pub async fn cursor<T: Row>(self) -> Result<Cursor<T>, StoreError> {
        let share = self.store.share().await?;
        let reads = self.store.reads.clone();
        let permit = reads
            .acquire_owned()
            .await
            .map_err(|_| StoreError::Unavailable("closed".to_owned()))?;
        let watch = Watch {
            store: self.store,
            started: Instant::now(),
            failed: false,
        };
        watch.store.metrics.queries_active.inc();
        let limit = self.time + CLIENT_GRACE;
        let rows = self.query.fetch::<T>()?;
        Ok(Cursor {
            rows,
            watch,
            limit,
            over: Box::pin(tokio::time::sleep(limit)),
            _permit: permit,
            _share: share,
        })
    }

    fn client_limit(&self) -> Duration {
        self.time + CLIENT_GRACE
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or(Err(StoreError::TimedOut(limit)))
}

/// Rows as they arrive. Dropping it cancels the query on the server.
pub struct Cursor<T> {
    rows: RowCursor<T>,
    watch: Watch,
    /// From the start of the query to its last row.
    limit: Duration,
    over: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

impl<T: Row> Cursor<T> {
    /// The next row; it may borrow from the cursor.
    pub async fn next(&mut self) -> Result<Option<T::Value<'_>>, StoreError>
    where
        T: RowRead,
    {
        let row = tokio::select! {
            biased;
            row = self.rows.next() => row.map_err(StoreError::from),
            () = &mut self.over => Err(StoreError::TimedOut(self.limit)),
        };
        if row.is_err() {
            self.watch.failed = true;
        }
        row
    }
}

/// Records the metrics of one read, however it ends.
struct Watch {
    store: Store,
    started: Instant,
    failed: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let metrics = &self.store.metrics;
        metrics.queries_active.dec();
        metrics
            .query_seconds
            .observe(self.started.elapsed().as_secs_f64());
        if self.failed {
            metrics.query_errors.inc();
        }
    }
}
