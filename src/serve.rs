//! A running server: every tier in one process, or one of them, wired together and stopped in order.
//!
//! [`role::Role`] decides which tiers a process runs; everything else is the same in all of them. The listener opens
//! first, so that health checks work from the beginning. Reports are accepted once the log is open and credentials can
//! be looked up, reads once the tables are migrated. From then on parts fail and recover independently (the engine
//! restarts, the disk fills); `health` shows which.

mod access;
mod api;
mod bodies;
mod changes;
mod deployment;
mod document;
pub(crate) mod engine;
pub(crate) mod folder;
mod full_disk;
pub(crate) mod health;
mod infrastructure;
mod late_log;
mod metered;
pub(crate) mod migrate;
pub(crate) mod parts;
mod processing;
mod reports;
pub(crate) mod role;
mod scrape;
mod settle;
mod snapshot;
pub(crate) mod topics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use control::{Barrier, BarrierDriver};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::listener;
use crate::listener::connections::HttpMetrics;
use crate::listener::routes::Routes;
use engine::EngineSlot;
use folder::DataFolder;
use health::Health;

use metered::Metered;
use parts::Parts;
use role::Role;

/// How long to wait for busy threads at the end.
const THREADS_END_WITHIN: Duration = Duration::from_secs(2);
/// Connections to the metrics listener: some readers, each with a few.
const METRICS_CONNECTIONS: usize = 32;

/// Shared by the parts of a running server.
#[derive(Clone)]
pub(crate) struct Running {
    role: Role,
    config: Arc<Config>,
    metered: Metered,
    health: Health,
    engine: EngineSlot,
    /// Stops everything.
    stop: CancellationToken,
}

/// Serves the role's tiers until stopped.
pub(crate) fn run(mut config: Config, role: Role) -> anyhow::Result<()> {
    let started = Instant::now();
    role.check(&config)?;
    let http = &mut config.server.http;
    http.max_connections = listener::files::fitting(http.max_connections)?;
    let folder = match role.has_folder() {
        true => Some(DataFolder::take(&config.server.data_dir)?),
        false => None,
    };
    let runtime = runtime(config.server.workers)?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone())?);
        let running = Running {
            role,
            config: Arc::new(config),
            metered: Metered::new()?,
            health: Health::new(role.parts()),
            engine: EngineSlot::default(),
            stop,
        };
        serve(&running, folder.as_ref(), started).await
    });
    // Everything that has to end has ended: a remaining thread must not hold up the process.
    runtime.shutdown_timeout(THREADS_END_WITHIN);
    outcome
}

/// `workers` of 0 means one per core.
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
    running: &Running,
    folder: Option<&DataFolder>,
    started: Instant,
) -> anyhow::Result<()> {
    let outcome = serve_parts(running, folder, started).await;
    running.stop.cancel();
    let engine = running.engine.clone();
    tokio::task::spawn_blocking(move || engine.shutdown()).await?;
    outcome
}

async fn serve_parts(
    running: &Running,
    folder: Option<&DataFolder>,
    started: Instant,
) -> anyhow::Result<()> {
    let listen = running.config.server.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    let routes = Routes::new(api::early(running));
    let metrics = HttpMetrics::register(&running.metered.own)?;
    serve_metrics(running, &metrics).await?;
    let http = listener::serve(
        listener,
        routes.clone(),
        running.config.server.http.clone(),
        metrics,
        running.stop.clone(),
    );
    let http = tokio::spawn(http);
    let announced = async {
        if let Some(folder) = folder {
            folder.announce(&url, &running.stop).await;
        }
    };
    let work = async {
        tracing::info!(server.role = running.role.name(), http.address = %address, server.version = env!("CARGO_PKG_VERSION"), "listening");
        let opened = tokio::select! {
            opened = parts::open(running, folder, address) => opened.map(Some),
            () = running.stop.cancelled() => Ok(None),
        };
        match opened {
            Ok(Some(parts)) => {
                routes.open(parts.router.clone());
                let address = Announced { url: &url, started };
                run_parts(running, folder, parts, http, address).await
            }
            Ok(None) => ended(running, http).await,
            Err(error) => ended(running, http).await.and(Err(error)),
        }
    };
    // The address first: the process that waits for the line above reads it.
    let ((), outcome) = tokio::join!(announced, work);
    if let Some(folder) = folder {
        folder.withdraw();
    }
    tracing::info!("stopped");
    outcome
}

/// Opens the separate listener of the metrics, if configured. It ends with the process, without a join.
async fn serve_metrics(running: &Running, metrics: &HttpMetrics) -> anyhow::Result<()> {
    let Some(listen) = running.config.metrics.listen else {
        return Ok(());
    };
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen} for the metrics"))?;
    let address = listener.local_addr()?;
    let config = listener::HttpConfig {
        max_connections: METRICS_CONNECTIONS,
        max_connections_per_address: METRICS_CONNECTIONS,
        ..running.config.server.http.clone()
    };
    let routes = Routes::new(api::metrics(running));
    let stop = running.stop.clone();
    tokio::spawn(listener::serve(
        listener,
        routes,
        config,
        metrics.clone(),
        stop,
    ));
    tracing::info!(metrics.address = %address, "metrics");
    Ok(())
}

/// What a server prints when it is ready.
#[derive(Clone, Copy)]
struct Announced<'a> {
    url: &'a str,
    /// When the process started.
    started: Instant,
}

/// From open parts to the end: prepares the tables, processes, and stops in an order in which nothing is lost.
async fn run_parts(
    running: &Running,
    folder: Option<&DataFolder>,
    parts: Parts,
    http: JoinHandle<()>,
    address: Announced<'_>,
) -> anyhow::Result<()> {
    let (stop_processing, processing_stopped) = tokio::sync::watch::channel(false);
    // Over an embedded log, a process is the only one that writes into its tables.
    let (barrier, barrier_driver) = match &parts.control_topic {
        Some(_) if running.role.processes() => {
            let (barrier, driver) = Barrier::shared();
            (barrier, Some(driver))
        }
        _ => (Barrier::default(), None),
    };
    let processing = tokio::spawn(processing::run(
        running.clone(),
        parts.clone(),
        barrier,
        processing_stopped,
    ));
    // Until the processor has ended, because barriers of other processes wait for its last step.
    let stop_control = CancellationToken::new();
    let control = tokio::spawn(exchange_messages(
        parts.clone(),
        barrier_driver,
        stop_control.clone(),
    ));
    let outcome = tokio::select! {
        outcome = beside(running, &parts, folder, address) => outcome,
        () = running.stop.cancelled() => Ok(()),
    };
    // Orders to clear caches no longer wait for this process.
    parts.deployment.leave();
    // Requests in flight end while the log still accepts their batches; then records in hand are stored and committed
    // while ClickHouse still accepts rows; then the rest.
    ended(running, http).await?;
    stop_processing.send_replace(true);
    processing.await.context("the processor panicked")?;
    stop_control.cancel();
    control.await.context("the control driver panicked")?;
    parts.topics.close().await;
    outcome
}

/// Receives and publishes on the control topic until stopped, where there can be other processes.
async fn exchange_messages(parts: Parts, barrier: Option<BarrierDriver>, stop: CancellationToken) {
    let driver = parts.deployment.driver(barrier);
    if let (Some(topic), Some(driver)) = (&parts.control_topic, driver) {
        tokio::join!(topic.run(stop.clone()), driver.run(stop));
    }
}

/// Background work until the server stops: connects to the log and the tables and watches them, independently of each
/// other. An error means that an operator has to act.
async fn beside(
    running: &Running,
    parts: &Parts,
    folder: Option<&DataFolder>,
    address: Announced<'_>,
) -> anyhow::Result<()> {
    let tables = async {
        settle::run(running, parts, folder, address.url).await?;
        settle::watch(running, parts).await;
        Ok(())
    };
    let snapshot = async {
        if let Some(snapshot) = &parts.snapshot {
            snapshot
                .keep(&parts.credentials, running.stop.clone())
                .await;
        }
        Ok(())
    };
    let changes = async {
        tokio::join!(
            changes::announce(running, parts),
            changes::follow(running, parts),
            tell_ready(running, address),
        );
        Ok(())
    };
    tokio::try_join!(parts.topics.reach(running), tables, snapshot, changes)?;
    Ok(())
}

/// Prints the line that operators and their scripts wait for.
async fn tell_ready(running: &Running, address: Announced<'_>) {
    tokio::select! {
        () = running.health.all_ready() => {
            let ready_ms = address.started.elapsed().as_millis();
            tracing::info!(server.url = address.url, server.ready_ms = ready_ms, "ready");
        }
        () = running.stop.cancelled() => {}
    }
}

/// Stops the listener and waits for its requests.
async fn ended(running: &Running, http: JoinHandle<()>) -> anyhow::Result<()> {
    running.stop.cancel();
    http.await.context("the listener panicked")
}

/// The first SIGTERM or SIGINT stops gracefully; the second ends at once, which the log and the tables survive.
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
