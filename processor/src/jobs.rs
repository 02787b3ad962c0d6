//! Runs long work: one job at a time, from where its checkpoint stands.
//!
//! A runner takes the oldest job that waits, or that a process that died left behind. Each kind of work is cut into
//! pieces that can be done twice without harm; after each one the job's checkpoint is written. So a kill at any
//! instant costs one piece of work, and repeating gives the same end (R1).
//!
//! Only workers write runs: a job that wants runs changed asks their owner through the log ([`recalculate`]), or
//! closes the [`Gate`] and exchanges whole tables or partitions while no worker is in the middle of a step.

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

use crate::ProcessorError;
use crate::gate::Gate;
use crate::patient::Pause;
use crate::processor::stopped_by;
use desk::Desk;
use schedule::Schedule;
use tries::Tries;

/// How often a runner looks for jobs that other processes made or left behind; those of its own process it hears of.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How often stored rows are looked for that are gone. It reads the engine's list of parts, which takes milliseconds, and
/// is how long rows may be stored before their loss would be seen.
const LOSSES_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Longest pause between two tries while the store or the log is away.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// What jobs work with.
#[derive(Clone)]
pub struct JobParts {
    /// The tables.
    pub store: Store,
    /// The log whose records the workers of this deployment process.
    pub log: Arc<dyn Log>,
    /// The gate that the workers of this process pass.
    pub gate: Gate,
    /// The price table in force.
    pub prices: watch::Receiver<Arc<PriceTable>>,
    /// Rows in one piece of work: what is done again at most after a kill, and what is held in memory.
    pub piece_rows: u32,
    /// The minute of the day, UTC, at which retention runs by itself; never without one.
    pub retention_minute: Option<u32>,
}

/// [`JobParts::piece_rows`] of a server: pieces of 10 MB or so that take a part of a second.
pub const PIECE_ROWS: u32 = 50_000;

/// Why a job, or a piece of it, ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The tables.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// The log.
    #[error("the log: {0}")]
    Log(#[from] LogError),
    /// The process stops; the job goes on with the next one.
    #[error("the process stops")]
    Stopped,
    /// Somebody cancelled it, or another process took it over.
    #[error("the job is not this runner's any more")]
    Gone,
    /// Folding.
    #[error("folding: {0}")]
    Fold(#[from] ProcessorError),
    /// Whether a day was exchanged cannot be found out.
    #[error(
        "whether the day {day} was put in place is not known, look whether its rows are there: {source}"
    )]
    Unknown {
        /// Which one, of which table.
        day: String,
        /// What the last try said.
        source: StoreError,
    },
    /// The gate was not certain to stay closed until something was done behind it.
    #[error("the processors could not be kept waiting for long enough")]
    Opened,
    /// What may succeed later did not, too often.
    #[error("given up after {tries} tries: {last}")]
    GivenUp {
        /// How many.
        tries: u32,
        /// What the last one said.
        last: Box<JobError>,
    },
    /// What is in the job's row cannot be read.
    #[error("the job's row cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl JobError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::Log(error) => error.is_retryable(),
            Self::Fold(ProcessorError::Store(error)) => error.is_retryable(),
            Self::Opened => true,
            _ => false,
        }
    }
}

/// What has to be left of a closing before tables are exchanged behind it: many times what an exchange takes.
const EXCHANGE_TIME: Duration = Duration::from_secs(5);

/// Time for a job to come to the end of a piece of work after the word to stop.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Does jobs until told to stop.
pub struct Runner {
    parts: JobParts,
    name: String,
}

impl Runner {
    /// A runner with a name of its own.
    pub fn new(parts: JobParts) -> Self {
        let name = format!("runner_{:032x}", random());
        Self { parts, name }
    }

    /// Does jobs until `stop` becomes true or its sender is gone; the job in hand is left where it stands, for the
    /// next process. Failures of a job end that job; what the store or the log cannot do now is tried again.
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
            // Between jobs: what they remove is not lost.
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
        let mut pause = Pause::new(RETRY_PAUSE_MAX);
        let mut tries = Tries::default();
        let outcome = loop {
            // Cancelled, it is let go even if none of its steps succeeds.
            if let Err(end) = desk.go_on() {
                break Err(end);
            }
            let gate = self.parts.gate.clone();
            let outcome = tokio::select! {
                outcome = run_kind(&mut desk) => outcome,
                () = given_up(stop.clone(), gate) => Err(JobError::Stopped),
            };
            match outcome {
                Err(error) if error.is_retryable() => {
                    if !tries.has_another(&error, &desk.job) {
                        break Err(tries.given_up(error));
                    }
                    tracing::warn!(error = %error, job.id = desk.job.job_id, "a job waits");
                    if !pause.wait(stop).await {
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
                return;
            }
            // The next runner takes it up at once.
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

/// Returns when the job in hand has to be left wherever it stands: a while after the word to stop, because some
/// statements take minutes, and never while the job has closed the gate.
async fn given_up(mut stop: watch::Receiver<bool>, gate: Gate) {
    stopped_by(&mut stop).await;
    tokio::time::sleep(STOP_GRACE).await;
    gate.not_closed_here().await;
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

/// Unlike that of any other process, or of another call.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = |salt: u32| u128::from(RandomState::new().hash_one((salt, std::process::id())));
    half(1) << 64 | half(2)
}
