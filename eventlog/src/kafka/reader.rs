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
            Ok(Batch { records, error }) => match error {
                Some(error) if records.is_empty() && errors::is_worth_telling(&error) => {
                    Err(errors::away("read", &error))
                }
                _ => Ok(records),
            },
            Err(_) => Ok(Vec::new()),
        }
    }
}

impl Drop for TopicReader {
    fn drop(&mut self) {
        end(Arc::clone(&self.consumer));
    }
}

/// Records that the library had available.
pub(super) struct Batch {
    pub(super) records: Vec<StoredRecord>,
    /// The error that ended the batch.
    pub(super) error: Option<KafkaError>,
}

/// Waits for the first record, and takes available ones after it, until `max_bytes` or `stop` end the batch. Also ready
/// when `stop` is true before the first. No record is taken before the future is ready, so it may be dropped.
pub(super) async fn batch<C: ConsumerContext + 'static>(
    consumer: &StreamConsumer<C>,
    max_bytes: usize,
    mut keep: impl FnMut(&BorrowedMessage<'_>) -> Option<StoredRecord>,
    stop: impl Fn() -> bool,
) -> Batch {
    let mut stream = consumer.stream();
    std::future::poll_fn(|context| {
        let mut records = Vec::new();
        let mut bytes = 0_usize;
        loop {
            if stop() {
                return Poll::Ready(Batch {
                    records,
                    error: None,
                });
            }
            match Pin::new(&mut stream).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    if let Some(stored) = keep(&message) {
                        bytes = bytes.saturating_add(stored.record.payload.len());
                        records.push(stored);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = Some(error);
                    return Poll::Ready(Batch { records, error });
                }
                // The stream of a consumer has no end.
                Poll::Ready(None) | Poll::Pending if records.is_empty() && !stop() => {
                    return Poll::Pending;
                }
                Poll::Ready(None) | Poll::Pending => {
                    return Poll::Ready(Batch {
                        records,
                        error: None,
                    });
                }
            }
            if bytes >= max_bytes && !records.is_empty() {
                return Poll::Ready(Batch {
                    records,
                    error: None,
                });
            }
        }
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
