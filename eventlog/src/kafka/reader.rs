//! Reading from given positions, without a group.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use futures::Stream;
use rdkafka::consumer::{Consumer, ConsumerContext, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset};
use tokio::time::Instant;

use super::config::KafkaConfig;
use super::context::Lines;
use super::offsets::list;
use super::{errors, settings, wire};
use crate::{Fetch, LogError, Position, Reader, StoredRecord};

pub(super) struct TopicReader {
    consumer: Arc<StreamConsumer<Lines>>,
    /// The next offset of each partition. Earlier records are not delivered.
    next: BTreeMap<u32, u64>,
}

impl TopicReader {
    pub(super) fn new(config: &KafkaConfig, from: Vec<Position>) -> Result<Self, LogError> {
        let consumer: StreamConsumer<Lines> = config
            .reader()
            .create_with_context(Lines::new("reader"))
            .map_err(|error| LogError::Settings(settings::description(error)))?;
        let next: BTreeMap<u32, u64> = from
            .into_iter()
            .map(|position| (position.partition, position.offset))
            .collect();
        let starts = next.iter();
        let starts = starts.map(|(partition, offset)| {
            let raw = Offset::Offset(wire::raw_offset(*offset));
            (*partition, raw)
        });
        let assigned = consumer.assign(&list(&config.topic, starts)?);
        assigned.map_err(|error| errors::away("assign", &error))?;
        let consumer = Arc::new(consumer);
        Ok(Self { consumer, next })
    }
}

#[async_trait]
impl Reader for TopicReader {
    async fn next(&mut self, fetch: Fetch) -> Result<Vec<StoredRecord>, LogError> {
        let consumer = Arc::clone(&self.consumer);
        let next = &mut self.next;
        let until = Instant::now() + fetch.max_wait;
        let keep = |message: &BorrowedMessage<'_>| {
            let wanted = next.get_mut(&wire::partition(message.partition()))?;
            let offset = wire::offset(message.offset());
            if offset < *wanted {
                return None;
            }
            *wanted = offset + 1;
            Some(wire::stored(message))
        };
        let batch = batch(&consumer, fetch.max_bytes, keep, || false);
        match tokio::time::timeout_at(until, batch).await {
            Ok(batch) => batch.told(),
            Err(_) => Ok(Vec::new()),
        }
    }
}

impl Drop for TopicReader {
    fn drop(&mut self) {
        end(Arc::clone(&self.consumer));
    }
}

/// What the library had available.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) records: Vec<StoredRecord>,
    pub(super) errors: Vec<KafkaError>,
}

impl Batch {
    /// The records, or if there are none the first error that has to become one of ours.
    pub(super) fn told(self) -> Result<Vec<StoredRecord>, LogError> {
        let error = self
            .errors
            .iter()
            .find(|error| errors::is_worth_telling(error));
        match error {
            Some(error) if self.records.is_empty() => Err(errors::away("read", error)),
            _ => Ok(self.records),
        }
    }
}

/// Waits for the first record or error, and takes what is available after it, until `max_bytes` or `stop` end the batch.
/// Also ready when `stop` is true before the first. Nothing is taken before the future is ready, so it may be dropped.
///
/// All errors at once: a client whose brokers are away adds several each second, and a rebalance waits behind them.
pub(super) async fn batch<C: ConsumerContext + 'static>(
    consumer: &StreamConsumer<C>,
    max_bytes: usize,
    mut keep: impl FnMut(&BorrowedMessage<'_>) -> Option<StoredRecord>,
    stop: impl Fn() -> bool,
) -> Batch {
    let mut stream = consumer.stream();
    std::future::poll_fn(|context| {
        let mut batch = Batch::default();
        let mut bytes = 0_usize;
        while !stop() && (bytes < max_bytes || batch.records.is_empty()) {
            match Pin::new(&mut stream).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    if let Some(stored) = keep(&message) {
                        bytes = bytes.saturating_add(stored.record.payload.len());
                        batch.records.push(stored);
                    }
                }
                Poll::Ready(Some(Err(error))) => batch.errors.push(error),
                // The stream of a consumer has no end.
                Poll::Ready(None) | Poll::Pending => {
                    let is_empty = batch.records.is_empty() && batch.errors.is_empty();
                    if is_empty && !stop() {
                        return Poll::Pending;
                    }
                    break;
                }
            }
        }
        Poll::Ready(batch)
    })
    .await
}

/// Ending a consumer waits for its threads, so it must not run on a thread of the runtime.
fn end(consumer: Arc<StreamConsumer<Lines>>) {
    let thread = std::thread::Builder::new().name("kafka-reader-end".to_owned());
    // Without a new thread it runs right here.
    if let Err(error) = thread.spawn(move || drop(consumer)) {
        tracing::debug!("no thread to end a reader on: {error}");
    }
}
