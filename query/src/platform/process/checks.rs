//! Schema validations on threads of their own.
//!
//! A validation cannot be interrupted, so each has its own thread, and holds its permit until the thread ends, also after
//! its request was answered. A project can hold half of the permits, so that expensive schemas do not stop the starts of
//! other projects. The threads do not delay the exit of the process.

use std::time::{Duration, Instant};

use schemas::api_error::{ApiError, ErrorCode};
use store::shares::{Full, Holder, ShareBounds, Shares};
use tokio::sync::oneshot;

/// Concurrent validations: a valid body takes some ten microseconds; violations can take a hundred megabytes (X1).
const CHECKS: usize = 4;
/// Concurrent validations of one project.
const CHECKS_EACH: usize = 2;
/// Waiting validations of one project: the bound on its concurrent starts.
const WAITING: usize = 4096;
/// Longest wait: the bound on storing.
const WAIT: Duration = Duration::from_secs(10);
/// Stack of a thread: values 128 deep under subschemas nested 128 deep. Only used pages take memory.
const STACK_BYTES: usize = 64 << 20;
/// How long the caller waits beyond the deadline: a validation ends at its next access to the value.
const GRACE: Duration = Duration::from_millis(500);
/// Seconds after which a client can retry.
const RETRY_S: u32 = 5;

/// Clones share the permits.
#[derive(Clone)]
pub(crate) struct Validations {
    shares: Shares,
}

impl Validations {
    pub(crate) fn new() -> Self {
        let bounds = ShareBounds {
            total: CHECKS,
            tenant: CHECKS_EACH,
            credential: CHECKS_EACH,
            waiting: WAITING,
        };
        Self {
            shares: Shares::new(bounds),
        }
    }

    /// Runs a validation of this project with its deadline.
    ///
    /// # Errors
    /// 429 when the permits of the project are in use, 503 when all are, or when the validation takes too long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        project_id: &str,
        time: Duration,
        check: impl FnOnce(Instant) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let holder = Holder {
            tenant: project_id.to_owned(),
            credential: project_id.to_owned(),
        };
        let share = tokio::time::timeout(WAIT, self.shares.take(&holder)).await;
        let share = share.unwrap_or_else(|_| self.shares.take_now(&holder));
        let share = share.map_err(|full| busy(project_id, full))?;
        let (sender, outcome) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("schema-check".to_owned())
            .stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let outcome = check(Instant::now() + time);
            drop(share);
            // The request may have been answered already.
            let _ = sender.send(outcome);
        });
        if let Err(error) = started {
            tracing::error!(error.message = %error, "a thread for a schema validation could not be started");
            return Err(ApiError::unavailable(
                "the server cannot validate schemas now; try again",
                RETRY_S,
            ));
        }
        match tokio::time::timeout(time + GRACE, outcome).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => {
                tracing::error!(project.id = project_id, "a schema validation panicked");
                Err(ApiError::internal())
            }
            Err(_) => {
                tracing::warn!(
                    project.id = project_id,
                    "a schema validation exceeded its deadline; it holds a permit of its project until it ends"
                );
                Err(too_slow(time))
            }
        }
    }
}

/// The 503 of a validation that exceeded its deadline.
pub(super) fn too_slow(time: Duration) -> ApiError {
    let message = format!(
        "validating the body took more than {} s; simplify the schema or send a smaller body",
        time.as_secs()
    );
    ApiError::new(ErrorCode::SchemaCheckTimeout, message).with_retry_after(RETRY_S)
}

fn busy(project_id: &str, full: Full) -> ApiError {
    match full {
        Full::Total(checks) => ApiError::unavailable(
            format!(
                "{checks} validations are running, which is the limit of the server; try again"
            ),
            RETRY_S,
        ),
        Full::Tenant(checks) | Full::Credential(checks) => {
            let message = format!(
                "the project `{project_id}` has {checks} running validations, which is its share, and too many waiting ones; try again"
            );
            ApiError::new(ErrorCode::TooManyChecks, message).with_retry_after(RETRY_S)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Of a validation that ends: never waited for.
    const ENOUGH: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_validation_that_never_ends_affects_its_own_project_only() {
        let checks = Validations::new();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let stopped = Arc::new(std::sync::Mutex::new(stopped));
        let short = Duration::from_millis(50);
        for _ in 0..CHECKS_EACH {
            let stopped = stopped.clone();
            // Ends when the sender is dropped.
            let spin = move |_| drop(stopped.lock().map(|stopped| stopped.recv().is_ok()));
            let error = checks.run("theirs", short, spin).await.unwrap_err();
            assert_eq!(
                (error.status, error.code.as_str()),
                (503, "schema_check_timeout")
            );
        }
        assert_eq!(checks.run("ours", ENOUGH, |_| 7).await, Ok(7));
        let waiting = futures::poll!(Box::pin(checks.run("theirs", ENOUGH, |_| 7)));
        assert!(waiting.is_pending());
        drop(stop);
        assert_eq!(checks.run("theirs", ENOUGH, |_| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_validation_that_panics_is_a_500_and_releases_its_permit() {
        let checks = Validations::new();
        for _ in 0..CHECKS + 1 {
            let error = checks.run::<()>("p", ENOUGH, |_| panic!("of a test"));
            assert_eq!(error.await.map_err(|error| error.status), Err(500));
        }
        assert_eq!(checks.run("p", ENOUGH, |_| 7).await, Ok(7));
    }
}
