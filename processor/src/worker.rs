//! One member of the consumer group: gather, fold, store, commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::Utc;
use eventlog::{Delivery, Fetch, LogError, Member, Record, StoredRecord};
use tokio::sync::watch;

use crate::batch::Sources;
use crate::decode::{self, Poison};
use crate::gate::is_replaced;
use crate::hot::HotRuns;
use crate::known::Known;
use crate::patient::{Patient, Pause};
use crate::processor::{Processor, stopped_by};
use crate::step::{self, Stored};
use crate::{GROUP, ProcessorError};

/// The largest record a log takes.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// Bytes a run takes while it is priced again for each byte that names it: 3 KB for about 60.
const REPRICE_WEIGHT: usize = 50;
/// How long one call waits for records when there are none, before it looks around again.
const IDLE_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct Worker {
    processor: Arc<Processor>,
    known: Arc<Known>,
    hot: HotRuns,
    member: Box<dyn Member>,
    stop: watch::Receiver<bool>,
    /// The gate's number when this worker last passed it.
    generation: u64,
    /// By partition, what may have been stored in part by whoever had it before: see [`Sources::careful`].
    unproven: BTreeMap<u32, Unproven>,
}

/// The records somebody else may have begun to store without committing them.
#[derive(Clone, Copy, Debug)]
struct Unproven {
    /// They are below this offset: the log's end when the partition was taken over.
    end: u64,
    /// They have no more payload bytes than this: a micro-batch is the most that anyone stores at once.
    bytes: usize,
}

/// What a record counts against the bound on a micro-batch: its bytes, and where it only names runs, what the runs
/// will take that have to be read for it.
fn weight(record: &StoredRecord) -> usize {
    let bytes = record.record.payload.len();
    if decode::is_reprice(record) {
        bytes.saturating_mul(REPRICE_WEIGHT)
    } else {
        bytes
    }
}

/// Cuts records into lists of at most this weight, in order. Nearly always one: only records that name runs weigh more
/// than their bytes.
fn parts(records: Vec<StoredRecord>, most: usize) -> Vec<Vec<StoredRecord>> {
    let mut parts: Vec<Vec<StoredRecord>> = Vec::new();
    let mut room = 0;
    for record in records {
        let weight = weight(&record);
        match parts.last_mut() {
            Some(part) if weight <= room => {
                part.push(record);
                room -= weight;
            }
            _ => {
                parts.push(vec![record]);
                room = most.saturating_sub(weight);
            }
        }
    }
    parts
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
        member: Box<dyn Member>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            processor,
            known,
            hot,
            member,
            stop,
            generation: 0,
            unproven: BTreeMap::new(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<(), ProcessorError> {
        while !*self.stop.borrow() {
            let gathered = match self.gather().await {
                Ok(gathered) => gathered,
                Err(LogError::Closed) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(error = %error, "the log cannot be read for now");
                    Pause::new(self.processor.config.retry_pause_max)
                        .wait(&self.stop)
                        .await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for records in parts(gathered.records, self.processor.config.batch_bytes) {
                if !self.process(records).await? {
                    return Ok(());
                }
            }
            self.heed(gathered.then).await;
        }
        Ok(())
    }

    /// Follows what the log says about this member's partitions.
    async fn heed(&mut self, delivery: Option<Delivery>) {
        match delivery {
            Some(Delivery::Assigned(positions)) => {
                tracing::debug!(log.positions = ?positions, "assigned");
                // Whoever had these partitions may have written their runs since this worker last did.
                self.hot.clear();
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

    /// Whether any of these records may have been stored in part before; counts them as proven for the next time.
    fn takes_care_of(&mut self, records: &[StoredRecord]) -> bool {
        let mut careful = false;
        for record in records {
            let partition = record.position.partition;
            let Some(unproven) = self.unproven.get_mut(&partition) else {
                continue;
            };
            let is_proven = record.position.offset >= unproven.end || unproven.bytes == 0;
            unproven.bytes = unproven.bytes.saturating_sub(weight(record));
            careful |= !is_proven;
            if is_proven {
                self.unproven.remove(&partition);
            }
        }
        careful
    }

    /// Collects records until a micro-batch is full, its time is over, or something else is told.
    async fn gather(&mut self) -> Result<Gathered, LogError> {
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
                delivery = self.member.next(fetch) => delivery?,
                () = stopped_by(&mut self.stop) => return Ok(gathered),
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

    /// Stores what the records say, then commits them. `false` when it was told to stop before that was possible.
    async fn process(&mut self, records: Vec<StoredRecord>) -> Result<bool, ProcessorError> {
        let processor = self.processor.clone();
        let metrics = &processor.metrics;
        let started = Instant::now();
        let tables = Patient {
            processor: processor.clone(),
            stop: self.stop.clone(),
        };
        let (known, hot) = (self.known.clone(), self.hot.clone());
        let (_pass, generation) = processor.parts.gate.pass().await;
        if generation != self.generation {
            // Somebody put other rows in place of those this worker knows.
            hot.clear();
            if is_replaced(self.generation, generation) {
                match known.learn(&tables).await {
                    Ok(()) => {}
                    // Told to stop while the store is away: the records stay in the log.
                    Err(error) if error.is_retryable() => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            self.generation = generation;
        }
        let prices = processor.parts.prices.borrow().clone();
        let careful = self.takes_care_of(&records) | records.iter().any(decode::is_settle);
        let sources = Sources {
            tables: &tables,
            hot: &hot,
            known: &known,
            prices: &prices,
            metrics,
            careful,
        };
        let stored = step::store(&records, sources, Utc::now().timestamp_millis()).await;
        let Stored { events, poison } = match stored {
            Ok(stored) => stored,
            // Told to stop while the store is away: the records stay in the log.
            Err(ProcessorError::Store(error)) if error.is_retryable() => return Ok(false),
            Err(error) => return Err(error),
        };
        self.bury(&records, &poison).await?;
        self.commit(&records).await?;
        metrics.stored_events.inc_by(events);
        metrics.batch_events.observe(events as f64);
        metrics
            .batch_seconds
            .observe(started.elapsed().as_secs_f64());
        Ok(true)
    }

    /// Puts what could not be read into the dead letters, durably, before its record is committed (P1).
    async fn bury(
        &mut self,
        records: &[StoredRecord],
        poison: &[Poison],
    ) -> Result<(), ProcessorError> {
        for bad in poison {
            let source = &records[bad.record];
            let text = |text: String| Bytes::from(text.into_bytes());
            let mut headers = source.record.headers.clone();
            headers.extend([
                ("reason".to_owned(), text(bad.reason.clone())),
                (
                    "original_partition".to_owned(),
                    text(source.position.partition.to_string()),
                ),
                (
                    "original_offset".to_owned(),
                    text(source.position.offset.to_string()),
                ),
            ]);
            let payload = bad
                .part
                .clone()
                .map_or_else(|| source.record.payload.clone(), text);
            let letter = Record {
                key: source.record.key.clone(),
                headers,
                payload,
            };
            tracing::error!(
                log.partition = source.position.partition,
                log.offset = source.position.offset,
                "a record cannot be read; it goes to the dead letters"
            );
            self.processor.parts.dead_letters.append(letter).await?;
            self.processor
                .metrics
                .dead_lettered_events
                .inc_by(bad.events);
        }
        Ok(())
    }

    async fn commit(&mut self, records: &[StoredRecord]) -> Result<(), ProcessorError> {
        let mut next = BTreeMap::new();
        for record in records {
            let offset = next.entry(record.position.partition).or_insert(0);
            *offset = record.position.offset.saturating_add(1).max(*offset);
        }
        for (partition, offset) in next {
            let mut pause = Pause::new(self.processor.config.retry_pause_max);
            loop {
                match self.member.commit(partition, offset).await {
                    Ok(()) => break,
                    // Whoever has it now reads the same records again, which changes nothing (P2).
                    Err(LogError::NotAssigned(_)) => break,
                    Err(error) if error.is_retryable() => {
                        tracing::warn!(error = %error, log.partition = partition, "cannot commit for now");
                        if !pause.wait(&self.stop).await {
                            return Ok(());
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}
