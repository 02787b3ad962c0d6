//! One member of the consumer group: gather, fold, store, commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::{Delivery, Fetch, LogError, Member, StoredRecord};
use schemas::ids::ProjectId;
use tokio::sync::watch;

use crate::hot::HotRuns;
use crate::known::Known;
use crate::patient::Pause;
use crate::processor::{Processor, stopped_by};
use crate::{GROUP, ProcessorError};
use order::{parts, weight};
use storing::Halt;

mod continuing;
mod order;
mod placing;
mod refusal;
mod storing;

/// The largest record a log takes.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// How long one call waits for records when there are none, before it looks around again.
const IDLE_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct Worker {
    processor: Arc<Processor>,
    known: Arc<Known>,
    hot: HotRuns,
    stop: watch::Receiver<bool>,
    /// Tells a worker without work that it has to forget its hot runs; one with work learns it at the gate.
    generations: watch::Receiver<u64>,
    /// The gate's number when this worker last passed it.
    generation: u64,
    /// By partition, what may have been stored in part by whoever had it before: see [`Sources::careful`].
    unproven: BTreeMap<u32, Unproven>,
    /// It has partitions by now that may have been another process's.
    is_new_owner: bool,
    /// The number of partitions that records are placed by; `None` where they are as they lie.
    placed_by: Option<u32>,
    /// Records that could not be processed since the last one that could.
    bad_in_a_row: u64,
    /// Accepted events that are stored and not yet committed, by project.
    uncounted: Vec<(ProjectId, u64)>,
}

/// The records somebody else may have begun to store without committing them.
#[derive(Clone, Copy, Debug)]
struct Unproven {
    /// They are below this offset: the log's end when the partition was taken over.
    end: u64,
    /// They have no more payload bytes than this: a micro-batch is the most that anyone stores at once.
    bytes: usize,
}

/// What gathering ended with.
struct Gathered {
    records: Vec<StoredRecord>,
    /// What was told after the records and has to be heeded after them.
    then: Option<Delivery>,
}

impl Worker {
    pub(crate) fn new(
        (processor, known, hot): (Arc<Processor>, Arc<Known>, HotRuns),
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            generations: processor.parts.gate.generations(),
            processor,
            known,
            hot,
            stop,
            generation: 0,
            unproven: BTreeMap::new(),
            is_new_owner: false,
            placed_by: None,
            bad_in_a_row: 0,
            uncounted: Vec::new(),
        }
    }

    /// Processes until told to stop. A worker that loses its partitions in the middle of a step takes a place in the
    /// group anew: what it had in hand, of partitions that it lost and of others maybe, is delivered again then, from
    /// the last commit on, to whoever has them.
    pub(crate) async fn run(mut self) -> Result<(), ProcessorError> {
        let mut pause = Pause::new(self.processor.config.retry_pause_max);
        loop {
            match self.serve().await {
                Ok(()) | Err(Halt::Stopped) => return Ok(()),
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::Refused(error)) => return Err(ProcessorError::Refused(error)),
                Err(Halt::Lost) => {
                    tracing::warn!("a worker lost its partitions while it had records in hand");
                    self.processor.metrics.lost_steps.inc();
                }
            }
            if !pause.wait(&self.stop).await {
                return Ok(());
            }
        }
    }

    /// One membership, from joining the group on.
    async fn serve(&mut self) -> Result<(), Halt> {
        let mut member = self.join().await?;
        self.hot.clear();
        self.unproven.clear();
        self.uncounted.clear();
        while !*self.stop.borrow() {
            let gathered = match self.gather(member.as_mut()).await {
                Ok(gathered) => gathered,
                Err(LogError::Closed) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(error = %error, "the log cannot be read for now");
                    Pause::new(self.processor.config.retry_pause_max)
                        .wait(&self.stop)
                        .await;
                    continue;
                }
                Err(error) => return Err(ProcessorError::from(error).into()),
            };
            let records = self.with_care(gathered.records);
            let parts = parts(records, self.processor.config.batch_bytes);
            for (at, part) in parts.into_iter().enumerate() {
                // A stop flushes one step; what is not committed stays in the log.
                if at > 0 && *self.stop.borrow() {
                    return Ok(());
                }
                match part.is_slices {
                    true => self.go_on(member.as_mut(), part).await?,
                    false => self.process(member.as_mut(), part).await?,
                }
            }
            self.heed(gathered.then).await;
        }
        Ok(())
    }

    async fn join(&self) -> Result<Box<dyn Member>, Halt> {
        let mut pause = Pause::new(self.processor.config.retry_pause_max);
        loop {
            match self.processor.parts.log.join(GROUP).await {
                Err(error) if error.is_retryable() => {
                    tracing::warn!(error = %error, "the log cannot be joined for now");
                    if !pause.wait(&self.stop).await {
                        return Err(Halt::Stopped);
                    }
                }
                joined => return joined.map_err(|error| ProcessorError::from(error).into()),
            }
        }
    }

    /// Follows what the log says about this member's partitions.
    async fn heed(&mut self, delivery: Option<Delivery>) {
        match delivery {
            Some(Delivery::Assigned(positions)) => {
                tracing::debug!(log.positions = ?positions, "assigned");
                // Whoever had these partitions may have written their runs since this worker last did.
                self.hot.clear();
                self.is_new_owner = true;
                // Where the end cannot be seen now, care is taken as far as the bytes reach.
                let lags = self
                    .processor
                    .parts
                    .log
                    .lag(GROUP)
                    .await
                    .unwrap_or_default();
                // The record that made the batch full may have gone over its bound.
                let bytes = self.processor.config.batch_bytes + RECORD_BYTES_MAX;
                for position in positions {
                    let lag = lags.iter().find(|lag| lag.partition == position.partition);
                    let end = lag.map_or(u64::MAX, |lag| lag.end);
                    self.unproven
                        .insert(position.partition, Unproven { end, bytes });
                }
            }
            Some(Delivery::Revoked(partitions) | Delivery::Lost(partitions)) => {
                tracing::debug!(log.partitions = ?partitions, "no longer assigned");
                self.hot.clear();
                for partition in partitions {
                    self.unproven.remove(&partition);
                }
            }
            _ => {}
        }
    }

    /// The records, each with whether it may have been stored in part before; counts them as proven for the next time.
    fn with_care(&mut self, records: Vec<StoredRecord>) -> Vec<(StoredRecord, bool)> {
        let unproven = &mut self.unproven;
        let careful = |record: &StoredRecord| {
            let partition = record.position.partition;
            let Some(left) = unproven.get_mut(&partition) else {
                return false;
            };
            let is_proven = record.position.offset >= left.end || left.bytes == 0;
            left.bytes = left.bytes.saturating_sub(weight(record));
            if is_proven {
                unproven.remove(&partition);
            }
            !is_proven
        };
        let careful: Vec<bool> = records.iter().map(careful).collect();
        records.into_iter().zip(careful).collect()
    }

    /// Collects records until a micro-batch is full, its time is over, or something else is told.
    async fn gather(&mut self, member: &mut dyn Member) -> Result<Gathered, LogError> {
        let config = &self.processor.config;
        let mut gathered = Gathered {
            records: Vec::new(),
            then: None,
        };
        let mut bytes = 0;
        let mut deadline: Option<Instant> = None;
        loop {
            let max_wait = deadline.map_or(IDLE_WAIT, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            let fetch = Fetch {
                max_bytes: config.batch_bytes.saturating_sub(bytes).max(1),
                max_wait,
            };
            let delivery = tokio::select! {
                delivery = member.next(fetch) => match delivery {
                    // What is in hand is not delivered again: it comes first. The error comes back with the next call.
                    Err(_) if !gathered.records.is_empty() => return Ok(gathered),
                    delivery => delivery?,
                },
                () = stopped_by(&mut self.stop) => return Ok(gathered),
                Ok(()) = self.generations.changed() => {
                    self.hot.clear();
                    continue;
                }
            };
            match delivery {
                Delivery::Records(records) => {
                    bytes += records.iter().map(weight).sum::<usize>();
                    gathered.records.extend(records);
                    deadline.get_or_insert_with(|| Instant::now() + config.batch_wait);
                }
                Delivery::Idle => return Ok(gathered),
                other => {
                    gathered.then = Some(other);
                    return Ok(gathered);
                }
            }
            if bytes >= config.batch_bytes
                || deadline.is_some_and(|deadline| deadline <= Instant::now())
            {
                return Ok(gathered);
            }
        }
    }
}
