//! The jobs that wait for a runner.

use super::row::{Job, JobState};

/// Maximum number of queued jobs, of one project or for the whole deployment (X1): equal requests are one job, and
/// each job delays all behind it.
pub const QUEUED_MAX: usize = 20;
/// Maximum number of queued jobs of all projects together (X1); all open jobs fit into one read.
const QUEUED_IN_ALL_MAX: usize = 500;

/// The queued jobs, in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Queue(Vec<Job>);

impl Queue {
    pub(super) fn of(open: Vec<Job>) -> Self {
        let is_queued = |job: &Job| job.state == JobState::Queued;
        Self(open.into_iter().filter(is_queued).collect())
    }

    /// The place of a queued job, from 1. A job that was queued after this queue was read is behind all others.
    pub fn place(&self, job_id: &str) -> u64 {
        let before = self.0.iter().take_while(|job| job.job_id != job_id);
        before.count() as u64 + 1
    }

    /// The job that does what `new` asks for, and its place.
    pub(super) fn same(&self, new: &Job) -> Option<(Job, u64)> {
        let request = |job: &Job| (job.kind, job.project_id.clone(), job.parameters.clone());
        let is_same = |job: &&Job| {
            job.job_id != new.job_id && job.started_at.is_none() && request(job) == request(new)
        };
        let job = self.0.iter().find(is_same)?;
        Some((job.clone(), self.place(&job.job_id)))
    }

    pub(super) fn is_full(&self, project_id: &str) -> bool {
        let own = self.0.iter().filter(|job| job.project_id == project_id);
        own.count() >= QUEUED_MAX || self.0.len() >= QUEUED_IN_ALL_MAX
    }
}
