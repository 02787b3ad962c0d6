//! Goes on with changes in large trees, a while at a time; see [`crate::slices`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::{Log, LogError, Member, Record, StoredRecord, partition_of};
use futures::StreamExt;
use futures::stream;
use tokio::sync::watch;

use super::Worker;
use super::order::Part;
use super::storing::Halt;
use crate::ProcessorError;
use crate::patient::Pause;
use crate::slices::{self, InMemory, Later};

/// How long slices are processed before the records that arrived meanwhile have their turn.
const SLICES_TIME: Duration = Duration::from_secs(1);
/// Appends under way: enough to share a sync of the disk (X1).
const APPENDS: usize = 64;

impl Worker {
    /// Processes slices for a while, appends those that are left once more, and commits.
    pub(super) async fn go_on(&mut self, member: &mut dyn Member, part: Part) -> Result<(), Halt> {
        let began = Instant::now();
        let mut waiting = slices::merge(part.records, part.careful);
        while let Some(record) = waiting.pop_front() {
            if *self.stop.borrow() {
                return Err(Halt::Stopped);
            }
            let one = Part {
                records: vec![record],
                ..Part::default()
            };
            self.process(member, one).await?;
            if began.elapsed() >= SLICES_TIME {
                waiting = self.append_again(waiting).await?;
            }
        }
        let is_committed = self.commit(member, part.commit).await?;
        self.count_stored(is_committed);
        Ok(())
    }

    /// Appends records once more; returns those that a full log does not take.
    async fn append_again(
        &self,
        records: VecDeque<StoredRecord>,
    ) -> Result<VecDeque<StoredRecord>, Halt> {
        let later = self.later();
        let appends = records.into_iter().map(|stored| {
            let later = &later;
            async move {
                let is_taken = later.append(&stored.record).await?;
                Ok::<_, ProcessorError>((!is_taken).then_some(stored))
            }
        });
        let mut appends = stream::iter(appends).buffered(APPENDS);
        let mut refused = VecDeque::new();
        while let Some(outcome) = appends.next().await {
            refused.extend(outcome?);
        }
        Ok(refused)
    }

    pub(super) fn later(&self) -> ToLog<'_> {
        ToLog {
            log: self.processor.parts.log.as_ref(),
            placed_by: self.placed_by,
            stop: &self.stop,
            pause_max: self.processor.config.retry_pause_max,
            refused: InMemory::default(),
        }
    }
}

/// Appends to the log that the records come from.
pub(super) struct ToLog<'a> {
    log: &'a dyn Log,
    placed_by: Option<u32>,
    stop: &'a watch::Receiver<bool>,
    pause_max: Duration,
    /// What a full log does not take. Waiting for room would be for ever: only commits make room. So the worker
    /// processes these records before it commits, and after a crash they follow from the step's own records again.
    refused: InMemory,
}

impl ToLog<'_> {
    /// Takes out what the log refused, at the position of the records that it follows from.
    pub(super) fn take_refused(&self, records: &[StoredRecord]) -> Vec<StoredRecord> {
        let last = records.iter().map(|record| record.position).max();
        last.map_or_else(Vec::new, |last| slices::at(last, self.refused.take()))
    }

    /// Appends a record, durably when it returns; `false` when the log is full.
    async fn append(&self, record: &Record) -> Result<bool, ProcessorError> {
        let mut pause = Pause::new(self.pause_max);
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
                Err(error) if error.is_retryable() => {
                    tracing::warn!(error = %error, "the rest of a change cannot be appended for now");
                    if !pause.wait(self.stop).await {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[async_trait]
impl Later for ToLog<'_> {
    async fn put(&self, records: Vec<Record>) -> Result<(), ProcessorError> {
        for record in records {
            if !self.append(&record).await? {
                self.refused.add(vec![record]);
            }
        }
        Ok(())
    }
}
