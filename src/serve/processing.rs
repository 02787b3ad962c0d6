//! Runs the processor, and runs it again when it ended by a failure.
//!
//! What it had not committed is still in the log, so the next run takes it up again (P1).

use std::time::Duration;

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
    let mut pause = PAUSE_FIRST;
    // There is nothing to process into before the tables are there.
    tokio::select! {
        () = running.health.part_ready(Part::Migrations) => {}
        _ = stop.wait_for(|stopped| *stopped) => return,
    }
    loop {
        let processor = Processor::new(
            running.config.processor.clone(),
            processor::Parts {
                log: parts.log.clone(),
                dead_letters: parts.dead_letters.clone(),
                tables: std::sync::Arc::new(parts.store.clone()),
                prices: parts.prices.subscribe(),
                gate: parts.gate.clone(),
            },
            parts.processor_metrics.clone(),
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
