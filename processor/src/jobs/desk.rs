//! What every job needs while it runs: its row, the word to stop, and the way to wait for the processor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use eventlog::{Position, Record};
use futures::StreamExt;
use futures::stream;
use schemas::reprice::Encoded;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::jobs::Job;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{JobError, JobParts, RETRY_PAUSE_MAX, now_ms};
use crate::GROUP;
use crate::patient::Pause;
use crate::processor::stopped_by;

/// How often the runner says that it is alive, and looks whether the job was cancelled elsewhere.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How often the processor's progress is looked at while a job waits for it.
const LAG_INTERVAL: Duration = Duration::from_millis(50);

/// Records on their way into the log at the same time: they share its `fsync`.
const APPENDS: usize = 16;

/// Offsets by partition: each the one after the last record.
pub(crate) type Ends = BTreeMap<u32, u64>;

/// A job in hand.
pub(crate) struct Desk {
    pub(crate) parts: JobParts,
    pub(crate) job: Job,
    stop: watch::Receiver<bool>,
    gone: watch::Receiver<bool>,
    heart: JoinHandle<()>,
    is_finishing: bool,
    /// By how many partitions records were placed when something was last appended or the log's ends were looked at;
    /// [`UNSETTLED`] when the log had another number of them.
    placed_by: AtomicU32,
}

/// No number of partitions.
const UNSETTLED: u32 = u32::MAX;

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

    /// What the job was asked to do.
    pub(crate) fn parameters<T: DeserializeOwned>(&self) -> Result<T, JobError> {
        Ok(serde_json::from_str(&self.job.parameters)?)
    }

    /// Where it stands; the beginning when it never stood anywhere.
    pub(crate) fn checkpoint<T: DeserializeOwned + Default>(&self) -> Result<T, JobError> {
        match self.job.checkpoint.as_str() {
            "" => Ok(T::default()),
            text => Ok(serde_json::from_str(text)?),
        }
    }

    /// Writes how far the job is. An error of kind `Gone` when that is nobody's business any more.
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

    /// An error when the process stops or the job was cancelled.
    pub(crate) fn go_on(&self) -> Result<(), JobError> {
        if *self.gone.borrow() && !self.is_finishing {
            return Err(JobError::Gone);
        }
        if *self.stop.borrow() {
            return Err(JobError::Stopped);
        }
        Ok(())
    }

    /// An error when the job is another runner's by now, or cancelled: asked of the table, for what must not be done
    /// by two. To be asked behind the closed gate, where the other one cannot begin.
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

    /// Does what takes long, unless the process stops: then it is dropped in the middle, so it has to be something that
    /// can be done again.
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

    /// Where the log ends now.
    pub(crate) async fn log_ends(&self) -> Result<Ends, JobError> {
        self.placed_by.store(self.placing(), Ordering::Release);
        let lags = self.parts.log.lag(GROUP).await?;
        Ok(lags.iter().map(|lag| (lag.partition, lag.end)).collect())
    }

    fn placing(&self) -> u32 {
        let placed_by = self.parts.gate.placed_by();
        match placed_by == 0 || placed_by == self.parts.log.partitions() {
            true => placed_by,
            false => UNSETTLED,
        }
    }

    /// Appends records, durably when it returns, and notes where they ended up.
    pub(crate) async fn append(
        &self,
        records: Vec<Record>,
        ends: &mut Ends,
    ) -> Result<(), JobError> {
        let placing = self.placing();
        let before = self.placed_by.swap(placing, Ordering::AcqRel);
        if before != placing {
            self.placed_by.store(UNSETTLED, Ordering::Release);
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

    /// From here on a cancellation changes nothing: what was begun is brought to its end.
    pub(crate) fn finish_anyway(&mut self) {
        self.is_finishing = true;
    }

    /// Waits until the processors have stored and committed everything below these offsets, wherever it was moved.
    pub(crate) async fn processed_up_to(&mut self, ends: &Ends) -> Result<(), JobError> {
        let mut ends = ends.clone();
        loop {
            let before = self.placed_by.load(Ordering::Acquire);
            self.committed_up_to(&ends).await?;
            let now = self.placing();
            if now == before && now != UNSETTLED {
                return Ok(());
            }
            // Some of it may have been appended again elsewhere before it was committed where it lay.
            self.go_on()?;
            tokio::time::sleep(LAG_INTERVAL).await;
            ends = self.log_ends().await?;
        }
    }

    async fn committed_up_to(&self, ends: &Ends) -> Result<(), JobError> {
        loop {
            let lags = self.parts.log.lag(GROUP).await?;
            let is_behind = lags.iter().any(|lag| {
                // A log that was emptied ends below what was noted; nothing above its end will ever come.
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

    /// Throws away what may be why the row was refused: a job without a report is better than one that never ends and
    /// keeps all others waiting. `false` when there is nothing left to throw away.
    fn give_up_text(&mut self) -> bool {
        let had_any = !self.job.checkpoint.is_empty() || !self.job.report.is_empty();
        self.job.checkpoint.clear();
        self.job.report.clear();
        had_any
    }

    /// Writes the end of the job, or that it waits for another runner.
    pub(crate) async fn end(mut self) {
        if self.job.state.is_over() {
            self.job.ended_at = Some(now_ms());
        }
        let mut pause = Pause::new(RETRY_PAUSE_MAX);
        loop {
            match self.parts.store.jobs().write(&mut self.job, now_ms()).await {
                Ok(_) => return,
                // Not written, it is taken up again and ends again.
                Err(error) => {
                    tracing::warn!(error = %error, job.id = self.job.job_id, "the end of a job cannot be written now");
                    if error.is_retryable() {
                        if !pause.wait(&self.stop).await {
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

/// A record of the log from its parts.
pub(crate) fn record((key, headers, payload): Encoded) -> Record {
    let headers = headers.into_iter();
    Record {
        key: Bytes::from(key),
        headers: headers
            .map(|(name, value)| (name, Bytes::from(value)))
            .collect(),
        payload: Bytes::from(payload),
    }
}

/// Keeps the job this runner's until the job is gone.
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
            return;
        }
    }
}
