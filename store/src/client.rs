//! The connection to ClickHouse.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::Client;
use tokio::sync::{Mutex, Semaphore};

use crate::cluster::{Cluster, ReplicaCount};
use crate::config::{Compression, StoreConfig};
use crate::error::StoreError;
use crate::inserts::fence::Fence;
use crate::jobs::JobChanges;
use crate::losses::Losses;
use crate::metrics::Metrics;
use crate::replicas::{self, Replicas};
use crate::shares::{Holder, Share, ShareBounds, Shares};

/// Of so many reads, one is left for the server's own: credentials, prices, and the look-ups of processing.
const OWN_READS_PART: usize = 4;
/// Reads of one credential that wait (X1): those of some pages of the web UI, which asks for several things at once.
const READS_WAITING: usize = 64;

/// A handle on one ClickHouse database. Cheap to clone; connections are shared and made when needed.
#[derive(Clone)]
pub struct Store {
    pub(crate) client: Client,
    pub(crate) config: Arc<StoreConfig>,
    pub(crate) metrics: Metrics,
    pub(crate) reads: Arc<Semaphore>,
    /// Those of them that tenants share; see [`Store::on_behalf_of`].
    pub(crate) tenants: Shares,
    /// Whom reads are for; `None` for the server itself.
    pub(crate) holder: Option<Arc<Holder>>,
    /// Counts what happened to jobs, for their runner in the same process; see [`crate::jobs`].
    pub(crate) job_changes: Arc<JobChanges>,
    /// One change of a job at a time: each is a look and then a write.
    pub(crate) job_turn: Arc<Mutex<()>>,
    /// What is missing of what was stored; see [`crate::losses`].
    pub(crate) losses: Arc<Losses>,
    /// The table of runs that a processor's look-ups and inserts go to: `runs`, but for a rebuild.
    pub(crate) runs: &'static str,
    /// When what is inserted must be stored at the latest; see [`Store::with_deadline`].
    pub(crate) until: Option<Instant>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) replica_count: Arc<ReplicaCount>,
    /// Those to choose from, where there are several.
    pub(crate) replicas: Option<Arc<Replicas>>,
}

/// Numbers for the report on the database in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Reads under way.
    pub active: usize,
    /// Reads that could start at once.
    pub idle: usize,
    /// The bound on reads.
    pub max: usize,
}

impl Store {
    /// Prepares the handle. Makes no connection: a server that is away is no reason not to start.
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
        let client = replicas.as_ref().map(replicas::client);
        let mut client = client
            .unwrap_or_default()
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
            job_changes: Arc::default(),
            job_turn: Arc::default(),
            losses: Arc::default(),
            runs: "runs",
            until: None,
            fence: Arc::default(),
            replica_count: Arc::default(),
            replicas,
        })
    }

    /// The same store, whose reads count for this holder: a tenant has at most half of the reads there may be, and a
    /// credential half of those. A quarter of all is left for the server's own reads.
    #[must_use]
    pub fn on_behalf_of(&self, holder: Holder) -> Self {
        Self {
            holder: Some(Arc::new(holder)),
            ..self.clone()
        }
    }

    /// The share that a read takes beside its place among all.
    ///
    /// # Errors
    /// [`StoreError::OverShare`] when too many reads of the credential wait already.
    pub(crate) async fn share(&self) -> Result<Option<Share>, StoreError> {
        let Some(holder) = &self.holder else {
            return Ok(None);
        };
        let share = self.tenants.take(holder).await;
        share
            .map(Some)
            .map_err(|_| StoreError::OverShare(READS_WAITING))
    }

    /// The settings in use.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Whether the server answers a query now.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.server_version().await.map(|_| ())
    }

    /// The server's version.
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

    /// How many reads are under way and how many there may be.
    pub fn connections(&self) -> Connections {
        let max = self.config.max_connections.max(1);
        let idle = self.reads.available_permits().min(max);
        Connections {
            active: max - idle,
            idle,
            max,
        }
    }

    /// A statement without a result: migrations and administration only, never with text from outside.
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
