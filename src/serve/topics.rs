//! The logs of a process: in its data folder, or topics of Kafka.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use eventlog::{EmbeddedConfig, EmbeddedLog, KafkaConfig, KafkaLog, Log, LogError};
use prometheus::Registry;

use super::Running;
use super::health::Part;
use super::late_log::{Expected, LateLog};
use super::metered::{LogName, Metered};
use crate::config::kafka::KafkaSettings;

/// Pause before brokers that did not answer are asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Topics {
    pub(crate) events: Arc<dyn Log>,
    pub(crate) dead_letters: Arc<dyn Log>,
    /// Control messages, if there can be several processes.
    pub(crate) control: Option<Arc<dyn Log>>,
    /// Accepted records that are missing from the logs.
    pub(crate) losses: u64,
    /// Topics that are not open yet.
    late: Vec<Late>,
}

#[derive(Clone)]
struct Late {
    log: LateLog,
    config: KafkaConfig,
    registry: Registry,
}

impl Late {
    fn new(config: KafkaConfig, registry: &Registry) -> Self {
        let expected = Expected {
            topic: config.topic.clone(),
            partitions: config.partitions,
            max_record_bytes: config.max_record_bytes,
        };
        Self {
            log: LateLog::new(expected),
            config,
            registry: registry.clone(),
        }
    }

    /// Opens it, with retries while the brokers are away.
    async fn reach(&self, running: &Running) -> anyhow::Result<()> {
        let topic = &self.config.topic;
        let mut told = false;
        loop {
            match open(self.config.clone(), &self.registry).await {
                Ok(log) => {
                    self.log.opened(log);
                    return Ok(());
                }
                Err(error) if error.is_retryable() => {
                    running.health.missing(Part::Log, "Kafka does not answer");
                    if !told {
                        tracing::warn!(error.message = %error, log.topic = topic, "Kafka does not answer; retrying");
                    }
                    told = true;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot open the topic {topic}"));
                }
            }
        }
    }
}

pub(crate) async fn open(
    config: KafkaConfig,
    registry: &Registry,
) -> Result<Arc<dyn Log>, LogError> {
    Ok(Arc::new(KafkaLog::open(config, registry).await?))
}

/// The embedded log of dead letters, beside the log of events.
pub(crate) fn dead_letters(events: &EmbeddedConfig) -> EmbeddedConfig {
    EmbeddedConfig {
        folder: events.folder.with_file_name("dead-letters"),
        partitions: 1,
        // No reader follows it closely, so it needs no tail in memory.
        max_tail_bytes: 0,
        ..events.clone()
    }
}

impl Topics {
    /// Opens the embedded logs of events and dead letters. Blocks.
    pub(crate) fn embedded(config: &EmbeddedConfig, metered: &Metered) -> anyhow::Result<Self> {
        let events = EmbeddedLog::open(config.clone(), metered.of(LogName::Events))
            .context("cannot open the log")?;
        let dead_letters = dead_letters(config);
        let dead_letters = EmbeddedLog::open(dead_letters, metered.of(LogName::DeadLetter))
            .context("cannot open the dead letters")?;
        let losses = [&events, &dead_letters].map(|log| log.losses().iter());
        let losses = losses.into_iter().flatten();
        Ok(Self {
            losses: losses.map(|loss| loss.records().unwrap_or(1)).sum(),
            events: Arc::new(events),
            dead_letters: Arc::new(dead_letters),
            control: None,
            late: Vec::new(),
        })
    }

    /// The topics of a deployment, which [`Topics::reach`] opens.
    pub(crate) fn of_kafka(settings: &KafkaSettings, metered: &Metered) -> Self {
        let late = [
            Late::new(settings.events(), &metered.own),
            Late::new(settings.dead_letters(), &metered.own),
            Late::new(settings.control(), &metered.own),
        ];
        let [events, dead_letters, control] = late.each_ref().map(|late| late.log.clone());
        Self {
            events: Arc::new(events),
            dead_letters: Arc::new(dead_letters),
            control: Some(Arc::new(control)),
            losses: 0,
            late: late.into(),
        }
    }

    /// Opens the remaining topics, with retries while the brokers are away.
    ///
    /// # Errors
    /// Topics or settings that do not fit; an operator has to act.
    pub(crate) async fn reach(&self, running: &Running) -> anyhow::Result<()> {
        for late in &self.late {
            late.reach(running).await?;
        }
        running.health.ready(Part::Log);
        Ok(())
    }

    pub(crate) async fn close(&self) {
        tokio::join!(self.events.close(), self.dead_letters.close(), async {
            if let Some(control) = &self.control {
                control.close().await;
            }
        });
    }
}
