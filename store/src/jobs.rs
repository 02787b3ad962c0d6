//! Long work: who asked for what, how far it is, and what came of it.
//!
//! A job is one row that is replaced by versions. Whoever asks makes it `queued`; a runner makes it `running` and
//! its own, writes how far it is after every piece of work, and ends it. A runner that was killed leaves a running
//! job behind, which is taken up again from its checkpoint.

mod row;

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Store;
use crate::error::StoreError;
use row::{COLUMNS, JobRow, insert};
pub use row::{Job, JobKind, JobState};

/// How long a running job may be silent before another process takes it up. Runners write every few seconds.
pub const LEASE: Duration = Duration::from_secs(60);
/// Jobs in one list at most.
pub const JOBS_LISTED_MAX: u64 = 1000;
/// A cancellation adds this much to a job's version, a runner's progress 1: whichever process writes last, the
/// cancellation counts.
const CANCEL_STEP: u64 = 1 << 32;

/// What somebody asks for.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What kind of work.
    pub kind: JobKind,
    /// The project it is limited to; `None` for the whole deployment.
    pub project_id: Option<String>,
    /// What it was asked to do, as JSON of the kind's own shape.
    pub parameters: String,
}

/// The answer to whoever asked for a job.
#[derive(Clone, Debug)]
pub enum Asked {
    /// It is made and waits for a runner.
    Made(Job),
    /// This one is not over yet and works on the same data.
    Busy(Job),
}

/// Counts what happened to jobs.
#[derive(Debug, Default)]
pub(crate) struct JobChanges {
    /// In this process.
    made_here: watch::Sender<u64>,
    /// In any process, as far as this one heard of it.
    all: watch::Sender<u64>,
}

/// The jobs of a deployment. Clones, and those of all clones of one [`Store`], tell each other of changes at once;
/// other processes have to look.
#[derive(Clone)]
pub struct Jobs {
    store: Store,
}

impl Store {
    /// The jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs {
            store: self.clone(),
        }
    }
}

impl Jobs {
    /// Changes whenever a job was made or cancelled in this process, or in another one that [`Jobs::heard`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.store.job_changes.all.subscribe()
    }

    /// Changes whenever a job was made or cancelled in this process: others have to hear of it.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.store.job_changes.made_here.subscribe()
    }

    /// Another process made or cancelled a job.
    pub fn heard(&self) {
        self.store.job_changes.all.send_modify(|count| *count += 1);
    }

    fn changed(&self) {
        self.store
            .job_changes
            .made_here
            .send_modify(|count| *count += 1);
        self.heard();
    }

    /// Makes a job, unless one that works on the same data is queued or running: two of one project, or any two of
    /// which one is for the whole deployment.
    pub async fn create(&self, new: NewJob, now_ms: i64) -> Result<Asked, StoreError> {
        let _turn = self.store.job_turn.lock().await;
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
        let in_the_way =
            |other: &Job| other.job_id != job.job_id && other.overlaps(&job.project_id);
        if let Some(busy) = self.open().await?.into_iter().find(in_the_way) {
            return Ok(Asked::Busy(busy));
        }
        insert(&self.store, &job).await?;
        // Another process may have asked in the same moment: both see both, and the later one gives way.
        let place = |job: &Job| (job.created_at, job.job_id.clone());
        let earlier = |other: &Job| in_the_way(other) && place(other) < place(&job);
        if let Some(busy) = self.open().await?.into_iter().find(earlier) {
            let mut given_up = job;
            given_up.state = JobState::Cancelled;
            given_up.version = CANCEL_STEP;
            given_up.ended_at = Some(now_ms);
            insert(&self.store, &given_up).await?;
            return Ok(Asked::Busy(busy));
        }
        self.changed();
        Ok(Asked::Made(job))
    }

    /// Jobs that are queued or running, oldest first.
    pub async fn open(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs FINAL WHERE state IN ('queued', 'running') ORDER BY created_at, job_id LIMIT {JOBS_LISTED_MAX}"
        );
        read(self.store.bounded_query(&sql).rows().await?)
    }

    /// The newest jobs first, those of some projects only if given; at most `limit`, which is at most
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

    /// One job.
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

    /// Takes the oldest job that waits, or whose runner is gone, for this runner. Where this process is the only one
    /// (`standalone`), every running job that is not this runner's was left by a process that died. Elsewhere none is
    /// taken while another runner is at work: jobs of a kind share their tables.
    pub async fn claim(&self, runner: &str, now_ms: i64) -> Result<Option<Job>, StoreError> {
        let alone = self.store.config.standalone;
        let lease_ms = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        let found = {
            let _turn = self.store.job_turn.lock().await;
            let is_free = |job: &Job| match job.state {
                JobState::Queued => true,
                JobState::Running => {
                    job.runner != runner
                        && (alone || job.updated_at < now_ms.saturating_sub(lease_ms))
                }
                _ => false,
            };
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
        // Another process may have taken the same job: after a moment both see whose row stands.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let running = self.open().await?;
        let is_others = |job: &Job| {
            let is_alive = job.updated_at >= now_ms.saturating_sub(lease_ms);
            job.state == JobState::Running && (job.runner != runner && is_alive)
        };
        let is_mine = |job: &Job| job.job_id == found.job_id && job.runner == runner;
        // Or another one: the older job goes first.
        let mut running = running
            .into_iter()
            .filter(|job| is_others(job) || is_mine(job));
        let Some(first) = running.next().filter(is_mine) else {
            self.give_back(&found.job_id, runner, now_ms).await?;
            return Ok(None);
        };
        Ok(Some(first))
    }

    /// Lets the job wait again, if it is this runner's.
    async fn give_back(&self, job_id: &str, runner: &str, now_ms: i64) -> Result<(), StoreError> {
        let _turn = self.store.job_turn.lock().await;
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

    /// Writes how far the job is: everything of `job` but who it is. `false` when it is not this runner's any more,
    /// because somebody cancelled it or took it over; then nothing is written.
    pub async fn write(&self, job: &mut Job, now_ms: i64) -> Result<bool, StoreError> {
        let _turn = self.store.job_turn.lock().await;
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

    /// Says that the runner is alive. `false` when the job is not this runner's any more.
    pub async fn beat(&self, job_id: &str, runner: &str, now_ms: i64) -> Result<bool, StoreError> {
        let _turn = self.store.job_turn.lock().await;
        let stands = self.get(job_id).await?;
        let Some(mut stands) =
            stands.filter(|stands| stands.state == JobState::Running && stands.runner == runner)
        else {
            return Ok(false);
        };
        stands.version += 1;
        stands.updated_at = now_ms;
        insert(&self.store, &stands).await?;
        Ok(true)
    }

    /// Ends a job that is queued or running; its runner stops at its next step. Gives the job as it is then; `None`
    /// when there is no such job.
    pub async fn cancel(&self, job_id: &str, now_ms: i64) -> Result<Option<Job>, StoreError> {
        let _turn = self.store.job_turn.lock().await;
        let Some(mut job) = self.get(job_id).await? else {
            return Ok(None);
        };
        if !job.state.is_over() {
            job.version += CANCEL_STEP;
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
