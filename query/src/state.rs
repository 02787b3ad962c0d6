//! What every request shares.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{HistogramOpts, HistogramVec, Registry};
use schemas::control::CacheReport;
use schemas::fault::Fault;
use store::Store;
use store::builds::Builds;
use store::credentials::Credentials;
use store::instances::Instances;
use store::prices::Prices;
use store::shares::Shares;
use tokio::sync::watch;

use crate::access::{Caller, Identity, IdentityConfig, IdentityMetrics};
use crate::error::QueryError;
use crate::export::Exports;
use crate::letters::DeadLetters;
use crate::live;
use crate::platform::pipeline::LogLook;
use crate::platform::process::{Checks, Registry as BuildRegistry, Starts};
use crate::platform::scan::{ScanConfig, Scanner};
use crate::platform::{Infrastructure, Processes};
use crate::reporter::Reporter;
use crate::session::{SessionRules, SignIns};

/// Seconds after which a client may ask again where nothing takes events: another server may answer.
const NO_REPORTER_RETRY_S: u32 = 30;

/// The tier's parts, made once; clones share them.
#[derive(Clone)]
pub struct QueryState(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    store: Store,
    credentials: Credentials,
    prices: Prices,
    request_seconds: HistogramVec,
    streams: Shares,
    stopping: watch::Sender<bool>,
    exports: Exports,
    reporter: Option<Arc<dyn Reporter>>,
    dead_letters: Option<Arc<dyn DeadLetters>>,
    processes: Option<Arc<dyn Processes>>,
    identity: Option<Identity>,
    identity_metrics: IdentityMetrics,
    sessions: Arc<SessionRules>,
    sign_ins: Arc<SignIns>,
    builds: Arc<BuildRegistry>,
    starts: Arc<Starts>,
    checks: Checks,
    infrastructure: Option<Arc<dyn Infrastructure>>,
    scanner: Arc<Scanner>,
    log_look: Arc<LogLook>,
}

impl QueryState {
    /// Registers the metrics and puts the parts together.
    pub fn new(
        store: Store,
        credentials: Credentials,
        prices: Prices,
        registry: &Registry,
    ) -> Result<Self, QueryError> {
        let options = HistogramOpts::new(
            "spindle_query_request_seconds",
            "Time from a request of the query tier to its answer, by route and class of status",
        )
        .buckets(vec![
            0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
        ]);
        let request_seconds = HistogramVec::new(options, &["route", "status"])?;
        registry.register(Box::new(request_seconds.clone()))?;
        let builds = BuildRegistry::new(Builds::new(store.clone()));
        let starts = Starts::new(Instances::new(store.clone()));
        Ok(Self(Arc::new(Parts {
            store,
            credentials,
            prices,
            request_seconds,
            streams: live::streams(),
            stopping: watch::Sender::new(false),
            exports: Exports::new(registry)?,
            reporter: None,
            dead_letters: None,
            processes: None,
            identity: None,
            identity_metrics: IdentityMetrics::register(registry)?,
            sessions: Arc::new(SessionRules::default()),
            sign_ins: Arc::default(),
            builds: Arc::new(builds),
            starts: Arc::new(starts),
            checks: Checks::new(),
            infrastructure: None,
            scanner: Arc::new(Scanner::new(ScanConfig::default())),
            log_look: Arc::default(),
        })))
    }

    /// Ends every stream: they would otherwise hold their connections for as long as their clients like.
    pub fn end_streams(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Permits for streams.
    pub(crate) fn streams(&self) -> &Shares {
        &self.0.streams
    }

    /// Becomes true when streams have to end.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// Hands what people do with runs to this reporter. Without one, such requests are a 503.
    #[must_use]
    pub fn reporting_to(self, reporter: Arc<dyn Reporter>) -> Self {
        Self(Arc::new(Parts {
            reporter: Some(reporter),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn reporter(&self) -> Result<&dyn Reporter, Fault> {
        let reporter = self.0.reporter.as_deref();
        reporter.ok_or_else(|| {
            let message = "this server takes no events; ask one that does";
            Fault::unavailable(message, NO_REPORTER_RETRY_S)
        })
    }

    /// Asks these for dead letters. Without them, such requests are a 503.
    #[must_use]
    pub fn with_dead_letters(self, dead_letters: Arc<dyn DeadLetters>) -> Self {
        Self(Arc::new(Parts {
            dead_letters: Some(dead_letters),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn dead_letters(&self) -> Result<&dyn DeadLetters, Fault> {
        let dead_letters = self.0.dead_letters.as_deref();
        dead_letters.ok_or_else(|| {
            let message = "this server keeps no dead letters; ask one that does";
            Fault::unavailable(message, NO_REPORTER_RETRY_S)
        })
    }

    /// Learns of the other processes from these, and has caches emptied by them. Without them, such requests are a 503.
    #[must_use]
    pub fn with_processes(self, processes: Arc<dyn Processes>) -> Self {
        Self(Arc::new(Parts {
            processes: Some(processes),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn processes(&self) -> Result<&dyn Processes, Fault> {
        let processes = self.0.processes.as_deref();
        processes.ok_or_else(|| {
            let message = "this server knows nothing of processes; ask one that does";
            Fault::unavailable(message, NO_REPORTER_RETRY_S)
        })
    }

    /// Lets in people for whom this identity provider vouches. Without one, only keys and tokens of ours are good.
    ///
    /// # Errors
    /// When there can be no client for it.
    pub fn with_identity(self, config: IdentityConfig) -> Result<Self, QueryError> {
        let metrics = self.0.identity_metrics.clone();
        Ok(Self(Arc::new(Parts {
            identity: Some(Identity::new(config, metrics)?),
            ..Parts::clone(&self.0)
        })))
    }

    /// The identity provider, if there is one.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_ref()
    }

    /// Signs people in as these rules say.
    #[must_use]
    pub fn signing_in(self, rules: SessionRules) -> Self {
        Self(Arc::new(Parts {
            sessions: Arc::new(rules),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn sign_ins(&self) -> &SignIns {
        &self.0.sign_ins
    }

    pub(crate) fn sessions(&self) -> &SessionRules {
        &self.0.sessions
    }

    /// Starts processes in these builds, which somebody else keeps fresh.
    #[must_use]
    pub fn with_builds(self, builds: Builds) -> Self {
        Self(Arc::new(Parts {
            builds: Arc::new(BuildRegistry::new(builds)),
            ..Parts::clone(&self.0)
        }))
    }

    /// How the cache of builds and their compiled schemas is doing.
    pub fn build_cache(&self) -> CacheReport {
        self.0.builds.report()
    }

    /// Empties the cache of builds; the next starts ask the database.
    pub fn clear_builds(&self) {
        self.0.builds.clear();
    }

    pub(crate) fn registry(&self) -> &BuildRegistry {
        &self.0.builds
    }

    pub(crate) fn starts(&self) -> &Starts {
        &self.0.starts
    }

    /// Where schemas are compiled and inputs held against them.
    pub(crate) fn checks(&self) -> &Checks {
        &self.0.checks
    }

    /// Lets scans look at what is beside the tables. Without, they say that it is not known.
    #[must_use]
    pub fn with_infrastructure(self, infrastructure: Arc<dyn Infrastructure>) -> Self {
        Self(Arc::new(Parts {
            infrastructure: Some(infrastructure),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn infrastructure(&self) -> Option<&dyn Infrastructure> {
        self.0.infrastructure.as_deref()
    }

    pub(crate) fn log_look(&self) -> &LogLook {
        &self.0.log_look
    }

    /// Scans the platform as these settings say.
    #[must_use]
    pub fn scanning(self, config: ScanConfig) -> Self {
        Self(Arc::new(Parts {
            scanner: Arc::new(Scanner::new(config)),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn scanner(&self) -> &Scanner {
        &self.0.scanner
    }

    /// The same, whose reads count for this caller.
    pub(crate) fn on_behalf_of(&self, caller: &Caller) -> Self {
        Self(Arc::new(Parts {
            store: self.0.store.on_behalf_of(caller.holder()),
            ..Parts::clone(&self.0)
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.0.exports
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }

    pub(crate) fn prices(&self) -> &Prices {
        &self.0.prices
    }
}

/// Measures a request. Only routes of this tier come here, so the labels are few.
pub(crate) async fn measured(
    State(state): State<QueryState>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let class = match response.status().as_u16() {
        ..400 => "ok",
        400..500 => "refused",
        _ => "failed",
    };
    let labels = [route.as_deref().unwrap_or("none"), class];
    state
        .0
        .request_seconds
        .with_label_values(&labels)
        .observe(started.elapsed().as_secs_f64());
    response
}

/// Now, Unix milliseconds: the one place of this tier that asks the clock.
pub(crate) fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}
