//! The connection to ClickHouse.

pub(crate) mod cluster;
pub(crate) mod config;
mod http;
pub(crate) mod process_state;
pub(crate) mod query;
pub(crate) mod replicas;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::Client;
use tokio::sync::Semaphore;

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::recent_pages::RecentPages;
use crate::shares::{Holder, Share, ShareBounds, Shares};
use cluster::{Cluster, ReplicaCount};
use config::{Compression, StoreConfig};
use process_state::{JobSignals, KnownLosses};
use replicas::Replicas;
use server::ServerFacts;

/// One part of so many reads is reserved for the server: credentials, prices, and the look-ups of processing.
const OWN_READS_PART: usize = 4;
/// Queued reads of one credential (X1): enough for some pages of the web UI, which sends several reads at once.
const READS_WAITING: usize = 64;

/// A handle on one ClickHouse database. Cheap to clone; connections are shared and opened on demand.
#[derive(Clone)]
pub struct Store {
    pub(crate) client: Client,
    pub(crate) config: Arc<StoreConfig>,
    pub(crate) metrics: Metrics,
    pub(crate) reads: Arc<Semaphore>,
    /// The part of `reads` that tenants share; see [`Store::on_behalf_of`].
    pub(crate) tenants: Shares,
    /// The holder that reads count for; `None` for the server.
    pub(crate) holder: Option<Arc<Holder>>,
    pub(crate) jobs: Arc<JobSignals>,
    pub(crate) losses: Arc<KnownLosses>,
    pub(crate) recent_pages: Arc<RecentPages>,
    /// The table of a processor's look-ups and inserts of runs: `runs`, except in a rebuild.
    pub(crate) runs: &'static str,
    /// See [`Store::in_background`].
    pub(crate) is_background: bool,
    /// Deadline of inserts; see [`Store::with_deadline`].
    pub(crate) until: Option<Instant>,
    pub(crate) server: Arc<ServerFacts>,
    pub(crate) replica_count: Arc<ReplicaCount>,
    /// Present where there are several replicas.
    pub(crate) replicas: Option<Arc<Replicas>>,
}

/// Concurrent reads, for the report on the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Reads in progress.
    pub active: usize,
    /// Reads that could start at once.
    pub idle: usize,
    /// The bound on reads.
    pub max: usize,
}

impl Store {
    /// Opens no connection: a server that is away is no reason not to start.
    pub fn connect(config: StoreConfig, metrics: Metrics) -> Result<Self, StoreError> {
        let name = &config.database;
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err(StoreError::Invalid(format!(
                "`{name}` is no name for a database: letters, digits and _ only"
            )));
        }
        let replicas = match config.more_urls.is_empty() {
            true => None,
            false => {
                let urls = [&config.url].into_iter().chain(&config.more_urls);
                Some(Replicas::new(urls.map(String::as_str), metrics.clone())?)
            }
        };
        let client = match &replicas {
            Some(replicas) => replicas::client(replicas),
            None => http::client(http::connector()),
        };
        let mut client = client
            .with_url(&config.url)
            .with_user(&config.user)
            .with_database(name)
            .with_product_info("spindle", env!("CARGO_PKG_VERSION"))
            .with_validation(false)
            .with_compression(match config.compression {
                Compression::None => clickhouse::Compression::None,
                Compression::Lz4 => clickhouse::Compression::Lz4,
            });
        if !config.password.reveal().is_empty() {
            client = client.with_password(config.password.reveal());
        }
        if let Some(cluster) = &config.cluster {
            cluster.check()?;
        }
        for (name, value) in config.cluster.iter().flat_map(Cluster::settings) {
            client = client.with_setting(name, value);
        }
        let max = config.max_connections.max(1);
        let reads = Arc::new(Semaphore::new(max));
        let for_tenants = max - max / OWN_READS_PART;
        let tenants = Shares::new(ShareBounds::halves(for_tenants, READS_WAITING));
        Ok(Self {
            client,
            config: Arc::new(config),
            metrics,
            reads,
            tenants,
            holder: None,
            jobs: Arc::default(),
            losses: Arc::default(),
            recent_pages: Arc::default(),
            runs: "runs",
            is_background: false,
            until: None,
            server: Arc::default(),
            replica_count: Arc::default(),
            replicas,
        })
    }

    /// The same store, whose reads count for this holder: a tenant has at most half of all reads, and a credential half
    /// of the tenant's. A quarter of all is reserved for the server's own reads.
    #[must_use]
    pub fn on_behalf_of(&self, holder: Holder) -> Self {
        Self {
            holder: Some(Arc::new(holder)),
            ..self.clone()
        }
    }

    /// The same store, whose reads yield to all others: between two blocks they wait for a moment while other reads run.
    #[must_use]
    pub fn in_background(&self) -> Self {
        Self {
            is_background: true,
            ..self.clone()
        }
    }

    /// The share that a read takes besides its permit among all reads.
    ///
    /// # Errors
    /// [`StoreError::OverShare`] when too many reads of the credential are queued.
    pub(crate) async fn share(&self) -> Result<Option<Share>, StoreError> {
        let Some(holder) = &self.holder else {
            return Ok(None);
        };
        let share = self.tenants.take(holder).await;
        share
            .map(Some)
            .map_err(|_| StoreError::OverShare(READS_WAITING))
    }

    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Fails if the server answers no query now.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.server_version().await.map(|_| ())
    }

    pub async fn server_version(&self) -> Result<String, StoreError> {
        let limit = Duration::from_secs(5);
        let answer = self
            .client
            .clone()
            .with_database("system")
            .query_raw("SELECT version()")
            .fetch_one::<String>();
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    pub fn connections(&self) -> Connections {
        let max = self.config.max_connections.max(1);
        let idle = self.reads.available_permits().min(max);
        Connections {
            active: max - idle,
            idle,
            max,
        }
    }

    /// Executes a statement without a result: migrations and administration only, never with text from outside.
    pub(crate) async fn execute(&self, sql: &str, limit: Duration) -> Result<(), StoreError> {
        let seconds = limit.as_secs().max(1).to_string();
        let statement = self
            .client
            .query_raw(sql)
            .with_setting("max_execution_time", seconds)
            .execute();
        match tokio::time::timeout(limit + Duration::from_secs(2), statement).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }
}
