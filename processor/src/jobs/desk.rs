//! What every job needs while it runs: its row, the stop signal, and a way to wait for the processor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use eventlog::{Position, Record};
use futures::StreamExt;
use futures::stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::jobs::Job;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{JobError, JobParts, RETRY_PAUSE_MAX, now_ms};
use crate::backoff::Backoff;
use crate::config::GROUP;
use crate::stop::stopped_by;

/// How often the runner publishes that it is alive, and checks whether the job was canceled elsewhere.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How often a job that waits for the processor reads its progress.
const LAG_INTERVAL: Duration = Duration::from_millis(50);

/// Concurrent appends to the log: they share its `fsync`.
const APPENDS: usize = 16;

/// By partition, the offset after the last record.
pub(crate) type Ends = BTreeMap<u32, u64>;

/// A job in hand.
pub(crate) struct Desk {
    pub(crate) parts: JobParts,
    pub(crate) job: Job,
    stop: watch::Receiver<bool>,
    gone: watch::Receiver<bool>,
    heart: JoinHandle<()>,
    is_finishing: bool,
    /// The number of partitions that keys were placed by when the job last appended or read the ends of the log;
    /// [`UNKNOWN`] when the log had another number of partitions.
    placed_by: AtomicU32,
}

const UNKNOWN: u32 = u32::MAX;

impl Drop for Desk {
    fn drop(&mut self) {
        self.heart.abort();
    }
}

impl Desk {
    pub(crate) fn new(parts: JobParts, job: Job, stop: watch::Receiver<bool>) -> Self {
        let (tell_gone, gone) = watch::channel(false);
        let heart = tokio::spawn(beat(parts.clone(), job.clone(), tell_gone));
        Self {
            parts,
            job,
            stop,
            gone,
            heart,
            is_finishing: false,
            placed_by: AtomicU32::new(0),
        }
    }

    /// The job's parameters.
    pub(crate) fn parameters<T: DeserializeOwned>(&self) -> Result<T, JobError> {
        Ok(serde_json::from_str(&self.job.parameters)?)
    }

    /// The default for a job that has no checkpoint.
    pub(crate) fn checkpoint<T: DeserializeOwned + Default>(&self) -> Result<T, JobError> {
        match self.job.checkpoint.as_str() {
            "" => Ok(T::default()),
            text => Ok(serde_json::from_str(text)?),
        }
    }

    /// Stores a checkpoint. Fails with `Gone` if another runner has the job.
    pub(crate) async fn stand_at(&mut self, checkpoint: &impl Serialize) -> Result<(), JobError> {
        self.job.checkpoint = serde_json::to_string(checkpoint)?;
        match self
            .parts
            .store
            .jobs()
            .write(&mut self.job, now_ms())
            .await?
        {
            true => self.go_on(),
            false => Err(JobError::Gone),
        }
    }

    /// Fails when the process stops or the job was canceled.
    pub(crate) fn go_on(&self) -> Result<(), JobError> {
        if *self.gone.borrow() && !self.is_finishing {
            return Err(JobError::Gone);
        }
        if *self.stop.borrow() {
            return Err(JobError::Stopped);
        }
        Ok(())
    }

    /// Fails when the job was canceled or another runner has it. Reads the table, for work that two runners must not
    /// do. Call it while holding the barrier, so that another runner cannot begin.
    pub(crate) async fn is_mine(&self) -> Result<(), JobError> {
        let Job { job_id, runner, .. } = &self.job;
        let is_mine = self
            .parts
            .store
            .jobs()
            .beat(job_id, runner, now_ms())
            .await?;
        is_mine.then_some(()).ok_or(JobError::Gone)
    }

    /// Runs a long operation and drops it in the middle when the process stops, so it has to be repeatable.
    pub(crate) async fn unless_stopped<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, JobError>
    where
        JobError: From<E>,
    {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = stopped_by(&mut stop) => Err(JobError::Stopped),
        }
    }

    /// The current ends of the log.
    pub(crate) async fn log_ends(&self) -> Result<Ends, JobError> {
        self.placed_by.store(self.placing(), Ordering::Release);
        let lags = self.parts.log.lag(GROUP).await?;
        Ok(lags.iter().map(|lag| (lag.partition, lag.end)).collect())
    }

    fn placing(&self) -> u32 {
        let placed_by = self.parts.barrier.partitions();
        match placed_by == 0 || placed_by == self.parts.log.partitions() {
            true => placed_by,
            false => UNKNOWN,
        }
    }

    /// Appends records durably, and raises `ends` to the offsets after them.
    pub(crate) async fn append(
        &self,
        records: Vec<Record>,
        ends: &mut Ends,
    ) -> Result<(), JobError> {
        let placing = self.placing();
        let before = self.placed_by.swap(placing, Ordering::AcqRel);
        if before != placing {
            self.placed_by.store(UNKNOWN, Ordering::Release);
        }
        let appends = records
            .into_iter()
            .map(|record| self.parts.log.append(record));
        let mut appended = stream::iter(appends).buffered(APPENDS);
        while let Some(position) = appended.next().await {
            let Position { partition, offset } = position?;
            let end = ends.entry(partition).or_insert(0);
            *end = offset.saturating_add(1).max(*end);
        }
        Ok(())
    }

    /// Ends the work on a job that is not this runner's any more, so that the next one may begin.
    pub(crate) async fn leave(self) {
        let Job { job_id, runner, .. } = self.job.clone();
        let jobs = self.parts.store.jobs();
        drop(self);
        if let Err(error) = jobs.stopped(&job_id, &runner, now_ms()).await {
            // The next job begins when the lease of this runner has expired.
            tracing::warn!(error = %error, job.id = job_id, "the end of a canceled job cannot be written now");
        }
    }

    /// From here on a cancellation has no effect: the job completes what it began.
    pub(crate) fn finish_anyway(&mut self) {
        self.is_finishing = true;
    }

    /// Waits until the processors have stored and committed everything below these offsets, including records moved to
    /// another partition.
    pub(crate) async fn processed_up_to(&mut self, ends: &Ends) -> Result<(), JobError> {
        let mut ends = ends.clone();
        loop {
            let before = self.placed_by.load(Ordering::Acquire);
            self.committed_up_to(&ends).await?;
            let now = self.placing();
            if now == before && now != UNKNOWN {
                return Ok(());
            }
            // Records may have been moved to another partition before they were committed.
            self.go_on()?;
            tokio::time::sleep(LAG_INTERVAL).await;
            ends = self.log_ends().await?;
        }
    }

    async fn committed_up_to(&self, ends: &Ends) -> Result<(), JobError> {
        loop {
            let lags = self.parts.log.lag(GROUP).await?;
            let is_behind = lags.iter().any(|lag| {
                // A log that was emptied ends below the offsets; it will not reach them.
                let end = ends.get(&lag.partition).copied().unwrap_or(0).min(lag.end);
                lag.committed < end
            });
            if !is_behind {
                return Ok(());
            }
            self.go_on()?;
            let mut stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(LAG_INTERVAL) => {}
                () = stopped_by(&mut stop) => {}
            }
        }
    }

    /// Drops text that may be why the row was rejected: a job without a report is better than one that never ends and
    /// blocks all others. `false` when nothing is left to drop.
    fn give_up_text(&mut self) -> bool {
        let had_any = !self.job.checkpoint.is_empty() || !self.job.report.is_empty();
        self.job.checkpoint.clear();
        self.job.report.clear();
        had_any
    }

    /// Stores the end of the job, or that it waits for another runner.
    pub(crate) async fn end(mut self) {
        if self.job.state.is_over() {
            self.job.ended_at = Some(now_ms());
        }
        let mut backoff = Backoff::new(RETRY_PAUSE_MAX);
        loop {
            match self.parts.store.jobs().write(&mut self.job, now_ms()).await {
                Ok(true) => return,
                Ok(false) => return self.leave().await,
                // If this is not stored, the job is taken over and ends again.
                Err(error) => {
                    tracing::warn!(error = %error, job.id = self.job.job_id, "the end of a job cannot be written now");
                    if error.is_retryable() {
                        if !backoff.wait(&self.stop).await {
                            return;
                        }
                    } else if !self.give_up_text() {
                        return;
                    }
                }
            }
        }
    }
}

/// Renews this runner's ownership of the job, and sets `gone` when the job is canceled or another runner's.
async fn beat(parts: JobParts, job: Job, gone: watch::Sender<bool>) {
    let jobs = parts.store.jobs();
    let mut changes = jobs.changes();
    loop {
        tokio::select! {
            () = tokio::time::sleep(BEAT_INTERVAL) => {}
            _ = changes.changed() => {}
        }
        if let Ok(false) = jobs.beat(&job.job_id, &job.runner, now_ms()).await {
            gone.send_replace(true);
        }
    }
}
