//! Words between the processes of a deployment: over a topic of the log, or within the one process there is.

mod hearing;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use eventlog::{Fetch, Log, LogError, Position, Record, StoredRecord};
use processor::Control;
use prometheus::{IntCounter, IntGauge, Registry};
use schemas::control::Word;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use hearing::{From, Hearing};

/// Words that a listener may be behind before it is told that it missed some (X1): minutes of them in a deployment of
/// some processes, twenty seconds in one of a hundred.
const WORDS: usize = 1024;
/// One partition holds all words, so that all processes hear them in one order.
const PARTITION: u32 = 0;
/// How long one read waits for a word, and how often the end of the topic is asked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause before the topic is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Bytes of one read: hundreds of words.
const READ_BYTES: usize = 256 << 10;

/// The control of a deployment that is this process alone.
pub(crate) struct Alone {
    words: broadcast::Sender<Word>,
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            words: broadcast::Sender::new(WORDS),
        }
    }
}

#[async_trait]
impl Control for Alone {
    async fn say(&self, word: &Word) -> Result<(), LogError> {
        // Without a listener there is nobody to tell.
        let _ = self.words.send(word.clone());
        Ok(())
    }

    fn listen(&self) -> broadcast::Receiver<Word> {
        self.words.subscribe()
    }

    fn heard_until(&self) -> Instant {
        Instant::now()
    }
}

/// What is counted.
#[derive(Clone)]
struct Metrics {
    said: IntCounter,
    heard: IntCounter,
    silent_seconds: IntGauge,
}

impl Metrics {
    fn new(registry: &Registry) -> anyhow::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            anyhow::Ok(counter)
        };
        let silent_seconds = IntGauge::new(
            "spindle_control_silent_seconds",
            "Time since this process last knew that it had heard every word on the control topic",
        )?;
        registry.register(Box::new(silent_seconds.clone()))?;
        Ok(Self {
            said: counter(
                "spindle_control_said_words_total",
                "Words said on the control topic",
            )?,
            heard: counter(
                "spindle_control_heard_words_total",
                "Words heard on the control topic",
            )?,
            silent_seconds,
        })
    }
}

/// The control of a deployment of several processes: every word is a record of the control topic.
pub(crate) struct OverLog {
    log: Arc<dyn Log>,
    words: broadcast::Sender<Word>,
    hearing: Mutex<Hearing>,
    metrics: Metrics,
}

impl OverLog {
    /// Over this topic. Nothing is heard before [`OverLog::run`].
    pub(crate) fn new(log: Arc<dyn Log>, registry: &Registry) -> anyhow::Result<Self> {
        let over = Self {
            log,
            words: broadcast::Sender::new(WORDS),
            hearing: Mutex::new(Hearing::new(Instant::now())),
            metrics: Metrics::new(registry).context("the metrics of the control topic clash")?,
        };
        over.measure();
        Ok(over)
    }

    /// Hears until told to stop. While the topic is away, [`Control::heard_until`] stands still.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let heard = tokio::select! {
                heard = self.hear() => heard,
                () = stop.cancelled() => return,
            };
            if let Err(error) = heard {
                tracing::debug!(error.message = %error, "the control topic cannot be heard for now");
            }
            self.measure();
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Hears from where it was left, or from the end if it never was, until the topic fails.
    async fn hear(&self) -> Result<(), LogError> {
        let (asked, bounds) = self.bounds().await?;
        let from = self.with(|hearing| hearing.begin(asked, bounds));
        if let From::TheEnd(_) = from {
            // What was said before is in the tables by now: whoever listens looks there, whatever it was.
            let _ = self.words.send(Word::Missed);
        }
        let at = Position {
            partition: PARTITION,
            offset: from.offset(),
        };
        let mut reader = self.log.reader(vec![at]).await?;
        let fetch = Fetch {
            max_bytes: READ_BYTES,
            max_wait: LOOK_INTERVAL,
        };
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                records = reader.next(fetch) => self.take(records?),
                // Dropping a read loses nothing, so a look never waits for one.
                _ = look.tick() => {
                    let (asked, bounds) = self.bounds().await?;
                    if !self.with(|hearing| hearing.end_is(asked, bounds)) {
                        // The topic was made anew, or what comes next is gone: go on from its end.
                        tracing::warn!("the control topic is not the one it was; words may have been missed");
                        return Ok(());
                    }
                    self.measure();
                }
            }
        }
    }

    fn take(&self, records: Vec<StoredRecord>) {
        for stored in records {
            match serde_json::from_slice::<Word>(&stored.record.payload) {
                Ok(word) => {
                    self.metrics.heard.inc();
                    // Without a listener there is nobody to tell.
                    let _ = self.words.send(word);
                }
                Err(error) => {
                    tracing::warn!(error.message = %error, log.offset = stored.position.offset, "what stands on the control topic is no word");
                }
            }
            // After it was passed on: whoever sees the time move has the word before it.
            self.with(|hearing| hearing.heard(stored.position.offset));
        }
    }

    /// What the topic holds, and when that was asked: everything said before was counted in.
    async fn bounds(&self) -> Result<(Instant, (u64, u64)), LogError> {
        let asked = Instant::now();
        let all = self.log.bounds().await?;
        let found = all.iter().find(|bounds| bounds.partition == PARTITION);
        let missing = || LogError::Settings("the control topic has no partition".to_owned());
        let found = found.ok_or_else(missing)?;
        Ok((asked, (found.begin, found.end)))
    }

    fn measure(&self) {
        let silent = self.heard_until().elapsed().as_secs();
        let silent = i64::try_from(silent).unwrap_or(i64::MAX);
        self.metrics.silent_seconds.set(silent);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Hearing) -> T) -> T {
        // A few numbers: a panic between two of them cannot happen.
        work(&mut self.hearing.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Control for OverLog {
    async fn say(&self, word: &Word) -> Result<(), LogError> {
        let payload = serde_json::to_vec(word)
            .map_err(|error| LogError::Settings(format!("a word cannot be written: {error}")))?;
        let record = Record {
            key: Bytes::new(),
            headers: Vec::new(),
            payload: payload.into(),
        };
        self.log.append_to(PARTITION, record).await?;
        self.metrics.said.inc();
        Ok(())
    }

    fn listen(&self) -> broadcast::Receiver<Word> {
        self.words.subscribe()
    }

    fn heard_until(&self) -> Instant {
        self.with(|hearing| hearing.until())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eventlog::MemoryLog;
    use schemas::control::Changed;

    fn word(name: &str) -> Word {
        Word::Close {
            gate: name.to_owned(),
            for_ms: 1,
            count: 0,
        }
    }

    fn over(log: &MemoryLog) -> Arc<OverLog> {
        Arc::new(OverLog::new(Arc::new(log.clone()), &Registry::new()).unwrap())
    }

    /// The word of one who begins to hear: anything may have changed before.
    const ANYTHING: Word = Word::Missed;

    async fn until_heard(control: &OverLog, since: Instant) {
        let moved = async {
            while control.heard_until() < since {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), moved)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn every_process_hears_every_word_in_one_order_and_none_from_before_it_was_there() {
        let log = MemoryLog::new(1);
        let stop = CancellationToken::new();
        let controls = [over(&log), over(&log)];
        controls[0].say(&word("before")).await.unwrap();
        let mut ears = controls.each_ref().map(|control| control.listen());
        for control in &controls {
            let (control, stop) = (control.clone(), stop.clone());
            tokio::spawn(async move { control.run(stop).await });
        }
        let began = Instant::now();
        for control in &controls {
            until_heard(control, began).await;
        }
        for at in 0..20 {
            controls[at % 2].say(&word(&at.to_string())).await.unwrap();
        }
        for ear in &mut ears {
            assert_eq!(ear.recv().await.unwrap(), ANYTHING);
            for at in 0..20 {
                assert_eq!(ear.recv().await.unwrap(), word(&at.to_string()));
            }
        }
        let said = Instant::now();
        for control in &controls {
            until_heard(control, said).await;
        }
        stop.cancel();
    }

    #[tokio::test]
    async fn what_is_no_word_is_passed_over_and_time_stands_still_while_the_topic_is_away() {
        let log = MemoryLog::new(1);
        let stop = CancellationToken::new();
        let control = over(&log);
        let mut ear = control.listen();
        let running = tokio::spawn({
            let (control, stop) = (control.clone(), stop.clone());
            async move { control.run(stop).await }
        });
        until_heard(&control, Instant::now()).await;
        let nonsense = Record {
            key: Bytes::new(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"{"),
        };
        log.append_to(0, nonsense).await.unwrap();
        let changed = Word::Changed {
            what: Changed::Prices,
        };
        control.say(&changed).await.unwrap();
        assert_eq!(ear.recv().await.unwrap(), ANYTHING);
        assert_eq!(ear.recv().await.unwrap(), changed);
        stop.cancel();
        running.await.unwrap();
        let still = control.heard_until();
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
        assert_eq!(control.heard_until(), still);
    }

    #[tokio::test]
    async fn a_process_alone_hears_itself_at_once() {
        let control = Alone::default();
        let mut ear = control.listen();
        let before = Instant::now();
        control.say(&word("a")).await.unwrap();
        assert_eq!(ear.try_recv().unwrap(), word("a"));
        assert!(control.heard_until() >= before);
    }
}
