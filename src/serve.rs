//! Standalone: every tier in one process on one port, wired together and ended in order.
//!
//! The listener opens first, so that health can be asked from the beginning. Reporting begins once the log is open
//! and credentials can be looked up; reading once the tables are migrated. From then on parts come and go (the
//! engine is started again, the disk fills) without the others: `health` says which.

mod access;
mod api;
mod document;
pub(crate) mod engine;
pub(crate) mod folder;
pub(crate) mod health;
pub(crate) mod http;
mod parts;
mod paths;
mod process_metrics;
mod processing;
mod reports;
mod settle;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use prometheus::Registry;
use store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use engine::EngineSlot;
use folder::DataFolder;
use health::Health;
use parts::Parts;

/// What the parts of a running server share.
#[derive(Clone)]
struct Running {
    config: Arc<Config>,
    registry: Registry,
    health: Health,
    engine: EngineSlot,
    /// Everything ends.
    stop: CancellationToken,
}

/// Serves until told to stop.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    let started = Instant::now();
    let folder = DataFolder::take(&config.server.data_dir)?;
    runtime(config.server.workers)?.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone())?);
        serve(config, &folder, started, stop).await
    })
}

/// Brings the tables up to date and ends.
pub(crate) fn migrate(config: Config) -> anyhow::Result<()> {
    let registry = Registry::new();
    let metrics = store::metrics::Metrics::register(&registry)?;
    let slot = EngineSlot::default();
    let folder = DataFolder::take(&config.server.data_dir)?;
    let settings = parts::store_settings(&config, folder.path(), &slot, metrics.clone())?;
    let store = Store::connect(settings, metrics)?;
    let outcome = runtime(config.server.workers)?.block_on(store.migrate());
    slot.shutdown();
    outcome?;
    println!("the tables are up to date");
    Ok(())
}

/// Worker threads; 0 means one per core.
pub(crate) fn runtime(workers: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if workers != 0 {
        builder.worker_threads(workers);
    }
    builder
        .thread_name("spindle")
        .enable_all()
        .build()
        .context("cannot start the worker threads")
}

async fn serve(
    config: Config,
    folder: &DataFolder,
    started: Instant,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let running = Running {
        config: Arc::new(config),
        registry: Registry::new(),
        health: Health::default(),
        engine: EngineSlot::default(),
        stop,
    };
    let outcome = serve_parts(&running, folder, started).await;
    running.stop.cancel();
    let engine = running.engine.clone();
    tokio::task::spawn_blocking(move || engine.shutdown()).await?;
    outcome
}

async fn serve_parts(
    running: &Running,
    folder: &DataFolder,
    started: Instant,
) -> anyhow::Result<()> {
    let listen = running.config.server.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    let gate = api::Gate::new(running.registry.clone(), running.health.clone());
    let http = http::serve(
        listener,
        gate.clone(),
        running.config.server.http.clone(),
        running.stop.clone(),
    );
    let http = tokio::spawn(http);
    folder.announce(&url)?;
    tracing::info!(http.address = %address, server.version = env!("CARGO_PKG_VERSION"), "listening");

    let opened = tokio::select! {
        opened = parts::open(running, folder) => opened.map(Some),
        () = running.stop.cancelled() => Ok(None),
    };
    let outcome = match opened {
        Ok(Some(parts)) => {
            gate.open(parts.router.clone());
            run_parts(running, folder, parts, http, (&url, started)).await
        }
        Ok(None) => ended(running, http).await,
        Err(error) => ended(running, http).await.and(Err(error)),
    };
    folder.withdraw();
    tracing::info!("stopped");
    outcome
}

/// From open parts to the end: gets the tables ready, processes, and ends in the order in which nothing is lost.
async fn run_parts(
    running: &Running,
    folder: &DataFolder,
    parts: Parts,
    http: JoinHandle<()>,
    (url, started): (&str, Instant),
) -> anyhow::Result<()> {
    let (stop_processing, processing_stopped) = tokio::sync::watch::channel(false);
    let processing = tokio::spawn(processing::run(
        running.clone(),
        parts.clone(),
        processing_stopped,
    ));
    let outcome = tokio::select! {
        outcome = settle::run(running, &parts, folder, url) => outcome,
        () = running.stop.cancelled() => Ok(()),
    };
    if outcome.is_ok() {
        tokio::join!(
            settle::watch(running, &parts),
            tell_ready(running, url, started)
        );
    }
    // Requests in flight end while the log still takes their batches; then what was taken from the log is stored
    // and committed while ClickHouse still takes rows; then the rest.
    ended(running, http).await?;
    stop_processing.send_replace(true);
    processing.await.context("the processor panicked")?;
    parts.close().await;
    outcome
}

/// Writes the line that operators and their scripts wait for.
async fn tell_ready(running: &Running, url: &str, started: Instant) {
    tokio::select! {
        () = running.health.all_ready() => {
            let ready_ms = started.elapsed().as_millis();
            tracing::info!(server.url = url, server.ready_ms = ready_ms, "ready");
        }
        () = running.stop.cancelled() => {}
    }
}

/// Stops the listener and waits for its requests.
async fn ended(running: &Running, http: JoinHandle<()>) -> anyhow::Result<()> {
    running.stop.cancel();
    http.await.context("the listener panicked")
}

/// The first SIGTERM or SIGINT stops in order; the second ends at once, which the log and the tables survive.
fn stop_on_signal(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        tracing::info!(signal.name = name, "stopping; a second signal ends at once");
        stop.cancel();
        let name = next().await;
        tracing::warn!(signal.name = name, "ending at once");
        std::process::exit(130);
    })
}
