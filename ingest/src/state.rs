//! What every request shares.

use std::sync::Arc;

use eventlog::Log;
use prometheus::Registry;

use crate::append::Appender;
use crate::auth::Authenticator;
use crate::config::IngestConfig;
use crate::days::OldDays;
use crate::error::IngestError;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::rate::Rates;
use crate::run_apps::{RunApps, RunLookup};

/// The parts of the tier; clones share them.
#[derive(Clone)]
pub struct IngestState(pub(crate) Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) config: IngestConfig,
    pub(crate) auth: Arc<dyn Authenticator>,
    pub(crate) appender: Arc<Appender>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) key_rates: Option<Rates>,
    pub(crate) keyless_rates: Option<Rates>,
    pub(crate) old_days: Option<OldDays>,
    pub(crate) run_apps: Arc<RunApps>,
    pub(crate) metrics: Metrics,
}

/// Events since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Durable in the log, with or without a response, duplicates included.
    pub accepted: u64,
    /// Rejected individually.
    pub rejected: u64,
}

impl IngestState {
    pub fn counts(&self) -> Counts {
        Counts {
            accepted: self.0.metrics.appended.get(),
            rejected: self.0.metrics.rejected_total(),
        }
    }

    /// Checks the settings, registers the metrics and puts the parts together.
    pub fn new(
        config: IngestConfig,
        log: Arc<dyn Log>,
        auth: Arc<dyn Authenticator>,
        runs: Arc<dyn RunLookup>,
        registry: &Registry,
    ) -> Result<Self, IngestError> {
        let faults = config.faults();
        if !faults.is_empty() {
            return Err(IngestError::Config(faults));
        }
        let metrics = Metrics::new(registry)?;
        Ok(Self(Arc::new(Parts {
            auth,
            appender: Arc::new(Appender::new(log, metrics.clone())),
            in_flight: InFlight::new(config.in_flight_bytes, metrics.in_flight_bytes.clone()),
            key_rates: Rates::new(config.key_events_per_second, config.burst),
            keyless_rates: Rates::new(config.keyless_events_per_second, config.burst),
            old_days: OldDays::new(config.old_days_per_second),
            run_apps: Arc::new(RunApps::new(runs)),
            metrics,
            config,
        })))
    }
}
