//! Runs the processor, and runs it again when it ended by a failure; beside it, the runner of jobs.
//!
//! What it had not committed is still in the log, so the next run takes it up again (P1).

use std::sync::Arc;
use std::time::Duration;

use processor::jobs::{JobParts, PIECE_ROWS, Runner};
use processor::{Gate, Processor, ProcessorError, Status};
use tokio::sync::watch;

use super::Running;
use super::health::{Concern, Part};
use super::parts::Parts;

/// Pause before a processor that failed is run again; doubles while it keeps failing.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause: a person has to look, but a disk that has space again needs none.
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Time for the last look at what is stored: a stop does not wait for an engine that is away.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Runs in a row that may end with everything refused: tables that are being migrated are there after a while.
const RESTARTS_MAX: u32 = 5;
/// What readiness says of a processor that is not run again.
const STAYS_STOPPED: &str = "stopped: nothing can be processed as it is; the log of the server says why, mend it and start again";

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
    // Over a log of its own, a process is the only one that writes into its tables.
    let (gate, keeper) = match &parts.hearing {
        Some(control) => {
            let (gate, keeper) = Gate::shared(control.clone());
            (gate, Some(keeper))
        }
        None => (Gate::default(), None),
    };
    let runner = Runner::new(JobParts {
        store: parts.store.clone(),
        log: parts.topics.events.clone(),
        gate: gate.clone(),
        prices: parts.prices.subscribe(),
        piece_rows: PIECE_ROWS,
        // On a cluster the job would only say every night that it cannot be done there.
        retention_minute: match running.config.clickhouse.cluster {
            Some(_) => None,
            None => running.config.retention_minute,
        },
    });
    let (stop_keeper, keeper_stopped) = watch::channel(false);
    let work = async {
        let done = async {
            tokio::join!(
                runner.run(stop.clone()),
                process(&running, (&parts, gate), metrics, stop)
            )
        };
        tokio::select! {
            _ = done => {}
            () = watch_losses(&running, &parts) => {}
        }
        // The others wait for this process for as long as it has work in hand.
        stop_keeper.send_replace(true);
    };
    let keeping = async {
        if let Some(keeper) = keeper {
            keeper.run(keeper_stopped).await;
        }
    };
    tokio::join!(work, keeping);
    // What was stored since the last look is noted, so that the next start misses it if it is gone.
    let look = parts.store.look_for_losses();
    if !matches!(tokio::time::timeout(LAST_LOOK, look).await, Ok(Ok(()))) {
        tracing::debug!("what was stored last was not noted");
    }
}

/// Tells health of stored rows that are gone.
async fn watch_losses(running: &Running, parts: &Parts) {
    let mut losses = parts.store.losses();
    loop {
        let count = losses.borrow_and_update().len();
        let what = format!(
            "stored rows are missing or damaged in {count} places; the log of the server says which"
        );
        running
            .health
            .degraded(Concern::Tables, (count > 0).then_some(what));
        if losses.changed().await.is_err() {
            return;
        }
    }
}

async fn process(
    running: &Running,
    (parts, gate): (&Parts, Gate),
    metrics: processor::Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = Failures::default();
    loop {
        let processor = Processor::new(
            running.config.processor.clone(),
            processor::Parts {
                log: parts.topics.events.clone(),
                dead_letters: parts.topics.dead_letters.clone(),
                tables: Arc::new(parts.store.clone()),
                prices: parts.prices.subscribe(),
                gate: gate.clone(),
            },
            metrics.clone(),
        );
        parts.presence.hot_runs(processor.hot_runs());
        let following = tokio::spawn(follow(running.clone(), processor.status()));
        let outcome = processor.run(stop.clone()).await;
        following.abort();
        let Err(error) = outcome else { return };
        if !failures.lets_restart(&error, metrics.batch_events.get_sample_count()) {
            running.health.missing(Part::Processor, STAYS_STOPPED);
            tracing::error!(error.message = %error, "the processor stays stopped until this process is started again; events wait in the log");
            let _ = stop.wait_for(|stopped| *stopped).await;
            return;
        }
        running.health.missing(
            Part::Processor,
            "stopped by a failure; the log of the server says which",
        );
        let pause = failures.pause();
        tracing::error!(error.message = %error, processor.pause_ms = pause.as_millis(), "the processor stopped; events wait in the log");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// Failures of the processor, and what they let be tried.
#[derive(Debug, Default)]
struct Failures {
    /// In a row, with nothing committed in between.
    count: u32,
    batches: u64,
    pauses: u32,
}

impl Failures {
    /// Whether another run may come to another end; `batches` counts what was ever committed.
    fn lets_restart(&mut self, error: &ProcessorError, batches: u64) -> bool {
        if batches > self.batches {
            self.count = 0;
        }
        self.batches = batches;
        self.count += 1;
        match error {
            ProcessorError::AllBad { .. } => false,
            ProcessorError::AllRefused(_) => self.count <= RESTARTS_MAX,
            _ => true,
        }
    }

    /// The pause before the next run.
    fn pause(&mut self) -> Duration {
        let pause = PAUSE_FIRST.saturating_mul(1 << self.pauses.min(10));
        self.pauses += 1;
        pause.min(PAUSE_MOST)
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
            Status::Deaf => running.health.missing(
                Part::Processor,
                "does not hear the other processors on the control topic",
            ),
            Status::Stopped => running.health.missing(Part::Processor, "stopped"),
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use store::StoreError;

    use super::*;

    fn refused() -> ProcessorError {
        ProcessorError::AllRefused(StoreError::Refused {
            code: 16,
            message: String::new(),
        })
    }

    #[test]
    fn a_processor_that_only_fails_is_left_stopped_and_one_that_gets_on_is_not() {
        let mut failures = Failures::default();
        assert!((0..RESTARTS_MAX).all(|_| failures.lets_restart(&refused(), 0)));
        assert!(!failures.lets_restart(&refused(), 0));
        let mut failures = Failures::default();
        assert!((0..50).all(|batches| failures.lets_restart(&refused(), batches)));
        let bad = ProcessorError::AllBad {
            records: 100,
            reason: String::new(),
        };
        assert!(!failures.lets_restart(&bad, 60));
        assert!((0..50).all(|_| failures.lets_restart(&ProcessorError::WorkerPanicked, 60)));
        assert!((0..50).all(|_| failures.pause() <= PAUSE_MOST));
    }
}
