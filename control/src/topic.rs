//! The control topic: every message is a record of its one partition.

mod watermark;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use eventlog::{Fetch, Log, LogError, Position, Record, StoredRecord};
use prometheus::{IntCounter, IntGauge, Registry};
use schemas::control::ControlMessage;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::channel::{ControlChannel, LAG_MAX};
use watermark::{ReadFrom, Watermark};

/// One partition holds all messages, so that all processes receive them in one order.
const PARTITION: u32 = 0;
/// How long one read waits for a message, and how often the end of the topic is looked up: this bounds the age of the
/// watermark while the topic is reachable.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after an error.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Bytes of one read: hundreds of messages.
const READ_BYTES: usize = 256 << 10;

#[derive(Clone)]
struct Metrics {
    published: IntCounter,
    received: IntCounter,
    watermark_age_seconds: IntGauge,
}

impl Metrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let watermark_age_seconds = IntGauge::new(
            "spindle_control_watermark_age_seconds",
            "Time since this process was last known to have received every message on the control topic",
        )?;
        registry.register(Box::new(watermark_age_seconds.clone()))?;
        Ok(Self {
            published: counter(
                "spindle_control_published_messages_total",
                "Messages published on the control topic",
            )?,
            received: counter(
                "spindle_control_received_messages_total",
                "Messages received from the control topic",
            )?,
            watermark_age_seconds,
        })
    }
}

/// The channel of a deployment of several processes. Clones share it.
#[derive(Clone)]
pub struct ControlTopic(Arc<Inner>);

struct Inner {
    log: Arc<dyn Log>,
    messages: broadcast::Sender<ControlMessage>,
    watermark: Mutex<Watermark>,
    metrics: Metrics,
}

impl ControlTopic {
    /// Nothing is received before [`ControlTopic::run`].
    ///
    /// # Errors
    /// The metrics are already registered.
    pub fn new(log: Arc<dyn Log>, registry: &Registry) -> prometheus::Result<Self> {
        let topic = Self(Arc::new(Inner {
            log,
            messages: broadcast::Sender::new(LAG_MAX),
            watermark: Mutex::new(Watermark::new(Instant::now())),
            metrics: Metrics::new(registry)?,
        }));
        topic.measure();
        Ok(topic)
    }

    /// Receives until stopped. While the topic is unreachable, [`ControlChannel::received_until`] stands still.
    pub async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let received = tokio::select! {
                received = self.receive() => received,
                () = stop.cancelled() => return,
            };
            if let Err(error) = received {
                tracing::debug!(error.message = %error, "reading the control topic failed; it is retried");
            }
            self.measure();
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Receives from the last position, or from the end if there is none, until reading fails.
    async fn receive(&self) -> Result<(), LogError> {
        let (asked, bounds) = self.bounds().await?;
        let from = self.with(|watermark| watermark.begin(asked, bounds));
        if let ReadFrom::End(_) = from {
            // Everything published before is in the tables by now: subscribers read those again.
            let _ = self.0.messages.send(ControlMessage::Missed);
        }
        let at = Position {
            partition: PARTITION,
            offset: from.offset(),
        };
        let mut reader = self.0.log.reader(vec![at]).await?;
        let fetch = Fetch {
            max_bytes: READ_BYTES,
            max_wait: LOOK_INTERVAL,
        };
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                records = reader.next(fetch) => self.take(records?),
                // Dropping a read loses nothing, so the look-up of the end never waits for one.
                _ = look.tick() => {
                    let (asked, bounds) = self.bounds().await?;
                    if !self.with(|watermark| watermark.end_is(asked, bounds)) {
                        tracing::warn!("the control topic was recreated or truncated: reading continues at its end, messages may have been missed");
                        return Ok(());
                    }
                    self.measure();
                }
            }
        }
    }

    fn take(&self, records: Vec<StoredRecord>) {
        for stored in records {
            match serde_json::from_slice::<ControlMessage>(&stored.record.payload) {
                Ok(message) => {
                    self.0.metrics.received.inc();
                    // Fails without a subscriber, when nothing has to be delivered.
                    let _ = self.0.messages.send(message);
                }
                Err(error) => {
                    tracing::warn!(error.message = %error, log.offset = stored.position.offset, "a record of the control topic is not a control message; it is skipped");
                }
            }
            // After the message was passed on: a subscriber that sees the watermark move has the message before it.
            self.with(|watermark| watermark.received(stored.position.offset));
        }
    }

    /// Begin and end of the topic, and the moment before they were looked up: everything published before that moment
    /// lies below the end.
    async fn bounds(&self) -> Result<(Instant, Range<u64>), LogError> {
        let asked = Instant::now();
        let all = self.0.log.bounds().await?;
        let found = all.iter().find(|bounds| bounds.partition == PARTITION);
        let missing = || LogError::Settings("the control topic has no partition 0".to_owned());
        let found = found.ok_or_else(missing)?;
        Ok((asked, found.begin..found.end))
    }

    fn measure(&self) {
        let age = self.received_until().elapsed().as_secs();
        let age = i64::try_from(age).unwrap_or(i64::MAX);
        self.0.metrics.watermark_age_seconds.set(age);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Watermark) -> T) -> T {
        // Consistent at any moment: no code between two changes can panic.
        let watermark = self.0.watermark.lock();
        work(&mut watermark.unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ControlChannel for ControlTopic {
    async fn publish(&self, message: &ControlMessage) -> Result<(), LogError> {
        let payload = serde_json::to_vec(message).map_err(|error| {
            LogError::Settings(format!("a control message cannot be encoded: {error}"))
        })?;
        let record = Record {
            key: Bytes::new(),
            headers: Vec::new(),
            payload: payload.into(),
        };
        self.0.log.append_to(PARTITION, record).await?;
        self.0.metrics.published.inc();
        Ok(())
    }

    fn subscribe(&self) -> broadcast::Receiver<ControlMessage> {
        self.0.messages.subscribe()
    }

    fn received_until(&self) -> Instant {
        self.with(|watermark| watermark.received_until())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eventlog::MemoryLog;
    use schemas::control::Changed;

    fn message(name: &str) -> ControlMessage {
        ControlMessage::AcquireBarrier {
            barrier: name.to_owned(),
            for_ms: 1,
            sequence: 0,
        }
    }

    fn topic(log: &MemoryLog) -> ControlTopic {
        ControlTopic::new(Arc::new(log.clone()), &Registry::new()).unwrap()
    }

    async fn until_received(topic: &ControlTopic, since: Instant) {
        let moved = async {
            while topic.received_until() < since {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), moved)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn every_process_receives_every_message_in_one_order_and_none_from_before_it_subscribed()
    {
        let log = MemoryLog::new(1);
        let stop = CancellationToken::new();
        let topics = [topic(&log), topic(&log)];
        topics[0].publish(&message("before")).await.unwrap();
        let mut receivers = topics.each_ref().map(|topic| topic.subscribe());
        for topic in &topics {
            let (topic, stop) = (topic.clone(), stop.clone());
            tokio::spawn(async move { topic.run(stop).await });
        }
        let began = Instant::now();
        for topic in &topics {
            until_received(topic, began).await;
        }
        for at in 0..20 {
            topics[at % 2]
                .publish(&message(&at.to_string()))
                .await
                .unwrap();
        }
        for receiver in &mut receivers {
            assert_eq!(receiver.recv().await.unwrap(), ControlMessage::Missed);
            for at in 0..20 {
                assert_eq!(receiver.recv().await.unwrap(), message(&at.to_string()));
            }
        }
        let published = Instant::now();
        for topic in &topics {
            until_received(topic, published).await;
        }
        stop.cancel();
    }

    #[tokio::test]
    async fn a_record_that_is_no_message_is_skipped_and_the_watermark_stands_still_without_the_topic()
     {
        let log = MemoryLog::new(1);
        let stop = CancellationToken::new();
        let topic = topic(&log);
        let mut receiver = topic.subscribe();
        let running = tokio::spawn({
            let (topic, stop) = (topic.clone(), stop.clone());
            async move { topic.run(stop).await }
        });
        until_received(&topic, Instant::now()).await;
        let nonsense = Record {
            key: Bytes::new(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"{"),
        };
        log.append_to(0, nonsense).await.unwrap();
        let changed = ControlMessage::Changed {
            what: Changed::Prices,
        };
        topic.publish(&changed).await.unwrap();
        assert_eq!(receiver.recv().await.unwrap(), ControlMessage::Missed);
        assert_eq!(receiver.recv().await.unwrap(), changed);
        stop.cancel();
        running.await.unwrap();
        let still = topic.received_until();
        log.append_to(
            0,
            Record {
                key: Bytes::new(),
                headers: Vec::new(),
                payload: Bytes::new(),
            },
        )
        .await
        .unwrap();
        assert_eq!(topic.received_until(), still);
    }
}
