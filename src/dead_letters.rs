//! Dead letters as administrators see them: listed from their log, and put into the log of events again.
//!
//! Which ones were redriven is kept in the tables, after they are durable in the log of events: a crash between the two
//! has them redriven once more, which the identities of events make harmless.

mod letter;
mod marks;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::{Bounds, Fetch, Log, LogError, Position, StoredRecord};
use prometheus::{IntCounter, Registry};
use query::{DeadLetters, Letter, LetterPage, LetterPlace, Redrive, Redriven};
use schemas::fault::Fault;
use store::{Store, StoreError};
use tokio::sync::Mutex;

use marks::{Block, Marks};

/// Bytes of payload in one page, or one request of a redrive, beyond which no further letter is read (X1).
const BYTES: usize = 16 << 20;
/// Letters that one request of a redrive takes on (X1); there may be more, then it is asked again.
const LETTERS_PER_REDRIVE: usize = 1000;
/// How long one request of a redrive goes on to further letters, so that whoever asked gets an answer.
const REDRIVE_TIME: Duration = Duration::from_secs(10);
/// How long one read waits for records that are known to be there.
const READ_WAIT: Duration = Duration::from_secs(1);
/// How long a request may take for reading before its log counts as away.
const READ_TIME: Duration = Duration::from_secs(10);
/// Seconds after which to ask again when a log or the tables cannot be had.
const RETRY_S: u32 = 5;

/// The dead letters of a deployment.
pub(crate) struct Letters {
    log: Arc<dyn Log>,
    events: Arc<dyn Log>,
    marks: Marks,
    /// One redrive of this process at a time.
    turn: Mutex<()>,
    redriven_events: IntCounter,
}

/// Why a request cannot be answered.
#[derive(Debug, thiserror::Error)]
enum LettersError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the dead letters were not read in time")]
    Slow,
}

impl From<LettersError> for Fault {
    fn from(error: LettersError) -> Self {
        let is_retryable = match &error {
            LettersError::Log(error) => error.is_retryable(),
            LettersError::Store(error) => error.is_retryable(),
            LettersError::Slow => true,
        };
        if is_retryable {
            tracing::warn!(error.message = %error, "dead letters cannot be had for now");
            return Fault::unavailable("the log or the database is away; try again", RETRY_S);
        }
        tracing::error!(error.message = %error, "dead letters cannot be had");
        Fault::internal()
    }
}

impl Letters {
    /// The letters of this log, redriven to that of the events.
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

    /// Where letters are, by partition.
    async fn bounds(&self) -> Result<Vec<Bounds>, LettersError> {
        let mut bounds = self.log.bounds().await?;
        bounds.sort_unstable_by_key(|bounds| bounds.partition);
        Ok(bounds)
    }

    /// Letters of one partition from an offset to the end as it was asked for: at most so many, and about [`BYTES`].
    /// The offset with which to go on comes with them.
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

    /// Puts these into the log of events, then marks them. Those that it can never take are told.
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
                Err(LogError::TooLarge { .. }) => done.left.push(letter::place(stored.position)),
                // What is durable by now has to be remembered first.
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
                // Not beyond what the marks at hand are about.
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

    async fn redrive_these(
        &self,
        places: Vec<LetterPlace>,
        done: &mut Redriven,
    ) -> Result<(), LettersError> {
        let bounds = self.bounds().await?;
        let mut bytes = 0;
        for place in places {
            let within = bounds.iter().find(|bounds| {
                bounds.partition == place.partition
                    && (bounds.begin..bounds.end).contains(&place.offset)
            });
            if bytes >= BYTES {
                // Nothing is lost: whoever named it names it again.
                done.is_more = true;
                return Ok(());
            }
            let found = match within {
                Some(within) => {
                    let one = Bounds {
                        begin: place.offset,
                        end: place.offset + 1,
                        ..*within
                    };
                    self.read(one, 1).await?.0
                }
                None => Vec::new(),
            };
            if found.is_empty() {
                done.left.push(place);
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
    async fn list(&self, from: Option<LetterPlace>, limit: usize) -> Result<LetterPage, Fault> {
        let mut page = LetterPage::default();
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
                page.next = Some(letter::place(Position {
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
                page.letters.push(Letter {
                    is_redriven: known.has(offset),
                    ..letter::read(stored)
                });
                block = Some(known);
            }
            if next < within.end {
                page.next = Some(letter::place(Position {
                    partition: within.partition,
                    offset: next,
                }));
                return Ok(page);
            }
        }
        Ok(page)
    }

    async fn redrive(&self, which: Redrive) -> Result<Redriven, Fault> {
        let _turn = self.turn.lock().await;
        let mut done = Redriven::default();
        match which {
            Redrive::All => self.redrive_all(&mut done).await?,
            Redrive::These(places) => self.redrive_these(places, &mut done).await?,
        }
        tracing::info!(
            dead_letters.letters = done.letters,
            dead_letters.events = done.events,
            "dead letters were put into the log again"
        );
        Ok(done)
    }
}
