//! The log as a topic of Kafka.

mod config;

pub use config::{Compression, KafkaConfig};

use crate::LogError;

/// A topic of Kafka. Clones are the same log.
#[derive(Clone)]
pub struct KafkaLog {
    config: std::sync::Arc<KafkaConfig>,
}

impl KafkaLog {
    /// Makes the topic or checks it, and opens it.
    pub async fn open(
        config: KafkaConfig,
        _registry: &prometheus::Registry,
    ) -> Result<Self, LogError> {
        Ok(Self {
            config: std::sync::Arc::new(config),
        })
    }

    /// The settings in use.
    pub fn config(&self) -> &KafkaConfig {
        &self.config
    }
}
