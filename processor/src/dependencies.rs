//! The dependencies of a processor, and what its workers share.

use std::sync::Arc;

use eventlog::Log;
use schemas::price::PriceTable;
use tokio::sync::watch;

use crate::config::ProcessorConfig;
use crate::metrics::Metrics;
use crate::status::StatusSender;
use crate::tables::{RetryingTables, Tables};
use control::Barrier;

#[derive(Clone)]
pub struct Dependencies {
    pub log: Arc<dyn Log>,
    /// The log of the dead-letter topic.
    pub dead_letters: Arc<dyn Log>,
    pub tables: Arc<dyn Tables>,
    /// The current price table; a change applies to the next step.
    pub prices: watch::Receiver<Arc<PriceTable>>,
    /// Pauses the workers during work on whole tables.
    pub barrier: Barrier,
}

pub(crate) struct Shared {
    pub(crate) config: ProcessorConfig,
    pub(crate) dependencies: Dependencies,
    pub(crate) metrics: Metrics,
    pub(crate) status: StatusSender,
}

impl Shared {
    /// The tables with retries until the process stops.
    pub(crate) fn retrying_tables(&self, stop: &watch::Receiver<bool>) -> RetryingTables {
        RetryingTables {
            tables: self.dependencies.tables.clone(),
            metrics: self.metrics.clone(),
            status: self.status.clone(),
            pause_max: self.config.retry_pause_max,
            stop: stop.clone(),
        }
    }
}
