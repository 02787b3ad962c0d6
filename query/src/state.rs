//! The state of the tier, and the part of it that each feature uses.
//!
//! A handler takes the state of its feature; only this module knows the states of all features.

use std::sync::Arc;

use axum::extract::FromRef;
use prometheus::Registry;
use schemas::control::CacheReport;
use store::Store;
use store::credentials::Credentials;
use store::platform::builds::Builds;
use store::prices::Prices;

use crate::access::{Authenticator, Identity, IdentityConfig, SessionRules};
use crate::admin::cache::CacheState;
use crate::admin::jobs::JobState;
use crate::admin::pipeline::{CachedLog, PipelineState};
use crate::error::QueryError;
use crate::export::{ExportState, Exports};
use crate::metrics::RequestMetrics;
use crate::platform::process::{ProcessRuntime, ProcessState, Registry as BuildRegistry};
use crate::platform::scan::{ScanConfig, ScanState, ScanTargets, Scanner};
use crate::ports::Port;
use crate::ports::dead_letters::DeadLetters;
use crate::ports::infrastructure::Infrastructure;
use crate::ports::processes::Processes;
use crate::ports::reporter::Reporter;
use crate::runs::live::{LiveState, LiveStreams};
use crate::runs::user_event::UserEventState;
use crate::sessions::{SessionState, SignIns};

/// The state of the tier. Clones share it.
#[derive(Clone)]
pub struct QueryState {
    store: Store,
    prices: Prices,
    authenticator: Authenticator,
    sign_ins: SignIns,
    ports: Ports,
    exports: Exports,
    streams: LiveStreams,
    processes: ProcessRuntime,
    scanner: Arc<Scanner>,
    cached_log: CachedLog,
    pub(crate) metrics: RequestMetrics,
}

#[derive(Clone, Default)]
struct Ports {
    reporter: Port<dyn Reporter>,
    dead_letters: Port<dyn DeadLetters>,
    processes: Port<dyn Processes>,
    infrastructure: Port<dyn Infrastructure>,
}

impl QueryState {
    /// Registers the metrics. No port is connected.
    ///
    /// # Errors
    /// When a metric is registered twice.
    pub fn new(
        store: Store,
        credentials: Credentials,
        prices: Prices,
        registry: &Registry,
    ) -> Result<Self, QueryError> {
        Ok(Self {
            authenticator: Authenticator::new(credentials, registry)?,
            sign_ins: SignIns::default(),
            ports: Ports::default(),
            exports: Exports::new(registry)?,
            streams: LiveStreams::default(),
            processes: ProcessRuntime::new(&store),
            scanner: Arc::new(Scanner::new(ScanConfig::default())),
            cached_log: CachedLog::default(),
            metrics: RequestMetrics::register(registry)?,
            store,
            prices,
        })
    }

    /// Ends all live streams: they would hold their connections until their clients disconnect.
    pub fn end_streams(&self) {
        self.streams.end();
    }

    /// Reports feedback, saves and process starts to this reporter. Without one, these requests are a 503.
    #[must_use]
    pub fn reporting_to(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.ports.reporter = Port::to(reporter);
        self
    }

    /// Lists and redrives dead letters there. Without it, these requests are a 503.
    #[must_use]
    pub fn with_dead_letters(mut self, dead_letters: Arc<dyn DeadLetters>) -> Self {
        self.ports.dead_letters = Port::to(dead_letters);
        self
    }

    /// Lists processes and clears their caches there. Without it, these requests are a 503.
    #[must_use]
    pub fn with_processes(mut self, processes: Arc<dyn Processes>) -> Self {
        self.ports.processes = Port::to(processes);
        self
    }

    /// Reads the state of the log and the disk there. Without it, scans report them as unknown.
    #[must_use]
    pub fn with_infrastructure(mut self, infrastructure: Arc<dyn Infrastructure>) -> Self {
        self.ports.infrastructure = Port::to(infrastructure);
        self
    }

    /// Accepts JWTs of this identity provider. Without one, only keys and tokens of this deployment are valid.
    ///
    /// # Errors
    /// When its HTTP client cannot be built.
    pub fn with_identity(mut self, config: IdentityConfig) -> Result<Self, QueryError> {
        self.authenticator.set_identity(config)?;
        Ok(self)
    }

    pub fn identity(&self) -> Option<&Identity> {
        self.authenticator.identity()
    }

    /// Sets the session rules.
    #[must_use]
    pub fn signing_in(mut self, rules: SessionRules) -> Self {
        self.authenticator.set_sessions(rules);
        self
    }

    /// Reads builds here; the binary refreshes them.
    #[must_use]
    pub fn with_builds(mut self, builds: Builds) -> Self {
        self.processes.registry = Arc::new(BuildRegistry::new(builds));
        self
    }

    /// State of the cache of builds and their compiled schemas.
    pub fn build_cache(&self) -> CacheReport {
        self.processes.registry.report()
    }

    pub fn clear_builds(&self) {
        self.processes.registry.clear();
    }

    /// Scans the platform with these settings.
    #[must_use]
    pub fn scanning(mut self, config: ScanConfig) -> Self {
        self.scanner = Arc::new(Scanner::new(config));
        self
    }
}

impl FromRef<QueryState> for Store {
    fn from_ref(state: &QueryState) -> Self {
        state.store.clone()
    }
}

impl FromRef<QueryState> for Credentials {
    fn from_ref(state: &QueryState) -> Self {
        state.authenticator.credentials().clone()
    }
}

impl FromRef<QueryState> for Prices {
    fn from_ref(state: &QueryState) -> Self {
        state.prices.clone()
    }
}

impl FromRef<QueryState> for Authenticator {
    fn from_ref(state: &QueryState) -> Self {
        state.authenticator.clone()
    }
}

impl FromRef<QueryState> for Port<dyn DeadLetters> {
    fn from_ref(state: &QueryState) -> Self {
        state.ports.dead_letters.clone()
    }
}

impl FromRef<QueryState> for Port<dyn Processes> {
    fn from_ref(state: &QueryState) -> Self {
        state.ports.processes.clone()
    }
}

impl FromRef<QueryState> for SessionState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            authenticator: state.authenticator.clone(),
            sign_ins: state.sign_ins.clone(),
        }
    }
}

impl FromRef<QueryState> for UserEventState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            store: state.store.clone(),
            reporter: state.ports.reporter.clone(),
        }
    }
}

impl FromRef<QueryState> for ExportState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            store: state.store.in_background(),
            exports: state.exports.clone(),
            authenticator: state.authenticator.clone(),
        }
    }
}

impl FromRef<QueryState> for LiveState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            store: state.store.clone(),
            streams: state.streams.clone(),
            authenticator: state.authenticator.clone(),
        }
    }
}

impl FromRef<QueryState> for JobState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            store: state.store.clone(),
            credentials: state.authenticator.credentials().clone(),
            prices: state.prices.clone(),
        }
    }
}

impl FromRef<QueryState> for CacheState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            authenticator: state.authenticator.clone(),
            processes: state.ports.processes.clone(),
        }
    }
}

impl FromRef<QueryState> for PipelineState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            infrastructure: state.ports.infrastructure.clone(),
            processes: state.ports.processes.clone(),
            log: state.cached_log.clone(),
        }
    }
}

impl FromRef<QueryState> for ProcessState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            store: state.store.clone(),
            credentials: state.authenticator.credentials().clone(),
            reporter: state.ports.reporter.clone(),
            runtime: state.processes.clone(),
        }
    }
}

impl FromRef<QueryState> for ScanState {
    fn from_ref(state: &QueryState) -> Self {
        Self {
            scanner: state.scanner.clone(),
            targets: ScanTargets {
                store: state.store.clone(),
                infrastructure: state.ports.infrastructure.clone(),
                processes: state.ports.processes.clone(),
            },
        }
    }
}
