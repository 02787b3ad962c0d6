//! The parts of a running server: the logs, ClickHouse, the directory of credentials, the prices, the routers over them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use control::{ControlChannel, ControlTopic, LocalChannel};
use ingest::IngestState;
use prometheus::Registry;
use schemas::control::{CacheReport, EventCounts};
use store::credentials::Credentials;
use store::platform::builds::Builds;
use store::prices::Prices;
use store::{Cluster, Store, StoreConfig};

use super::access::{Directory, StoredRuns};
use super::api::RoutedParts;
use super::deployment::Deployment;
use super::engine::{self, EngineSlot};
use super::folder::DataFolder;
use super::health::Concern;
use super::snapshot::SnapshotFile;
use super::topics::Topics;
use super::{Running, api, full_disk};
use crate::caches::{CacheName, Caches};
use crate::config::Config;

/// The opened parts. Clones share them.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) topics: Topics,
    /// Messages to all processes of the deployment.
    pub(crate) channel: Arc<dyn ControlChannel>,
    pub(crate) deployment: Deployment,
    /// The topic below `channel`, where there can be other processes.
    pub(crate) control_topic: Option<ControlTopic>,
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    /// The file with the keys, where reports have to be accepted without ClickHouse.
    pub(crate) snapshot: Option<Arc<SnapshotFile>>,
    /// Whether the keys were restored from it.
    pub(crate) is_restored: bool,
    pub(crate) prices: Prices,
    /// Builds of applications, where processes are started.
    pub(crate) builds: Builds,
    /// Present where a processor runs.
    pub(crate) processor_metrics: Option<processor::Metrics>,
    pub(crate) router: Router,
}

/// Opens everything; slow parts concurrently, and what may be away is connected later.
pub(crate) async fn open(
    running: &Running,
    folder: Option<&DataFolder>,
    address: SocketAddr,
) -> anyhow::Result<Parts> {
    let registry = &running.metered.own;
    let metrics = store::metrics::Metrics::register(registry)?;
    engine::register_process_metrics(registry, &running.engine)?;
    let processes = running.role.processes();
    let processor_metrics = processes
        .then(|| processor::Metrics::new(registry))
        .transpose()?;

    let topics = {
        let running = running.clone();
        tokio::task::spawn_blocking(move || match &running.config.kafka {
            Some(settings) => Ok(Topics::of_kafka(settings, &running.metered)),
            None => Topics::embedded(&running.config.log, &running.metered),
        })
    };
    let data_dir = folder.map(|folder| folder.path().to_owned());
    let settings = {
        let (running, metrics, data_dir) = (running.clone(), metrics.clone(), data_dir.clone());
        tokio::task::spawn_blocking(move || {
            full_disk::until_there_is_room(&running, data_dir.as_deref(), || {
                let data_dir = data_dir.as_deref();
                store_settings(&running.config, data_dir, &running.engine, metrics.clone())
            })
        })
    };
    let (topics, settings) = tokio::join!(topics, settings);
    let topics = topics.context("opening the log panicked")??;
    let lost = topics.losses;
    let what = format!(
        "at least {lost} accepted records are missing from the event log; the server's log names them"
    );
    running
        .health
        .degraded(Concern::Log, (lost > 0).then_some(what));
    let store = Store::connect(settings.context("starting the engine panicked")??, metrics)?;
    let credentials =
        Credentials::with_failures_per_minute(store.clone(), running.config.failures_per_minute);
    let snapshot = data_dir
        .and_then(|folder| SnapshotFile::of(&folder, running.config.snapshot_max_age))
        .map(Arc::new);
    let is_restored = snapshot
        .as_ref()
        .is_some_and(|snapshot| snapshot.restore(&credentials));
    let prices = Prices::new(store.clone())?;
    let builds = Builds::new(store.clone());
    let control_topic = match &topics.control {
        Some(log) => Some(
            ControlTopic::new(log.clone(), registry)
                .context("the metrics of the control topic clash")?,
        ),
        None => None,
    };
    let channel: Arc<dyn ControlChannel> = match &control_topic {
        Some(topic) => Arc::new(topic.clone()),
        None => Arc::new(LocalChannel::default()),
    };
    let caches = caches(registry, &credentials, &prices, processor_metrics.as_ref())?;
    let deployment = Deployment::new(running, address, control_topic.clone(), caches);
    // Users also rate, which is an event like any other.
    let takes_events = running.role.ingests() || running.role.queries();
    let ingest = || {
        IngestState::new(
            running.config.ingest.clone(),
            topics.events.clone(),
            Arc::new(Directory(credentials.clone())),
            Arc::new(StoredRuns(store.clone())),
            registry,
        )
    };
    let ingest = takes_events.then(ingest).transpose()?;
    let (taken, processed) = (ingest.clone(), processor_metrics.clone());
    deployment.counts_events(move || {
        let (taken, processed) = (taken.as_ref().map(IngestState::counts), processed.as_ref());
        EventCounts {
            accepted: taken.map(|counts| counts.accepted),
            rejected: taken.map(|counts| counts.rejected),
            stored: processed.map(|metrics| metrics.stored_events.get()),
            dead_lettered: processed.map(processor::Metrics::dead_lettered_total),
        }
    });
    let router = api::router(
        running,
        &RoutedParts {
            ingest: ingest.as_ref(),
            topics: &topics,
            store: &store,
            credentials: &credentials,
            prices: &prices,
            deployment: &deployment,
            builds: &builds,
        },
    )?;
    Ok(Parts {
        topics,
        channel,
        deployment,
        control_topic,
        store,
        credentials,
        snapshot,
        is_restored,
        prices,
        builds,
        processor_metrics,
        router,
    })
}

/// Adds the caches of the tables; other caches are added where they are created.
fn caches(
    registry: &Registry,
    credentials: &Credentials,
    prices: &Prices,
    processor: Option<&processor::Metrics>,
) -> anyhow::Result<Caches> {
    let caches = Caches::new(registry)?;
    let (read, again) = (credentials.clone(), credentials.clone());
    let report = move || {
        let stats = read.stats();
        CacheReport {
            name: String::new(),
            entries: stats.entries,
            used_bytes: stats.used_bytes,
            max_bytes: stats.max_bytes,
            hits: stats.hits,
            misses: stats.misses,
        }
    };
    caches.add_read_again(CacheName::Credentials, report, move || {
        let credentials = again.clone();
        async move { credentials.clear().await }
    });
    let (read, again) = (prices.clone(), prices.clone());
    // Only the processor looks prices up.
    let lookups = processor.map(|metrics| metrics.price_lookups.clone());
    let report = move || {
        let (entries, used_bytes, max_bytes) = read.sizes();
        let count = |outcome| {
            let lookups = lookups.as_ref();
            lookups.map_or(0, |lookups| lookups.with_label_values(&[outcome]).get())
        };
        CacheReport {
            name: String::new(),
            entries,
            used_bytes,
            max_bytes,
            hits: count("priced"),
            misses: count("unpriced"),
        }
    };
    caches.add_read_again(CacheName::Prices, report, move || {
        let prices = again.clone();
        async move { prices.clear().await }
    });
    Ok(caches)
}

/// The settings of the ClickHouse connection: of a server, or of the engine, which is started. Blocks.
pub(crate) fn store_settings(
    config: &Config,
    data_dir: Option<&Path>,
    slot: &EngineSlot,
    metrics: store::metrics::Metrics,
) -> anyhow::Result<StoreConfig> {
    let clickhouse = &config.clickhouse;
    let reached = match (clickhouse.urls.split_first(), data_dir) {
        (Some((url, more)), _) => StoreConfig {
            url: url.clone(),
            more_urls: more.to_vec(),
            cluster: clickhouse.cluster.as_deref().map(Cluster::new),
            user: clickhouse.user.clone(),
            password: clickhouse.password.clone(),
            database: clickhouse.database.clone(),
            // Over Kafka other processes may write too.
            standalone: config.kafka.is_none(),
            ..StoreConfig::default()
        },
        (None, Some(data_dir)) => {
            let engine = engine::start(config, data_dir, metrics)?;
            let settings = engine.store_config(&clickhouse.database);
            slot.hold(engine);
            settings
        }
        (None, None) => {
            bail!("`clickhouse.url` is needed: without a data folder there is no engine")
        }
    };
    Ok(StoreConfig {
        compression: clickhouse.compression,
        send_timeout: clickhouse.send_timeout,
        insert_timeout: clickhouse.insert_timeout,
        query_timeout: clickhouse.query_timeout,
        max_connections: clickhouse.max_connections,
        ..reached
    })
}
