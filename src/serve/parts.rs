//! The parts of a running server: the logs, ClickHouse, the directory of credentials, the prices, the routers over them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use eventlog::{EmbeddedConfig, EmbeddedLog, Log};
use ingest::IngestState;
use prometheus::Registry;
use store::credentials::Credentials;
use store::prices::Prices;
use store::{Store, StoreConfig};

use super::access::Directory;
use super::engine::{self, EngineSlot};
use super::folder::DataFolder;
use super::health::Part;
use super::{Running, api, process_metrics};
use crate::config::Config;

/// What was opened. Clones share it.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) dead_letters: Arc<dyn Log>,
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    pub(crate) prices: Prices,
    pub(crate) processor_metrics: processor::Metrics,
    pub(crate) gate: processor::Gate,
    pub(crate) router: Router,
}

impl Parts {
    /// Flushes and closes the logs.
    pub(crate) async fn close(&self) {
        tokio::join!(self.log.close(), self.dead_letters.close());
    }
}

/// Opens everything; what takes long goes side by side.
pub(crate) async fn open(running: &Running, folder: &DataFolder) -> anyhow::Result<Parts> {
    let registry = &running.registry;
    let metrics = store::metrics::Metrics::register(registry)?;
    registry.register(Box::new(process_metrics::ProcessMetrics::new(
        running.engine.clone(),
    )?))?;
    let processor_metrics = processor::Metrics::new(registry)?;

    let log = {
        let (running, registry) = (running.clone(), registry.clone());
        tokio::task::spawn_blocking(move || open_logs(&running, &registry))
    };
    let settings = {
        let (running, metrics, data_dir) =
            (running.clone(), metrics.clone(), folder.path().to_owned());
        tokio::task::spawn_blocking(move || {
            store_settings(&running.config, &data_dir, &running.engine, metrics)
        })
    };
    let (log, settings) = tokio::join!(log, settings);
    let (log, dead_letters) = log.context("opening the log panicked")??;
    let store = Store::connect(settings.context("starting the engine panicked")??, metrics)?;
    let credentials = Credentials::new(store.clone());
    let prices = Prices::new(store.clone())?;
    let directory = Arc::new(Directory(credentials.clone()));
    let ingest = IngestState::new(
        running.config.ingest.clone(),
        log.clone(),
        directory,
        registry,
    )?;
    let router = api::router(running, ingest, &store, &credentials, &prices)?;
    Ok(Parts {
        log,
        dead_letters,
        store,
        credentials,
        prices,
        processor_metrics,
        gate: processor::Gate::default(),
        router,
    })
}

/// The log of events, and the log of what cannot be processed. Blocks.
fn open_logs(
    running: &Running,
    registry: &Registry,
) -> anyhow::Result<(Arc<dyn Log>, Arc<dyn Log>)> {
    let config = &running.config.log;
    let log = EmbeddedLog::open(config.clone(), registry).context("cannot open the log")?;
    let dead_letters = EmbeddedConfig {
        folder: config.folder.with_file_name("dead-letters"),
        partitions: 1,
        // Nothing reads it on the way, so it needs no memory for readers.
        max_tail_bytes: 0,
        ..config.clone()
    };
    // Its figures would have the names of the log's own; what goes into it is counted by the processor.
    let dead_letters = EmbeddedLog::open(dead_letters, &Registry::new())
        .context("cannot open the dead letters")?;
    running.health.ready(Part::Log);
    Ok((Arc::new(log), Arc::new(dead_letters)))
}

/// The settings to reach ClickHouse with: a server's, or those of the engine, which is started. Blocks.
pub(crate) fn store_settings(
    config: &Config,
    data_dir: &Path,
    slot: &EngineSlot,
    metrics: store::metrics::Metrics,
) -> anyhow::Result<StoreConfig> {
    let clickhouse = &config.clickhouse;
    let reached = match &clickhouse.url {
        Some(url) => StoreConfig {
            url: url.clone(),
            user: clickhouse.user.clone(),
            password: clickhouse.password.clone(),
            database: clickhouse.database.clone(),
            ..StoreConfig::default()
        },
        None => {
            let engine = engine::start(config, data_dir, metrics)?;
            let settings = engine.store_config(&clickhouse.database);
            slot.hold(engine);
            settings
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
