//! The parts of a running server: the logs, ClickHouse, the directory of credentials, the prices, the routers over them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use ingest::IngestState;
use processor::Control;
use prometheus::Registry;
use schemas::control::{CacheReport, EventCounts};
use store::builds::Builds;
use store::cluster::Cluster;
use store::credentials::Credentials;
use store::prices::Prices;
use store::{Store, StoreConfig};

use super::access::Directory;
use super::api::RoutedParts;
use super::engine::{self, EngineSlot};
use super::folder::DataFolder;
use super::health::Concern;
use super::presence::Presence;
use super::snapshot::SnapshotFile;
use super::topics::Topics;
use super::{Running, api, full_disk, process_metrics};
use crate::caches::{CacheName, Caches};
use crate::config::Config;
use crate::control::{Alone, OverLog};

/// What was opened. Clones share it.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) topics: Topics,
    pub(crate) control: Arc<dyn Control>,
    /// Who else is there, and what everybody keeps in memory.
    pub(crate) presence: Presence,
    /// Hears the words of other processes, where there can be some.
    pub(crate) hearing: Option<Arc<OverLog>>,
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    /// Where the keys are kept, where reporting has to go on without ClickHouse.
    pub(crate) snapshot: Option<Arc<SnapshotFile>>,
    /// Whether the keys are known from there.
    pub(crate) is_restored: bool,
    pub(crate) prices: Prices,
    /// Builds of applications, where processes are started.
    pub(crate) builds: Builds,
    /// Of the processor, if there is one here.
    pub(crate) processor_metrics: Option<processor::Metrics>,
    pub(crate) router: Router,
}

/// Opens everything; what takes long goes side by side, and what may be away is reached later.
pub(crate) async fn open(
    running: &Running,
    folder: Option<&DataFolder>,
    address: SocketAddr,
) -> anyhow::Result<Parts> {
    let registry = &running.metered.own;
    let metrics = store::metrics::Metrics::register(registry)?;
    registry.register(Box::new(process_metrics::ProcessMetrics::new(
        running.engine.clone(),
    )?))?;
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
        "at least {lost} accepted records are missing from the log; the log of the server says which"
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
    let hearing = match &topics.control {
        Some(topic) => Some(Arc::new(OverLog::new(topic.clone(), registry)?)),
        None => None,
    };
    let control: Arc<dyn Control> = match &hearing {
        Some(over) => over.clone(),
        None => Arc::new(Alone::default()),
    };
    let caches = caches(registry, &credentials, &prices, processor_metrics.as_ref())?;
    let presence = Presence::new(running, (address, hearing.as_ref()), caches);
    // Where people read they also judge, which is an event like any other.
    let takes_events = running.role.ingests() || running.role.queries();
    let ingest = || {
        IngestState::new(
            running.config.ingest.clone(),
            topics.events.clone(),
            Arc::new(Directory(credentials.clone())),
            registry,
        )
    };
    let ingest = takes_events.then(ingest).transpose()?;
    let (taken, processed) = (ingest.clone(), processor_metrics.clone());
    presence.counts_events(move || {
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
            presence: &presence,
            builds: &builds,
        },
    )?;
    Ok(Parts {
        topics,
        control,
        presence,
        hearing,
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

/// What this process keeps in memory of the tables; whatever else it keeps is added by who makes it.
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

/// The settings to reach ClickHouse with: a server's, or those of the engine, which is started. Blocks.
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
            // Over Kafka there may be other processes that write.
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
