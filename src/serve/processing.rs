//! Runs the processor, and restarts it after a failure; beside it, the runner of jobs.
//!
//! Uncommitted records are still in the log, so the next run processes them (P1).

use std::sync::Arc;
use std::time::Duration;

use control::Barrier;
use processor::jobs::{JobParts, PIECE_ROWS, Runner};
use processor::{LateMarks, Processor, ProcessorError, Status};
use schemas::control::StalledPartition;
use tokio::sync::watch;

use super::Running;
use super::health::{Concern, Part};
use super::parts::Parts;

/// Pause before a failed processor is restarted; doubles while it keeps failing.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause: an operator has to act, but a disk that has room again needs no operator.
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Time-out of the last look at what is stored: a stop does not wait for an engine that is away.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Consecutive runs that may end with every row rejected: tables that are being migrated exist after a while.
const RESTARTS_MAX: u32 = 5;
/// Readiness of a processor that is not restarted.
const STAYS_STOPPED: &str = "stopped: nothing can be processed as it is; the log of the server says why, mend it and start again";

/// Processes until `stop` becomes true and the micro-batch in hand is committed.
pub(crate) async fn run(
    running: Running,
    parts: Parts,
    barrier: Barrier,
    mut stop: watch::Receiver<bool>,
) {
    let Some(metrics) = parts.processor_metrics.clone() else {
        return;
    };
    // The processor needs the tables and the log.
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
        barrier: barrier.clone(),
        prices: parts.prices.subscribe(),
        piece_rows: PIECE_ROWS,
        // On a cluster the job would fail every night.
        retention_minute: match running.config.clickhouse.cluster {
            Some(_) => None,
            None => running.config.retention_minute,
        },
    });
    let (store, log) = (parts.store.clone(), parts.topics.events.clone());
    let late_marks = LateMarks::new(store, log, metrics.clone());
    parts.deployment.waiting_marks(late_marks.waiting());
    let done = async {
        tokio::join!(
            runner.run(stop.clone()),
            late_marks.run(stop.clone()),
            process(&running, &parts, barrier, metrics, stop)
        )
    };
    tokio::select! {
        _ = done => {}
        () = watch_losses(&running, &parts) => {}
    }
    // Records what was stored since the last look, so that the next start notices if it is gone.
    let look = parts.store.look_for_losses();
    if !matches!(tokio::time::timeout(LAST_LOOK, look).await, Ok(Ok(()))) {
        tracing::debug!("the time of the last stored event was not recorded");
    }
}

/// Reports lost rows to the health checks.
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
    parts: &Parts,
    barrier: Barrier,
    metrics: processor::Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = Failures::default();
    loop {
        let processor = Processor::new(
            running.config.processor.clone(),
            processor::Dependencies {
                log: parts.topics.events.clone(),
                dead_letters: parts.topics.dead_letters.clone(),
                tables: Arc::new(parts.store.clone()),
                prices: parts.prices.subscribe(),
                barrier: barrier.clone(),
            },
            metrics.clone(),
        );
        parts.deployment.hot_runs(processor.hot_runs());
        parts.deployment.stalled(processor.stalled());
        let following = tokio::spawn(follow(running.clone(), processor.status()));
        let stalling = tokio::spawn(follow_stalls(running.clone(), processor.stalled()));
        let outcome = processor.run(stop.clone()).await;
        following.abort();
        stalling.abort();
        running.health.degraded(Concern::Partitions, None);
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

/// Consecutive failures of the processor.
#[derive(Debug, Default)]
struct Failures {
    /// Without a commit in between.
    count: u32,
    batches: u64,
    pauses: u32,
}

impl Failures {
    /// Whether another run may end differently; `batches` is the total of committed micro-batches.
    fn lets_restart(&mut self, error: &ProcessorError, batches: u64) -> bool {
        if batches > self.batches {
            self.count = 0;
        }
        self.batches = batches;
        self.count += 1;
        match error {
            ProcessorError::AllBad { .. } => false,
            ProcessorError::AllRejected(_) => self.count <= RESTARTS_MAX,
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

/// Reports the state of the processor to the health checks of the server.
async fn follow(running: Running, mut status: watch::Receiver<Status>) {
    loop {
        let now = status.borrow_and_update().clone();
        match now {
            Status::Running => running.health.ready(Part::Processor),
            Status::Starting => running.health.missing(Part::Processor, "starting"),
            Status::Waiting => running
                .health
                .missing(Part::Processor, "waiting for ClickHouse"),
            Status::CutOff => running.health.missing(
                Part::Processor,
                "does not receive its own heartbeats from the control topic",
            ),
            Status::Stopped => running.health.missing(Part::Processor, "stopped"),
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Tells health of partitions that are stalled.
async fn follow_stalls(running: Running, mut stalled: watch::Receiver<Vec<StalledPartition>>) {
    loop {
        let what = stalls(&stalled.borrow_and_update());
        running.health.degraded(Concern::Partitions, what);
        if stalled.changed().await.is_err() {
            return;
        }
    }
}

fn stalls(stalled: &[StalledPartition]) -> Option<String> {
    let first = stalled.first()?;
    let owner = match first.owner.as_str() {
        "" => "no member",
        owner => owner,
    };
    Some(format!(
        "{} partitions of the log are stalled, such as {}: {} records wait above offset {}, and nothing was committed for {} s; owner: {owner}, {}",
        stalled.len(),
        first.partition,
        first.lag_records,
        first.committed,
        first.seconds,
        first.state
    ))
}

#[cfg(test)]
mod tests {
    use store::StoreError;

    use super::*;

    fn refused() -> ProcessorError {
        ProcessorError::AllRejected(StoreError::Refused {
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
