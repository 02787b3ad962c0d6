//! Runs the processor, and runs it again when it ended by a failure; beside it, the runner of jobs.
//!
//! What it had not committed is still in the log, so the next run takes it up again (P1).

use std::sync::Arc;
use std::time::Duration;

use processor::jobs::{JobParts, PIECE_ROWS, Runner};
use processor::{Processor, Status};
use tokio::sync::watch;

use super::Running;
use super::health::Part;
use super::parts::Parts;

/// Pause before a processor that failed is run again; doubles while it keeps failing.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause: a person has to look, but a disk that has space again needs none.
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Processes until `stop` becomes true and the micro-batch in hand is committed.
pub(crate) async fn run(running: Running, parts: Parts, mut stop: watch::Receiver<bool>) {
    let Some(metrics) = parts.processor_metrics.clone() else {
        return;
    };
    // There is nothing to process into before the tables are there, and nothing to process before the log is.
    let ready = async {
        running.health.part_ready(Part::Migrations).await;
        running.health.part_ready(Part::Log).await;
    };
    tokio::select! {
        () = ready => {}
        _ = stop.wait_for(|stopped| *stopped) => return,
    }
    let runner = Runner::new(JobParts {
        store: parts.store.clone(),
        log: parts.topics.events.clone(),
        gate: parts.gate.clone(),
        prices: parts.prices.subscribe(),
        piece_rows: PIECE_ROWS,
        retention_minute: running.config.retention_minute,
    });
    tokio::join!(
        runner.run(stop.clone()),
        process(&running, &parts, metrics, stop)
    );
}

async fn process(
    running: &Running,
    parts: &Parts,
    metrics: processor::Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let mut pause = PAUSE_FIRST;
    loop {
        let processor = Processor::new(
            running.config.processor.clone(),
            processor::Parts {
                log: parts.topics.events.clone(),
                dead_letters: parts.topics.dead_letters.clone(),
                tables: Arc::new(parts.store.clone()),
                prices: parts.prices.subscribe(),
                gate: parts.gate.clone(),
            },
            metrics.clone(),
        );
        let following = tokio::spawn(follow(running.clone(), processor.status()));
        let outcome = processor.run(stop.clone()).await;
        following.abort();
        let Err(error) = outcome else { return };
        running.health.missing(
            Part::Processor,
            "stopped by a failure; the log of the server says which",
        );
        tracing::error!(error.message = %error, processor.pause_ms = pause.as_millis(), "the processor stopped; events wait in the log");
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MOST),
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// Tells what the processor does to whoever asks for the health of the server.
async fn follow(running: Running, mut status: watch::Receiver<Status>) {
    loop {
        let now = status.borrow_and_update().clone();
        match now {
            Status::Running => running.health.ready(Part::Processor),
            Status::Starting => running.health.missing(Part::Processor, "starting"),
            Status::Waiting => running
                .health
                .missing(Part::Processor, "waiting for ClickHouse"),
            Status::Stopped => running.health.missing(Part::Processor, "stopped"),
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}
