//! Threads that hold schemas and inputs against each other, apart from those that serve requests.
//!
//! A check cannot be interrupted from outside, so each has a thread of its own, and a permit that is free again only
//! when the thread has ended, however long ago its caller was answered. A project holds half of the permits at most:
//! whatever its schemas do, the starts of other projects go on. The threads hold up no end of the process.

use std::time::{Duration, Instant};

use schemas::fault::Fault;
use store::shares::{Full, Holder, ShareBounds, Shares};
use tokio::sync::oneshot;

/// Checks at once: one that conforms takes some ten microseconds, and each may hold a hundred megabytes of violations.
const CHECKS: usize = 4;
/// Of them those of one project.
const CHECKS_EACH: usize = 2;
/// Starts of one project that wait for a check: as many as there may be under way.
const WAITING: usize = 4096;
/// How long one waits: as long as storing may take.
const WAIT: Duration = Duration::from_secs(10);
/// Stack of a thread: values 128 deep under subschemas nested 128 deep. Only what is used of it is memory.
const STACK_BYTES: usize = 64 << 20;
/// How long the caller waits beyond the deadline of a check, which ends at its next look at the value.
const GRACE: Duration = Duration::from_millis(500);
/// Seconds after which to try again.
const RETRY_S: u32 = 5;

/// The checks of this process of the deployment.
#[derive(Clone)]
pub(crate) struct Checks {
    shares: Shares,
}

impl Checks {
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

    /// Runs a check of this project on a thread of its own, and gives it its deadline.
    ///
    /// # Errors
    /// 429 where the project has too many checks under way, 503 where all have or the check takes too long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        project_id: &str,
        time: Duration,
        check: impl FnOnce(Instant) -> T + Send + 'static,
    ) -> Result<T, Fault> {
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
            // The caller may have been answered already.
            let _ = sender.send(outcome);
        });
        if let Err(error) = started {
            tracing::error!(error.message = %error, "no thread for the check of a schema could be started");
            return Err(Fault::unavailable(
                "the server cannot check schemas now; try again",
                RETRY_S,
            ));
        }
        match tokio::time::timeout(time + GRACE, outcome).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => {
                tracing::error!(project.id = project_id, "the check of a schema panicked");
                Err(Fault::internal())
            }
            Err(_) => {
                tracing::warn!(
                    project.id = project_id,
                    "the check of a schema goes on beyond its deadline; its project has one check less until it ends"
                );
                Err(too_slow(time))
            }
        }
    }
}

/// The 503 of a check that took longer than it may.
pub(super) fn too_slow(time: Duration) -> Fault {
    let message = format!(
        "checking the body against the schema took more than {} s; simplify the schema or send a smaller body",
        time.as_secs()
    );
    Fault {
        retry_after_s: Some(RETRY_S),
        ..Fault::new(503, "schema_check_timeout", message)
    }
}

fn busy(project_id: &str, full: Full) -> Fault {
    match full {
        Full::Total(checks) => Fault::unavailable(
            format!("{checks} bodies are being checked against their schemas at once; try again"),
            RETRY_S,
        ),
        Full::Tenant(checks) | Full::Credential(checks) => {
            let message = format!(
                "the project `{project_id}` has {checks} bodies being checked against their schemas, which is its share, and too many that wait; try again"
            );
            Fault {
                retry_after_s: Some(RETRY_S),
                ..Fault::new(429, "too_many_checks", message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const TIME: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_check_that_never_ends_holds_up_its_own_project_only() {
        let checks = Checks::new();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let stopped = Arc::new(std::sync::Mutex::new(stopped));
        for _ in 0..CHECKS_EACH {
            let stopped = stopped.clone();
            // Ends when the other side of the channel is gone.
            let spin = move |_| drop(stopped.lock().map(|stopped| stopped.recv().is_ok()));
            let fault = checks.run("theirs", TIME, spin).await.unwrap_err();
            assert_eq!((fault.status, fault.code), (503, "schema_check_timeout"));
        }
        assert_eq!(checks.run("ours", TIME, |_| 7).await, Ok(7));
        let waits = futures::poll!(Box::pin(checks.run("theirs", TIME, |_| 7)));
        assert!(waits.is_pending());
        drop(stop);
        assert_eq!(checks.run("theirs", TIME, |_| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_check_that_panics_is_a_500_and_gives_its_permit_back() {
        let checks = Checks::new();
        for _ in 0..CHECKS + 1 {
            let fault = checks.run::<()>("p", TIME, |_| panic!("of a test")).await;
            assert_eq!(fault.map_err(|fault| fault.status), Err(500));
        }
        assert_eq!(checks.run("p", TIME, |_| 7).await, Ok(7));
    }
}
