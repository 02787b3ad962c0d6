//! Records that lie in another partition than their key has.
//!
//! A log may get more partitions while it is full, and those who append know of it at once: records of one key then lie
//! in two partitions, which may be at two members. But only one of them may write an app's runs. So all processors place
//! keys by one number of partitions, written down in the tables, and whoever finds a record elsewhere appends it to its
//! own partition. The number changes behind the closed gate ([`Processor::follow_partitions`]).

use std::time::Duration;

use bytes::Bytes;
use eventlog::{LogError, Record, StoredRecord, partition_of};
use futures::StreamExt;
use futures::stream;
use store::StoreError;

use super::Worker;
use super::storing::Halt;
use crate::ProcessorError;
use crate::decode::{self, MOVED};
use crate::patient::Pause;
use crate::processor::Processor;
use crate::tables::Tables;

/// Records on their way to their partition at the same time: they share what durability costs (X1).
const MOVES: usize = 64;
/// How often it is looked whether the log has more partitions.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What has to be left of a closing when the number is written down: many times what that takes.
const WRITE_TIME: Duration = Duration::from_secs(5);

impl Worker {
    /// Takes out the records that lie elsewhere than their keys; the others stay in order.
    pub(super) fn misplaced(&self, records: &mut Vec<StoredRecord>) -> Vec<(u32, Record)> {
        let Some(partitions) = self.placed_by else {
            return Vec::new();
        };
        let mut misplaced = Vec::new();
        records.retain(|stored| {
            let partition = partition_of(&stored.record.key, partitions);
            let is_placed = stored.position.partition == partition;
            if !is_placed {
                let mut record = stored.record.clone();
                if !decode::is_moved(stored) {
                    record
                        .headers
                        .push((MOVED.to_owned(), Bytes::from_static(b"1")));
                }
                misplaced.push((partition, record));
            }
            is_placed
        });
        misplaced
    }

    /// Appends records to their own partitions, durably when it returns.
    pub(super) async fn put_in_place(&self, misplaced: Vec<(u32, Record)>) -> Result<(), Halt> {
        let count = misplaced.len() as u64;
        let moves = misplaced
            .into_iter()
            .map(|(partition, record)| self.append_to(partition, record));
        let mut moves = stream::iter(moves).buffered(MOVES);
        while let Some(moved) = moves.next().await {
            moved?;
        }
        self.processor.metrics.moved_records.inc_by(count);
        Ok(())
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<(), Halt> {
        let log = &self.processor.parts.log;
        let mut pause = Pause::new(self.processor.config.retry_pause_max);
        loop {
            // A partition that this process has not heard of yet is there for others.
            let appended = match partition < log.partitions() {
                true => log.append_to(partition, record.clone()).await,
                false => Err(LogError::Unavailable(format!(
                    "no partition {partition} yet"
                ))),
            };
            match appended {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(error = %error, log.partition = partition, "a record cannot be moved for now");
                    if !pause.wait(&self.stop).await {
                        return Err(Halt::Stopped);
                    }
                }
                Err(error) => return Err(ProcessorError::from(error).into()),
            }
        }
    }
}

impl Processor {
    /// Learns by how many partitions records are placed; the first processor of a deployment decides it.
    pub(crate) async fn learn_placing(&self, tables: &dyn Tables) -> Result<u32, StoreError> {
        let stored = match tables.placed_by().await? {
            Some(partitions) => partitions,
            None => {
                let partitions = self.parts.log.partitions();
                tables.place_by(partitions).await?;
                // Another process may have decided at the same time.
                tables.placed_by().await?.unwrap_or(partitions)
            }
        };
        self.parts.gate.place_by(stored);
        Ok(stored)
    }

    /// Sees to it, as long as it is polled, that records are placed by as many partitions as the log has.
    pub(crate) async fn follow_partitions(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let (placed_by, partitions) =
                (self.parts.gate.placed_by(), self.parts.log.partitions());
            if placed_by != 0
                && placed_by < partitions
                && let Err(error) = self.place_by(partitions).await
            {
                tracing::warn!(error = %error, "records cannot be placed by more partitions for now");
            }
        }
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        let tables = &self.parts.tables;
        let mut closed = self.parts.gate.close().await;
        // Another process may have done it while this one waited.
        let stands = tables.placed_by().await?.unwrap_or(0);
        if stands < partitions && closed.left() >= WRITE_TIME {
            // Whether it worked or not: whoever passes next reads what stands there now.
            closed.repartitioned(partitions);
            tables.place_by(partitions).await?;
            tracing::info!(
                log.partitions = partitions,
                "records are placed by more partitions from now on"
            );
        } else if stands >= partitions {
            closed.repartitioned(stands);
        }
        Ok(())
    }
}
