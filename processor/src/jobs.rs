//! Runs long work: one job at a time, from its checkpoint.
//!
//! A runner takes the first job of the queue, or one that was left behind by a process that died. Each kind of job is cut into
//! pieces that can be repeated without harm, and writes its checkpoint after each piece. So a kill at any instant costs
//! one piece of work, and repeating it gives the same result (R1).
//!
//! Only workers write runs: a job that needs runs changed asks their owner through the log ([`recalculate`]), or
//! acquires the [`Barrier`] and exchanges whole tables or partitions while no worker is in the middle of a step.

mod desk;
mod rebuild;
mod recalculate;
mod retention;
mod schedule;
mod tries;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use eventlog::{Log, LogError};
use schemas::price::PriceTable;
use store::jobs::{Job, JobKind, JobState};
use store::{Store, StoreError};
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::error::ProcessorError;
use crate::stop::stopped_by;
use control::Barrier;
use desk::Desk;
use schedule::Schedule;
use tries::Tries;

/// How often a runner looks for jobs that other processes created or left behind; jobs of its own process notify it.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How often the runner checks for lost rows, and so how late a loss is noticed. The check reads the engine's list of
/// parts, which takes milliseconds.
const LOSSES_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Longest pause between two retries while the store or the log is away.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Dependencies of all jobs.
#[derive(Clone)]
pub struct JobParts {
    pub store: Store,
    /// The log that the workers of this deployment process.
    pub log: Arc<dyn Log>,
    /// The barrier of this process's workers.
    pub barrier: Barrier,
    pub prices: watch::Receiver<Arc<PriceTable>>,
    /// Rows in one piece of work: at most this much is repeated after a kill, and held in memory.
    pub piece_rows: u32,
    /// The minute of the day, UTC, at which retention starts on its own; `None` for never.
    pub retention_minute: Option<u32>,
}

/// [`JobParts::piece_rows`] of a server: pieces of about 10 MB that take a fraction of a second.
pub const PIECE_ROWS: u32 = 50_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    #[error("the log: {0}")]
    Log(#[from] LogError),
    /// The process stops; the next process continues the job.
    #[error("the process stops")]
    Stopped,
    /// The job was canceled, or another process took it over.
    #[error("the job is not this runner's any more")]
    Gone,
    #[error("folding: {0}")]
    Fold(#[from] ProcessorError),
    /// It is unknown whether a day was exchanged.
    #[error(
        "whether the day {day} was put in place is not known, look whether its rows are there: {source}"
    )]
    Unknown {
        day: String,
        /// The error of the last attempt.
        source: StoreError,
    },
    /// The barrier could expire before the work is done.
    #[error("the barrier expires too soon for the exchange")]
    BarrierExpires,
    /// Too many retries.
    #[error("given up after {tries} tries: {last}")]
    GivenUp { tries: u32, last: Box<JobError> },
    /// A column of the job's row is unreadable.
    #[error("the job's row cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl JobError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::Log(error) => error.is_retryable(),
            Self::Fold(ProcessorError::Store(error)) => error.is_retryable(),
            Self::BarrierExpires => true,
            _ => false,
        }
    }
}

/// Time that has to be left of a barrier before tables are exchanged: many times what an exchange takes.
const EXCHANGE_TIME: Duration = Duration::from_secs(5);

/// Time for a job to finish a piece of work after the stop signal.
const STOP_GRACE: Duration = Duration::from_secs(3);

pub struct Runner {
    parts: JobParts,
    name: String,
}

impl Runner {
    pub fn new(parts: JobParts) -> Self {
        let name = format!("runner_{:032x}", rand::random::<u128>());
        Self { parts, name }
    }

    /// Runs jobs until `stop` becomes true or its sender is dropped; the next process continues the job in hand from
    /// its checkpoint. A failure of a job ends that job; errors of a store or log that is away are retried.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let jobs = self.parts.store.jobs();
        let mut changes = jobs.changes();
        let mut schedule = Schedule::new(self.parts.retention_minute);
        let mut looked: Option<Instant> = None;
        while !*stop.borrow() {
            changes.mark_unchanged();
            if let Err(error) = schedule.look(&self.parts.store, now_ms()).await {
                tracing::warn!(error = %error, "retention cannot be asked for now");
            }
            // Between jobs, whose own removals are no losses.
            if looked.is_none_or(|looked| looked.elapsed() >= LOSSES_INTERVAL) {
                match self.parts.store.look_for_losses().await {
                    Ok(()) => looked = Some(Instant::now()),
                    Err(error) => {
                        tracing::debug!(error = %error, "lost rows cannot be looked for now");
                    }
                }
            }
            match jobs.claim(&self.name, now_ms()).await {
                Ok(Some(job)) => {
                    self.work(job, &stop).await;
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = %error, "jobs cannot be looked for now");
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = stopped_by(&mut stop) => return,
            }
        }
    }

    async fn work(&self, job: Job, stop: &watch::Receiver<bool>) {
        tracing::info!(
            job.id = job.job_id,
            job.kind = job.kind.as_str(),
            "a job begins or goes on"
        );
        let mut desk = Desk::new(self.parts.clone(), job, stop.clone());
        let mut backoff = Backoff::new(RETRY_PAUSE_MAX);
        let mut tries = Tries::default();
        let outcome = loop {
            // A canceled job ends even if none of its steps succeeds.
            if let Err(end) = desk.go_on() {
                break Err(end);
            }
            let barrier = self.parts.barrier.clone();
            let outcome = tokio::select! {
                outcome = run_kind(&mut desk) => outcome,
                () = given_up(stop.clone(), barrier) => Err(JobError::Stopped),
            };
            match outcome {
                Err(error) if error.is_retryable() => {
                    if !tries.has_another(&error, &desk.job) {
                        break Err(tries.given_up(error));
                    }
                    tracing::warn!(error = %error, job.id = desk.job.job_id, "a job waits");
                    if !backoff.wait(stop).await {
                        break Err(JobError::Stopped);
                    }
                }
                outcome => break outcome,
            }
        };
        let job_id = desk.job.job_id.clone();
        match outcome {
            Ok(()) => desk.job.state = JobState::Done,
            Err(JobError::Gone) => {
                tracing::info!(job.id = job_id, "a job was cancelled or taken over");
                desk.leave().await;
                return;
            }
            // The next runner takes it over at once.
            Err(JobError::Stopped) => desk.job.state = JobState::Queued,
            Err(error) => {
                tracing::error!(error = %error, job.id = job_id, "a job failed");
                desk.job.state = JobState::Failed;
                desk.job.error = error.to_string();
            }
        }
        desk.end().await;
    }
}

/// Returns when the job in hand has to be dropped wherever it is: some time after the stop signal, because some
/// statements take minutes, and never while the job holds the barrier.
async fn given_up(mut stop: watch::Receiver<bool>, barrier: Barrier) {
    stopped_by(&mut stop).await;
    tokio::time::sleep(STOP_GRACE).await;
    barrier.not_held_here().await;
}

async fn run_kind(desk: &mut Desk) -> Result<(), JobError> {
    match desk.job.kind {
        JobKind::Recalculate => recalculate::run(desk).await,
        JobKind::Retention => retention::run(desk).await,
        JobKind::Rebuild | JobKind::Check => rebuild::run(desk).await,
    }
}

fn now_ms() -> i64 {
    Utc::now().timestamp_millis()
}
