//! Appends of a worker to the log that it reads from.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use eventlog::{Log, LogError, Record, StoredRecord, partition_of};
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::watch;

use super::placing::Misplaced;
use crate::backoff::Backoff;
use crate::dependencies::Shared;
use crate::error::ProcessorError;
use crate::step::slices::{self, Continuations, InMemory};

/// Concurrent appends: enough to share a sync of the disk (X1).
const APPENDS: usize = 64;

/// Appends to the log, with retries until the process stops.
pub(super) struct Appends<'a> {
    log: &'a dyn Log,
    placed_by: Option<u32>,
    stop: &'a watch::Receiver<bool>,
    pause_max: Duration,
    /// Continuations that a full log did not take. Only commits make room, so waiting for room would never end: the
    /// worker processes these records before it commits. After a crash they follow from the step's own records again.
    not_taken: InMemory,
}

impl<'a> Appends<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        placed_by: Option<u32>,
        stop: &'a watch::Receiver<bool>,
    ) -> Self {
        Self {
            log: shared.dependencies.log.as_ref(),
            placed_by,
            stop,
            pause_max: shared.config.retry_pause_max,
            not_taken: InMemory::default(),
        }
    }

    /// Returns the continuations that the log did not take, at the position of the records that they follow from.
    pub(super) fn take_not_taken(&self, records: &[StoredRecord]) -> Vec<StoredRecord> {
        let last = records.iter().map(|record| record.position).max();
        last.map_or_else(Vec::new, |last| slices::at(last, self.not_taken.take()))
    }

    /// Appends records to their own partitions, durably when it returns; returns how many.
    pub(super) async fn move_all(&self, misplaced: Vec<Misplaced>) -> Result<u64, ProcessorError> {
        let count = misplaced.len() as u64;
        let moves = misplaced.into_iter().map(|misplaced| self.place(misplaced));
        let mut moves = stream::iter(moves).buffered(APPENDS);
        while moves.try_next().await?.is_some() {}
        Ok(count)
    }

    /// Returns the slices that a full log does not take.
    pub(super) async fn append_again(
        &self,
        slices: VecDeque<StoredRecord>,
    ) -> Result<VecDeque<StoredRecord>, ProcessorError> {
        let appends = slices.into_iter().map(|stored| async move {
            let is_taken = self.append(&stored.record).await?;
            Ok::<_, ProcessorError>((!is_taken).then_some(stored))
        });
        let mut appends = stream::iter(appends).buffered(APPENDS);
        let mut not_taken = VecDeque::new();
        while let Some(slice) = appends.try_next().await? {
            not_taken.extend(slice);
        }
        Ok(not_taken)
    }

    async fn place(&self, misplaced: Misplaced) -> Result<(), ProcessorError> {
        let Misplaced { partition, record } = misplaced;
        let mut backoff = Backoff::new(self.pause_max);
        loop {
            // Another process may know of a partition before this one does.
            let appended = match partition < self.log.partitions() {
                true => self.log.append_to(partition, record.clone()).await,
                false => Err(LogError::Unavailable(format!(
                    "partition {partition} is not known yet"
                ))),
            };
            let Err(error) = appended else {
                return Ok(());
            };
            self.pause(error, &mut backoff).await?;
        }
    }

    /// Appends a record, durably when it returns; `false` when the log is full.
    async fn append(&self, record: &Record) -> Result<bool, ProcessorError> {
        let mut backoff = Backoff::new(self.pause_max);
        loop {
            let partition = self.placed_by.map(|all| partition_of(&record.key, all));
            let appended = match partition {
                Some(partition) if partition < self.log.partitions() => {
                    self.log.append_to(partition, record.clone()).await
                }
                _ => self.log.append(record.clone()).await,
            };
            match appended {
                Ok(_) => return Ok(true),
                Err(LogError::Full(_)) => return Ok(false),
                Err(error) => self.pause(error, &mut backoff).await?,
            }
        }
    }

    /// Waits before a retry; the error where none follows.
    async fn pause(&self, error: LogError, backoff: &mut Backoff) -> Result<(), ProcessorError> {
        if error.is_retryable() {
            tracing::warn!(error = %error, "appending to the log failed and is retried");
            if backoff.wait(self.stop).await {
                return Ok(());
            }
        }
        Err(error.into())
    }
}

#[async_trait]
impl Continuations for Appends<'_> {
    async fn append(&self, records: Vec<Record>) -> Result<(), ProcessorError> {
        for record in records {
            if !self.append(&record).await? {
                self.not_taken.add(vec![record]);
            }
        }
        Ok(())
    }
}
