//! Administration of dead letters: listed from their log, and appended to the log of events again.
//!
//! The tables store which ones were redriven, after they are durable in the log of events: after a crash between the
//! two they are redriven again, which the identities of events make harmless.

mod letter;
mod marks;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::{Bounds, Fetch, Log, LogError, Position, StoredRecord};
use prometheus::{IntCounter, Registry};
use query::{DeadLetterId, DeadLetterPage, DeadLetterRecord, DeadLetters, Redrive, Redriven};
use schemas::api_error::ApiError;
use store::{Store, StoreError};
use tokio::sync::Mutex;

use marks::{Block, Marks};

/// Bytes of payload in one page, or in one request of a redrive, beyond which no further dead letter is read (X1).
const BYTES: usize = 16 << 20;
/// Dead letters in one request of a redrive (X1); the client repeats the request for the rest.
const LETTERS_PER_REDRIVE: usize = 1000;
/// Time after which one request of a redrive begins no further dead letter, so that the client gets a response.
const REDRIVE_TIME: Duration = Duration::from_secs(10);
/// How long one read waits for records that are known to exist.
const READ_WAIT: Duration = Duration::from_secs(1);
/// How long a request may read before the log counts as away.
const READ_TIME: Duration = Duration::from_secs(10);
/// `Retry-After` when a log or the tables are away, in seconds.
const RETRY_S: u32 = 5;

pub(crate) struct Letters {
    log: Arc<dyn Log>,
    events: Arc<dyn Log>,
    marks: Marks,
    /// One redrive of this process at a time.
    turn: Mutex<()>,
    redriven_events: IntCounter,
}

#[derive(Debug, thiserror::Error)]
enum LettersError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the dead letters were not read in time")]
    Slow,
}

impl From<LettersError> for ApiError {
    fn from(error: LettersError) -> Self {
        let is_retryable = match &error {
            LettersError::Log(error) => error.is_retryable(),
            LettersError::Store(error) => error.is_retryable(),
            LettersError::Slow => true,
        };
        if is_retryable {
            tracing::warn!(error.message = %error, "dead letters cannot be had for now");
            return ApiError::unavailable("the log or the database is away; try again", RETRY_S);
        }
        tracing::error!(error.message = %error, "dead letters cannot be had");
        ApiError::internal()
    }
}

impl Letters {
    /// Reads from `dead_letters`, and redrives to `events`.
    pub(crate) fn new(
        log: Arc<dyn Log>,
        events: Arc<dyn Log>,
        store: Store,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let redriven_events = IntCounter::new(
            "spindle_dead_letters_redriven_events_total",
            "Accepted events in dead letters that were put into the log again",
        )?;
        registry.register(Box::new(redriven_events.clone()))?;
        Ok(Self {
            log,
            events,
            marks: Marks::new(Arc::new(store)),
            turn: Mutex::default(),
            redriven_events,
        })
    }

    /// Offsets of dead letters, by partition.
    async fn bounds(&self) -> Result<Vec<Bounds>, LettersError> {
        let mut bounds = self.log.bounds().await?;
        bounds.sort_unstable_by_key(|bounds| bounds.partition);
        Ok(bounds)
    }

    /// Dead letters of one partition from an offset to the requested end: at most `limit`, and about [`BYTES`]; and the
    /// offset to continue from.
    async fn read(
        &self,
        within: Bounds,
        limit: usize,
    ) -> Result<(Vec<StoredRecord>, u64), LettersError> {
        let mut next = within.begin;
        let mut records: Vec<StoredRecord> = Vec::new();
        if next >= within.end {
            return Ok((records, next));
        }
        let at = Position {
            partition: within.partition,
            offset: next,
        };
        let mut reader = self.log.reader(vec![at]).await?;
        let (mut bytes, until) = (0, Instant::now() + READ_TIME);
        while next < within.end && records.len() < limit && bytes < BYTES {
            if Instant::now() > until {
                return Err(LettersError::Slow);
            }
            let fetch = Fetch {
                max_bytes: BYTES - bytes,
                max_wait: READ_WAIT,
            };
            for stored in reader.next(fetch).await? {
                let is_wanted = stored.position.offset < within.end && records.len() < limit;
                if is_wanted && (bytes < BYTES || records.is_empty()) {
                    next = stored.position.offset + 1;
                    bytes += stored.record.payload.len();
                    records.push(stored);
                }
            }
        }
        Ok((records, next))
    }

    /// Appends these to the log of events, then marks them. Dead letters that can never be appended are reported.
    async fn put_back(
        &self,
        records: Vec<StoredRecord>,
        done: &mut Redriven,
    ) -> Result<(), LettersError> {
        let mut failed = None;
        let mut kept = Vec::new();
        for stored in records {
            let events = letter::events(&stored.record);
            match self.events.append(letter::original(&stored.record)).await {
                Ok(_) => {
                    done.letters += 1;
                    done.events += events;
                    self.redriven_events.inc_by(events);
                    kept.push(stored.position);
                }
                Err(LogError::TooLarge { .. }) => done.left.push(letter::id(stored.position)),
                // What is durable by now has to be marked first.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.marks.mark(&kept).await?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn redrive_all(&self, done: &mut Redriven) -> Result<(), LettersError> {
        let (mut room, until) = (LETTERS_PER_REDRIVE, Instant::now() + REDRIVE_TIME);
        for mut within in self.bounds().await? {
            while within.begin < within.end {
                let block = self.marks.block(within.partition, within.begin).await?;
                let Some(offset) = block.first_unmarked(within.begin) else {
                    within.begin = block.end();
                    continue;
                };
                if offset >= within.end {
                    break;
                }
                if room == 0 || Instant::now() > until {
                    done.is_more = true;
                    return Ok(());
                }
                within.begin = offset;
                // Not beyond the loaded marks.
                let part = Bounds {
                    end: within.end.min(block.end()),
                    ..within
                };
                let (mut records, next) = self.read(part, room).await?;
                records.retain(|stored| !block.has(stored.position.offset));
                room -= records.len().min(room);
                within.begin = next.max(offset + 1);
                self.put_back(records, done).await?;
            }
        }
        Ok(())
    }

    async fn redrive_named(
        &self,
        ids: Vec<DeadLetterId>,
        done: &mut Redriven,
    ) -> Result<(), LettersError> {
        let bounds = self.bounds().await?;
        let mut bytes = 0;
        for id in ids {
            let within = bounds.iter().find(|bounds| {
                bounds.partition == id.partition && (bounds.begin..bounds.end).contains(&id.offset)
            });
            if bytes >= BYTES {
                // Nothing is lost: the client can name it again.
                done.is_more = true;
                return Ok(());
            }
            let found = match within {
                Some(within) => {
                    let one = Bounds {
                        begin: id.offset,
                        end: id.offset + 1,
                        ..*within
                    };
                    self.read(one, 1).await?.0
                }
                None => Vec::new(),
            };
            if found.is_empty() {
                done.left.push(id);
            }
            bytes += found
                .iter()
                .map(|stored| stored.record.payload.len())
                .sum::<usize>();
            self.put_back(found, done).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl DeadLetters for Letters {
    async fn list(
        &self,
        from: Option<DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, ApiError> {
        let mut page = DeadLetterPage::default();
        let mut bytes = 0;
        for mut within in self.bounds().await? {
            if let Some(from) = from {
                if within.partition < from.partition {
                    continue;
                }
                if within.partition == from.partition {
                    within.begin = within.begin.max(from.offset);
                }
            }
            if within.begin >= within.end {
                continue;
            }
            if page.letters.len() >= limit || bytes >= BYTES {
                page.next = Some(letter::id(Position {
                    partition: within.partition,
                    offset: within.begin,
                }));
                return Ok(page);
            }
            let (records, next) = self.read(within, limit - page.letters.len()).await?;
            let mut block: Option<Block> = None;
            for stored in records {
                let Position { partition, offset } = stored.position;
                let known = match block.take() {
                    Some(block) if offset < block.end() => block,
                    _ => self
                        .marks
                        .block(partition, offset)
                        .await
                        .map_err(LettersError::from)?,
                };
                bytes += stored.record.payload.len();
                page.letters.push(DeadLetterRecord {
                    is_redriven: known.has(offset),
                    ..letter::read(stored)
                });
                block = Some(known);
            }
            if next < within.end {
                page.next = Some(letter::id(Position {
                    partition: within.partition,
                    offset: next,
                }));
                return Ok(page);
            }
        }
        Ok(page)
    }

    async fn redrive(&self, which: Redrive) -> Result<Redriven, ApiError> {
        let _turn = self.turn.lock().await;
        let mut done = Redriven::default();
        match which {
            Redrive::All => self.redrive_all(&mut done).await?,
            Redrive::Named(ids) => self.redrive_named(ids, &mut done).await?,
        }
        tracing::info!(
            dead_letters.letters = done.letters,
            dead_letters.events = done.events,
            "dead letters were put into the log again"
        );
        Ok(done)
    }
}
