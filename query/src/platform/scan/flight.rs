//! Single flight: concurrent callers share one execution.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The running execution, if any. It runs in its own task, so that no caller cancels it.
pub(crate) struct Flight<T> {
    current: Mutex<Option<watch::Receiver<Option<T>>>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self {
            current: Mutex::new(None),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// The outcome of the running execution, or of `work` if none is running. `None` when it panicked.
    pub(crate) async fn join<W>(&self, work: impl FnOnce() -> W) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut outcome = self.outcome(work);
        let outcome = outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }

    fn outcome<W>(&self, work: impl FnOnce() -> W) -> watch::Receiver<Option<T>>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // An execution whose sender is dropped has ended, with an outcome or without.
        let running = current
            .as_ref()
            .filter(|outcome| outcome.borrow().is_none() && outcome.has_changed().is_ok());
        if let Some(outcome) = running {
            return outcome.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let work = work();
        tokio::spawn(async move {
            let outcome = work.await;
            sender.send_replace(Some(outcome));
        });
        *current = Some(receiver.clone());
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_one_execution_and_later_ones_start_another() {
        let flight: Arc<Flight<u32>> = Arc::default();
        let (begun, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let ask = || {
            let (flight, begun, go) = (flight.clone(), begun.clone(), go.clone());
            async move {
                let work = || async move {
                    let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                    go.notified().await;
                    number
                };
                flight.join(work).await
            }
        };
        // The first caller disconnects.
        {
            let mut first = std::pin::pin!(ask());
            assert!(futures::poll!(first.as_mut()).is_pending());
        }
        let both = async { tokio::join!(ask(), ask()) };
        let mut both = std::pin::pin!(both);
        assert!(futures::poll!(both.as_mut()).is_pending());
        go.notify_one();
        assert_eq!(both.await, (Some(1), Some(1)));
        go.notify_one();
        assert_eq!(ask().await, Some(2));
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn after_a_panic_the_next_call_starts_another_execution() {
        let flight: Flight<u32> = Flight::default();
        let outcome = flight.join(|| async { panic!("on purpose") }).await;
        assert_eq!(outcome, None);
        assert_eq!(flight.join(|| async { 7 }).await, Some(7));
    }
}
