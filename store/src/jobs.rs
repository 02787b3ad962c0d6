//! Long-running work: requests, progress, and results.
//!
//! A job is one row that is replaced by versions. A request creates it as `queued`; a runner takes it, makes it
//! `running`, stores its progress after every piece of work, and ends it. A runner that was killed leaves a running job
//! behind, which another one continues from its checkpoint.
//!
//! A deployment runs one job at a time. The queue is the table: interrupted jobs first, then the oldest.

mod queue;
mod row;

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Store;
use crate::error::StoreError;
pub use queue::{QUEUED_MAX, Queue};
use row::{COLUMNS, JobRow, insert};
pub use row::{Job, JobKind, JobState};

/// How long a running job may be silent before another process takes it over. Runners write every few seconds.
pub const LEASE: Duration = Duration::from_secs(60);
/// Maximum number of jobs in a list.
pub const JOBS_LISTED_MAX: u64 = 1000;
/// A cancellation adds this to a job's version, a runner's progress 1: the cancellation wins whichever process writes
/// last.
const CANCEL_STEP: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub struct NewJob {
    pub kind: JobKind,
    /// The project that it is limited to; `None` for the whole deployment.
    pub project_id: Option<String>,
    /// JSON of the kind's own format.
    pub parameters: String,
}

/// Result of a request for a job. Places in the queue begin at 1.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The job was created and has this place in the queue.
    Made(Job, u64),
    /// This job was requested before with the same parameters, and has not started yet.
    Same(Job, u64),
    /// The queue is full.
    Full,
}

/// The jobs of a deployment. Clones, also of clones of one [`Store`], notify each other of changes at once; other
/// processes have to poll.
#[derive(Clone)]
pub struct Jobs {
    store: Store,
}

impl Store {
    pub fn jobs(&self) -> Jobs {
        Jobs {
            store: self.clone(),
        }
    }
}

impl Jobs {
    /// Changes whenever a job was created or canceled in this process, or in another one after [`Jobs::heard`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.store.jobs.changed.subscribe()
    }

    /// Changes whenever a job was created or canceled in this process, so that it is published to the others.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.store.jobs.queued_here.subscribe()
    }

    /// Call when another process created or canceled a job.
    pub fn heard(&self) {
        self.store.jobs.changed.send_modify(|count| *count += 1);
    }

    fn changed(&self) {
        self.store.jobs.queued_here.send_modify(|count| *count += 1);
        self.heard();
    }

    /// Queues a job, unless an equal one is queued. A job that already runs may have passed what has changed since, so an
    /// equal request is queued behind it.
    pub async fn create(&self, new: NewJob, now_ms: i64) -> Result<Asked, StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let job = Job {
            job_id: format!("job_{:024x}", rand::random::<u128>() >> 32),
            version: 1,
            kind: new.kind,
            project_id: new.project_id.unwrap_or_default(),
            state: JobState::Queued,
            runner: String::new(),
            parameters: new.parameters,
            checkpoint: String::new(),
            done: 0,
            total: 0,
            changed: 0,
            report: String::new(),
            error: String::new(),
            created_at: now_ms,
            started_at: None,
            updated_at: now_ms,
            ended_at: None,
        };
        let queue = self.queue().await?;
        if let Some((same, place)) = queue.same(&job) {
            return Ok(Asked::Same(same, place));
        }
        if queue.is_full(&job.project_id) {
            return Ok(Asked::Full);
        }
        insert(&self.store, &job).await?;
        // Another process may have created an equal one at the same moment: both see both, and the later one yields.
        let queue = self.queue().await?;
        let place = queue.place(&job.job_id);
        if let Some((same, its_place)) = queue.same(&job)
            && its_place < place
        {
            let mut given_up = job;
            given_up.state = JobState::Cancelled;
            given_up.version = CANCEL_STEP;
            given_up.ended_at = Some(now_ms);
            insert(&self.store, &given_up).await?;
            return Ok(Asked::Same(same, its_place));
        }
        self.changed();
        Ok(Asked::Made(job, place))
    }

    /// The queued jobs.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        Ok(Queue::of(self.open().await?))
    }

    /// Jobs that are queued or running, in the order in which they run: those that a runner had before, then the
    /// oldest.
    pub async fn open(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs FINAL WHERE state IN ('queued', 'running') \
             ORDER BY started_at IS NULL, created_at, job_id LIMIT {JOBS_LISTED_MAX}"
        );
        read(self.store.bounded_query(&sql).rows().await?)
    }

    /// The newest jobs first, of the given projects only, if any are given; at most `limit`, which is at most
    /// [`JOBS_LISTED_MAX`].
    pub async fn list(
        &self,
        projects: Option<&[String]>,
        limit: u64,
    ) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs FINAL WHERE {{all:UInt8}} OR project_id IN {{projects:Array(String)}} \
             ORDER BY created_at DESC, job_id LIMIT {{limit:UInt64}}"
        );
        let query = self.store.bounded_query(&sql);
        let query = query
            .param("all", u8::from(projects.is_none()))
            .param("projects", projects.unwrap_or_default())
            .param("limit", limit.min(JOBS_LISTED_MAX));
        read(query.rows().await?)
    }

    pub async fn get(&self, job_id: &str) -> Result<Option<Job>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs FINAL WHERE job_id = {{job:String}}");
        let row: Option<JobRow> = self
            .store
            .bounded_query(&sql)
            .param("job", job_id)
            .optional()
            .await?;
        row.map(Job::try_from).transpose()
    }

    /// Takes the first job that is queued, or whose runner is dead, for this runner. In a single process
    /// (`standalone`), every running job of another runner was left by a process that died. In a deployment of several,
    /// none is taken while another runner works, if only to stop: jobs of a kind share their tables.
    pub async fn claim(&self, runner: &str, now_ms: i64) -> Result<Option<Job>, StoreError> {
        let alone = self.store.config.standalone;
        let lease_ms = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        let found = {
            let _turn = self.store.jobs.change.lock().await;
            let is_free = |job: &Job| match job.state {
                JobState::Queued => true,
                JobState::Running => {
                    job.runner != runner
                        && (alone || job.updated_at < now_ms.saturating_sub(lease_ms))
                }
                _ => false,
            };
            if !alone && self.is_one_stopping(runner, now_ms - lease_ms).await? {
                return Ok(None);
            }
            let open = self.open().await?;
            let is_at_work =
                |job: &Job| job.state == JobState::Running && job.runner != runner && !is_free(job);
            if open.iter().any(is_at_work) {
                return Ok(None);
            }
            let Some(mut job) = open.into_iter().find(is_free) else {
                return Ok(None);
            };
            job.version += 1;
            job.state = JobState::Running;
            job.runner = runner.to_owned();
            job.started_at.get_or_insert(now_ms);
            job.updated_at = now_ms;
            insert(&self.store, &job).await?;
            job
        };
        if alone {
            return Ok(Some(found));
        }
        // Another process may have taken the same job: after a moment both see whose row won.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let running = self.open().await?;
        let is_others = |job: &Job| {
            let is_alive = job.updated_at >= now_ms.saturating_sub(lease_ms);
            job.state == JobState::Running && (job.runner != runner && is_alive)
        };
        let is_mine = |job: &Job| job.job_id == found.job_id && job.runner == runner;
        // Or another one: the first job of the two wins.
        let mut running = running
            .into_iter()
            .filter(|job| is_others(job) || is_mine(job));
        let Some(first) = running.next().filter(is_mine) else {
            self.give_back(&found.job_id, runner, now_ms).await?;
            return Ok(None);
        };
        Ok(Some(first))
    }

    /// Whether another runner has been at work on a canceled job since then.
    async fn is_one_stopping(&self, runner: &str, since_ms: i64) -> Result<bool, StoreError> {
        let sql = "SELECT count() FROM jobs FINAL WHERE state = 'cancelled' AND runner NOT IN ('', {runner:String}) \
                   AND updated_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC')";
        let query = self.store.bounded_query(sql);
        let query = query.param("runner", runner).param("since", since_ms);
        let found: u64 = query.one().await?;
        Ok(found > 0)
    }

    /// Call when the runner of a canceled job has stopped: the next job may begin.
    pub async fn stopped(&self, job_id: &str, runner: &str, now_ms: i64) -> Result<(), StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let stands = self.get(job_id).await?;
        let mine = stands.filter(|job| job.state == JobState::Cancelled && job.runner == runner);
        if let Some(mut job) = mine {
            job.version += 1;
            job.runner.clear();
            job.updated_at = now_ms;
            insert(&self.store, &job).await?;
            self.changed();
        }
        Ok(())
    }

    /// Queues the job again, if it is this runner's.
    async fn give_back(&self, job_id: &str, runner: &str, now_ms: i64) -> Result<(), StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let stands = self.get(job_id).await?;
        let mine = stands.filter(|job| job.state == JobState::Running && job.runner == runner);
        if let Some(mut job) = mine {
            job.version += 1;
            job.state = JobState::Queued;
            job.updated_at = now_ms;
            insert(&self.store, &job).await?;
        }
        Ok(())
    }

    /// Stores the progress: all fields of `job` except its identity. `false`, and nothing is written, when the job is
    /// no longer this runner's, because it was canceled or taken over.
    pub async fn write(&self, job: &mut Job, now_ms: i64) -> Result<bool, StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let stands = self.get(&job.job_id).await?;
        let Some(stands) = stands.filter(|stands| {
            stands.state == JobState::Running
                && stands.runner == job.runner
                && stands.version < CANCEL_STEP
        }) else {
            return Ok(false);
        };
        job.version = stands.version + 1;
        job.updated_at = now_ms;
        insert(&self.store, job).await?;
        if job.state.is_over() {
            self.changed();
        }
        Ok(true)
    }

    /// Renews the runner's ownership. `false` when the job is no longer this runner's; one that was canceled stays in
    /// the way of others until [`Jobs::stopped`].
    pub async fn beat(&self, job_id: &str, runner: &str, now_ms: i64) -> Result<bool, StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let stands = self.get(job_id).await?;
        let is_own = |job: &Job| {
            job.runner == runner && matches!(job.state, JobState::Running | JobState::Cancelled)
        };
        let Some(mut stands) = stands.filter(is_own) else {
            return Ok(false);
        };
        stands.version += 1;
        stands.updated_at = now_ms;
        insert(&self.store, &stands).await?;
        Ok(stands.state == JobState::Running)
    }

    /// Ends a job that is queued or running; its runner stops at its next step. Returns the job's new state; `None`
    /// when there is no such job.
    pub async fn cancel(&self, job_id: &str, now_ms: i64) -> Result<Option<Job>, StoreError> {
        let _turn = self.store.jobs.change.lock().await;
        let Some(mut job) = self.get(job_id).await? else {
            return Ok(None);
        };
        if !job.state.is_over() {
            job.version += CANCEL_STEP;
            if job.state == JobState::Queued {
                job.runner.clear();
            }
            job.state = JobState::Cancelled;
            job.updated_at = now_ms;
            job.ended_at = Some(now_ms);
            insert(&self.store, &job).await?;
            self.changed();
        }
        Ok(Some(job))
    }
}

fn read(rows: Vec<JobRow>) -> Result<Vec<Job>, StoreError> {
    rows.into_iter().map(Job::try_from).collect()
}
