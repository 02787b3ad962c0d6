//! A running server: every tier in one process, or one of them, wired together and ended in order.
//!
//! [`role::Role`] says which tiers a process is; everything else is the same in all of them. The listener opens first, so that health can be asked from the beginning. Reporting begins once the log is open
//! and credentials can be looked up; reading once the tables are migrated. From then on parts come and go (the
//! engine is started again, the disk fills) without the others: `health` says which.

mod access;
mod api;
mod bodies;
mod changes;
mod document;
pub(crate) mod engine;
pub(crate) mod folder;
mod full_disk;
pub(crate) mod health;
pub(crate) mod http;
mod infrastructure;
mod late_log;
mod metered;
pub(crate) mod migrate;
pub(crate) mod parts;
mod paths;
mod presence;
mod process_metrics;
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
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use engine::EngineSlot;
use folder::DataFolder;
use health::Health;
use http::connections::HttpMetrics;
use metered::Metered;
use parts::Parts;
use role::Role;

/// How long threads that are still busy at the end are waited for.
const THREADS_END_WITHIN: Duration = Duration::from_secs(2);
/// Connections to the listener of the metrics: some readers, each with a few.
const METRICS_CONNECTIONS: usize = 32;

/// What the parts of a running server share.
#[derive(Clone)]
pub(crate) struct Running {
    role: Role,
    config: Arc<Config>,
    metered: Metered,
    health: Health,
    engine: EngineSlot,
    /// Everything ends.
    stop: CancellationToken,
}

/// Serves what the role is for until told to stop.
pub(crate) fn run(mut config: Config, role: Role) -> anyhow::Result<()> {
    let started = Instant::now();
    role.check(&config)?;
    let http = &mut config.server.http;
    http.max_connections = http::files::fitting(http.max_connections)?;
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
    // Everything that has to end has ended: what still holds a thread must not hold the process.
    runtime.shutdown_timeout(THREADS_END_WITHIN);
    outcome
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
    let gate = api::Gate::new(running);
    let metrics = HttpMetrics::register(&running.metered.own)?;
    serve_metrics(running, &metrics).await?;
    let http = http::serve(
        listener,
        gate.clone(),
        (running.config.server.http.clone(), metrics),
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
                gate.open(parts.router.clone());
                run_parts(running, folder, parts, http, (&url, started)).await
            }
            Ok(None) => ended(running, http).await,
            Err(error) => ended(running, http).await.and(Err(error)),
        }
    };
    // The address first: who waits for the line above reads it.
    let ((), outcome) = tokio::join!(announced, work);
    if let Some(folder) = folder {
        folder.withdraw();
    }
    tracing::info!("stopped");
    outcome
}

/// Opens the listener of the metrics, if they have one of their own. It ends with the process: nobody waits for it.
async fn serve_metrics(running: &Running, metrics: &HttpMetrics) -> anyhow::Result<()> {
    let Some(listen) = running.config.metrics.listen else {
        return Ok(());
    };
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen} for the metrics"))?;
    let address = listener.local_addr()?;
    let config = http::HttpConfig {
        max_connections: METRICS_CONNECTIONS,
        max_connections_per_address: METRICS_CONNECTIONS,
        ..running.config.server.http.clone()
    };
    let gate = api::Gate::of(api::metrics(running));
    let stop = running.stop.clone();
    tokio::spawn(http::serve(listener, gate, (config, metrics.clone()), stop));
    tracing::info!(metrics.address = %address, "metrics");
    Ok(())
}

/// From open parts to the end: gets the tables ready, processes, and ends in the order in which nothing is lost.
async fn run_parts(
    running: &Running,
    folder: Option<&DataFolder>,
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
    // A processor says that it leaves: words are passed on until it did.
    let stop_hearing = CancellationToken::new();
    let hearing = parts.hearing.clone().map(|over| {
        let stop = stop_hearing.clone();
        tokio::spawn(async move { over.run(stop).await })
    });
    let outcome = tokio::select! {
        outcome = beside(running, &parts, folder, (url, started)) => outcome,
        () = running.stop.cancelled() => Ok(()),
    };
    // Nobody waits any more for what this process does with caches.
    parts.presence.leave().await;
    // Requests in flight end while the log still takes their batches; then what was taken from the log is stored
    // and committed while ClickHouse still takes rows; then the rest.
    ended(running, http).await?;
    stop_processing.send_replace(true);
    processing.await.context("the processor panicked")?;
    stop_hearing.cancel();
    if let Some(hearing) = hearing {
        hearing
            .await
            .context("hearing the control topic panicked")?;
    }
    parts.topics.close().await;
    outcome
}

/// What goes on beside requests and processing until the server stops: the log and the tables are reached and looked
/// after, each without waiting for the other. An error needs a person.
async fn beside(
    running: &Running,
    parts: &Parts,
    folder: Option<&DataFolder>,
    (url, started): (&str, Instant),
) -> anyhow::Result<()> {
    let tables = async {
        settle::run(running, parts, folder, url).await?;
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
    let words = async {
        tokio::join!(
            changes::announce(running, parts),
            changes::follow(running, parts),
            parts.presence.run(&running.stop),
            tell_ready(running, url, started),
        );
        Ok(())
    };
    tokio::try_join!(parts.topics.reach(running), tables, snapshot, words)?;
    Ok(())
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
