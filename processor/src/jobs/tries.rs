//! How often a step is retried before its job fails.

use store::StoreError;
use store::jobs::Job;

use super::JobError;
use crate::error::ProcessorError;

/// Attempts without progress for a store that answers with errors: with the pauses between them, more than five
/// minutes. A store or a log that is away is retried without end, as in all other parts.
const TRIES_MAX: u32 = 40;

/// Failed attempts in a row.
#[derive(Debug, Default)]
pub(super) struct Tries {
    failed: u32,
    checkpoint: String,
    done: u64,
}

impl Tries {
    /// Counts a failed attempt; whether another one follows.
    pub(super) fn has_another(&mut self, error: &JobError, job: &Job) -> bool {
        if job.checkpoint != self.checkpoint || job.done > self.done {
            self.failed = 0;
            self.checkpoint.clone_from(&job.checkpoint);
            self.done = job.done;
        }
        if is_overload(error) {
            self.failed += 1;
        }
        self.failed < TRIES_MAX
    }

    /// The error of a job that has used up its attempts.
    pub(super) fn given_up(&self, last: JobError) -> JobError {
        JobError::GivenUp {
            tries: self.failed,
            last: Box::new(last),
        }
    }
}

/// Whether the store answered with an error, or did not answer within an hour.
fn is_overload(error: &JobError) -> bool {
    matches!(
        error,
        JobError::Store(StoreError::Overloaded { .. } | StoreError::TimedOut(_))
            | JobError::Fold(ProcessorError::Store(
                StoreError::Overloaded { .. } | StoreError::TimedOut(_)
            ))
    )
}

#[cfg(test)]
mod tests {
    use store::jobs::{JobKind, JobState};

    use super::*;

    fn job() -> Job {
        Job {
            job_id: "job_1".to_owned(),
            version: 1,
            kind: JobKind::Retention,
            project_id: String::new(),
            state: JobState::Running,
            runner: "runner".to_owned(),
            parameters: String::new(),
            checkpoint: String::new(),
            done: 0,
            total: 0,
            changed: 0,
            report: String::new(),
            error: String::new(),
            created_at: 0,
            started_at: None,
            updated_at: 0,
            ended_at: None,
        }
    }

    fn memory() -> JobError {
        JobError::Store(StoreError::Overloaded {
            code: 241,
            message: "Memory limit exceeded".to_owned(),
        })
    }

    #[test]
    fn a_step_that_never_fits_into_memory_ends_its_job_and_progress_gives_new_tries() {
        let (mut tries, mut job) = (Tries::default(), job());
        for _ in 1..TRIES_MAX {
            assert!(tries.has_another(&memory(), &job));
        }
        job.done = 1;
        for _ in 1..TRIES_MAX {
            assert!(tries.has_another(&memory(), &job), "it got on");
        }
        assert!(!tries.has_another(&memory(), &job));
        let error = tries.given_up(memory());
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(
            text.contains("40 tries") && text.contains("Memory limit"),
            "{text}"
        );
    }

    #[test]
    fn a_store_that_is_away_is_waited_for() {
        let (mut tries, job) = (Tries::default(), job());
        let away = JobError::Store(StoreError::Unavailable("connection refused".to_owned()));
        assert!((0..10 * TRIES_MAX).all(|_| tries.has_another(&away, &job)));
    }
}
