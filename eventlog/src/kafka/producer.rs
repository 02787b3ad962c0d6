//! Appending: one idempotent producer, bounded in bytes, recreated after a fatal error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::Message;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::config::KafkaConfig;
use super::context::Lines;
use super::metrics::Metrics;
use super::{errors, settings, wire};
use crate::{LogError, Record};

/// The library's client. A thread of its own takes its delivery reports; see [`take_reports`].
type Client = BaseProducer<Answers>;
type Answer = Result<u64, KafkaError>;

/// Time-out of one wait for delivery reports, which arrive without delay. The library spins through the last millisecond
/// of each wait: at 100 ms, as in its own `ThreadedProducer`, an idle producer takes 1% of a core. A client without owners
/// ends within this time.
const REPORTS_WAIT: Duration = Duration::from_secs(1);

/// The appending side of a log.
pub(super) struct Producer {
    config: Arc<KafkaConfig>,
    metrics: Arc<Metrics>,
    client: RwLock<Arc<Client>>,
    /// One permit per byte in flight. The permits of an append are released with the library's final report, even if no
    /// caller waits for it any more.
    room: Arc<Semaphore>,
    closed: AtomicBool,
}

/// Stored in the library beside a record.
struct InFlight {
    answer: oneshot::Sender<Answer>,
    metrics: Arc<Metrics>,
    payload_bytes: u64,
    since: Instant,
    room: OwnedSemaphorePermit,
}

/// Takes the library's delivery reports.
struct Answers(Lines);

impl ClientContext for Answers {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ProducerContext for Answers {
    type DeliveryOpaque = Box<InFlight>;

    fn delivery(&self, result: &DeliveryResult<'_>, in_flight: Box<InFlight>) {
        let answer = match result {
            Ok(message) => Ok(wire::offset(message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        let metrics = &in_flight.metrics;
        if answer.is_ok() {
            metrics.appended_records.inc();
            metrics.appended_bytes.inc_by(in_flight.payload_bytes);
            metrics
                .append_seconds
                .observe(in_flight.since.elapsed().as_secs_f64());
        }
        metrics
            .in_flight_bytes
            .sub(in_flight.room.num_permits() as i64);
        drop(in_flight.room);
        // The caller may be gone.
        let _ = in_flight.answer.send(answer);
    }
}

impl Producer {
    pub(super) fn new(config: Arc<KafkaConfig>, metrics: Arc<Metrics>) -> Result<Self, LogError> {
        let room = config.max_in_flight_bytes.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            client: RwLock::new(client(&config)?),
            config,
            metrics,
            room: Arc::new(Semaphore::new(room)),
            closed: AtomicBool::new(false),
        })
    }

    /// Appends, and waits for the brokers' acknowledgement within the append time-out.
    pub(super) async fn append(&self, partition: u32, record: Record) -> Result<u64, LogError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(LogError::Closed);
        }
        let limit = self.config.max_record_bytes;
        let bytes = wire::bytes(&record);
        if bytes > limit {
            return Err(LogError::TooLarge { bytes, limit });
        }
        let answer = self.send(partition, &record, bytes)?;
        drop(record);
        match tokio::time::timeout(self.config.append_timeout, answer).await {
            Ok(Ok(Ok(offset))) => Ok(offset),
            Ok(Ok(Err(error))) => Err(errors::append(&error, bytes, limit)),
            Ok(Err(_)) => Err(LogError::Unavailable("the producer went away".to_owned())),
            Err(_) => Err(LogError::Unavailable(format!(
                "not acknowledged within {:?}",
                self.config.append_timeout
            ))),
        }
    }

    fn send(
        &self,
        partition: u32,
        record: &Record,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Answer>, LogError> {
        let headers = wire::headers(record)?;
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(permits);
        let room = room.map_err(|_| {
            LogError::Full(format!(
                "{} bytes wait for the brokers",
                self.config.max_in_flight_bytes
            ))
        })?;
        self.metrics.in_flight_bytes.add(i64::from(permits));
        let (answer, answered) = oneshot::channel();
        let in_flight = Box::new(InFlight {
            answer,
            metrics: Arc::clone(&self.metrics),
            payload_bytes: record.payload.len() as u64,
            since: Instant::now(),
            room,
        });
        let mut message = BaseRecord::with_opaque_to(&self.config.topic, in_flight)
            .partition(wire::raw_partition(partition))
            .key(&record.key[..])
            .payload(&record.payload[..])
            .headers(headers);
        let mut client = self.client();
        // Once again after a fatal error, with a new client.
        for _ in 0..2 {
            match client.send(message) {
                Ok(()) => return Ok(answered),
                Err((error, back)) if errors::is_fatal(&error) => {
                    message = back;
                    client = self.renew(&client)?;
                }
                Err((error, back)) => {
                    self.metrics.in_flight_bytes.sub(i64::from(permits));
                    drop(back);
                    return Err(errors::append(&error, bytes, self.config.max_record_bytes));
                }
            }
        }
        self.metrics.in_flight_bytes.sub(i64::from(permits));
        let error = KafkaError::MessageProduction(RDKafkaErrorCode::Fatal);
        Err(errors::away("append", &error))
    }

    fn client(&self) -> Arc<Client> {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&client)
    }

    /// Replaces a client that met a fatal error, unless another append was faster.
    fn renew(&self, failed: &Arc<Client>) -> Result<Arc<Client>, LogError> {
        let mut current = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, failed) {
            if let Some((code, reason)) = failed.client().fatal_error() {
                tracing::warn!("the producer is recreated after {code:?}: {reason}");
            }
            *current = client(&self.config)?;
        }
        Ok(Arc::clone(&current))
    }

    /// Reads the number of partitions, so that the library knows new ones as well. Blocks.
    pub(super) fn partitions(&self) -> Result<u32, LogError> {
        let client = self.client();
        let metadata = client
            .client()
            .fetch_metadata(Some(&self.config.topic), self.config.append_timeout)
            .map_err(|error| errors::away("metadata", &error))?;
        let topic = metadata.topics().first();
        let count = topic.map_or(0, |topic| topic.partitions().len());
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Rejects further appends, and waits for those in flight.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let client = self.client();
        let patience = self.config.append_timeout;
        let flushed = tokio::task::spawn_blocking(move || client.flush(patience)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!("records were in flight when the log was closed: {error}");
        }
    }
}

fn client(config: &KafkaConfig) -> Result<Arc<Client>, LogError> {
    let answers = Answers(Lines::new("producer"));
    let client = config.producer().create_with_context(answers);
    let client: Client =
        client.map_err(|error| LogError::Settings(settings::description(error)))?;
    let client = Arc::new(client);
    let reporting = Arc::clone(&client);
    std::thread::Builder::new()
        .name("kafka-reports".to_owned())
        .spawn(move || take_reports(reporting))
        .map_err(|error| LogError::Unavailable(format!("no thread for a producer: {error}")))?;
    Ok(client)
}

/// Takes the delivery reports of a client until no other owner is left, then ends the client. Ending it waits for the
/// library's threads, so it must not happen on a thread of the runtime; this thread is always its last owner.
fn take_reports(client: Arc<Client>) {
    while Arc::strong_count(&client) > 1 {
        client.poll(REPORTS_WAIT);
    }
}
