//! Writing: one call is one `INSERT` of one large block.

pub(crate) mod fence;

use std::borrow::Borrow;
use std::time::Instant;

use bytes::BytesMut;

use crate::client::Store;
use crate::client::cluster::is_sharded;
use crate::error::StoreError;
use crate::tables::row_binary::TableRow;
use crate::tables::rows::{EventRow, FeedbackRow, InstanceRow, MessageRow, RunRow};

/// Settings of every insert; docs/decisions/0002-embedded-engine.md has measurements of each.
const INSERT_SETTINGS: &[(&str, &str)] = &[
    // One block, so one part per partition: rows are squashed up to these bounds, far above one micro-batch.
    ("max_insert_block_size", "4000000"),
    ("min_insert_block_size_rows", "4000000"),
    ("min_insert_block_size_bytes", "1073741824"),
    ("input_format_parallel_parsing", "0"),
    ("max_insert_threads", "1"),
    // A batch may have more days than the default bound of 100 partitions; rejecting it would block the log.
    ("max_partitions_per_insert_block", "0"),
    ("async_insert", "0"),
    // A replica that lost Keeper fails at once, instead of trying for minutes, past the end of a lease: the caller
    // retries anyway, with another replica.
    ("insert_keeper_max_retries", "0"),
    // Duplicates within a block are removed at the next merge; every read already tolerates them.
    ("optimize_on_insert", "0"),
    // Takes as long as the rest of writing a run; see `search_index.rs`.
    ("exclude_materialize_skip_indexes_on_insert", "by_text"),
];

/// Bytes passed to the connection at a time: large enough that a chunk costs nothing compared to its rows, small enough
/// that the engine parses one while the next is being encoded.
const CHUNK_BYTES: usize = 512 << 10;
/// Room for the last row of a chunk, so that a typical row does not grow the buffer.
const CHUNK_SLACK_BYTES: usize = 16 << 10;

impl Store {
    /// Returns the number of rows. On an error some may be stored: repeat the whole call, equal rows replace each
    /// other. Dropping the future abandons the insert.
    pub async fn insert_events<'a, R: Borrow<EventRow<'a>> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        self.insert::<EventRow<'a>, R>(rows).await
    }

    /// See [`Store::insert_events`].
    pub async fn insert_runs<'a, R: Borrow<RunRow<'a>> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        self.insert::<RunRow<'a>, R>(rows).await
    }

    /// See [`Store::insert_events`].
    pub async fn insert_instances<'a, R: Borrow<InstanceRow<'a>> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        self.insert::<InstanceRow<'a>, R>(rows).await
    }

    /// See [`Store::insert_events`].
    pub async fn insert_messages<'a, R: Borrow<MessageRow<'a>> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        self.insert::<MessageRow<'a>, R>(rows).await
    }

    /// See [`Store::insert_events`].
    pub async fn insert_feedback<'a, R: Borrow<FeedbackRow<'a>> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        self.insert::<FeedbackRow<'a>, R>(rows).await
    }

    /// Inserts rows of any table; see [`Store::insert_events`].
    pub(crate) async fn insert<T: TableRow, R: Borrow<T> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<u64, StoreError> {
        let started = Instant::now();
        let outcome = self.send::<T, R>(rows).await.map_err(|error| match error {
            StoreError::TimedOut(_) => StoreError::TimedOut(self.config.insert_timeout),
            other => other,
        });
        let table = &[T::TABLE];
        match &outcome {
            Ok(sent) => {
                self.metrics
                    .insert_rows
                    .with_label_values(table)
                    .inc_by(sent.rows);
                self.metrics
                    .insert_bytes
                    .with_label_values(table)
                    .inc_by(sent.bytes);
                self.metrics
                    .insert_block_rows
                    .with_label_values(table)
                    .observe(sent.rows as f64);
                self.metrics
                    .insert_block_bytes
                    .with_label_values(table)
                    .observe(sent.bytes as f64);
                self.metrics
                    .insert_seconds
                    .with_label_values(table)
                    .observe(started.elapsed().as_secs_f64());
            }
            Err(StoreError::Fenced) => self.metrics.insert_fenced.with_label_values(table).inc(),
            Err(_) => self.metrics.insert_errors.with_label_values(table).inc(),
        }
        outcome.map(|sent| sent.rows)
    }

    async fn send<T: TableRow, R: Borrow<T> + Send>(
        &self,
        rows: impl Iterator<Item = R> + Send,
    ) -> Result<Sent, StoreError> {
        let source = match self.until {
            None => String::new(),
            Some(until) => self.fenced_source::<T>(until).await?,
        };
        let statement = format!(
            "INSERT INTO {}({}) {source} FORMAT RowBinary",
            if T::TABLE == "runs" {
                self.runs
            } else {
                T::TABLE
            },
            T::COLUMNS.join(",")
        );
        let mut insert = self.client.insert_formatted_with(statement).with_timeouts(
            Some(self.config.send_timeout),
            Some(self.config.insert_timeout),
        );
        for (name, value) in INSERT_SETTINGS {
            insert = insert.with_setting(*name, *value);
        }
        // Small tables keep the client's default quorum.
        if let Some(cluster) = self.replicated().filter(|_| is_sharded(T::TABLE)) {
            let quorum_ms = self.config.insert_timeout.as_millis();
            insert = insert
                .with_setting(
                    "insert_quorum",
                    self.replicas_of(cluster).await?.to_string(),
                )
                .with_setting("insert_quorum_parallel", "1")
                .with_setting("insert_quorum_timeout", quorum_ms.to_string());
        }
        let mut sent = Sent { rows: 0, bytes: 0 };
        let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
        for row in rows {
            row.borrow().encode(&mut buffer);
            sent.rows += 1;
            if buffer.len() >= CHUNK_BYTES - CHUNK_SLACK_BYTES {
                sent.bytes += buffer.len() as u64;
                insert.send(buffer.split().freeze()).await?;
                buffer.reserve(CHUNK_BYTES);
            }
        }
        if sent.rows == 0 {
            return Ok(sent);
        }
        sent.bytes += buffer.len() as u64;
        insert.send(buffer.freeze()).await?;
        insert.end().await?;
        Ok(sent)
    }
}

/// Size of one insert.
struct Sent {
    rows: u64,
    bytes: u64,
}
