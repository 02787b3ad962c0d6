//! One piece of work at a time, shared by everyone who asks for it meanwhile.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Work under way, if any. It goes on in a task of its own, so that whoever goes away cancels it for nobody.
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
    /// The outcome of the work under way, or of this one, which is begun if there is none. `None` when the work
    /// ended without an outcome, which is a panic.
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
        // One whose sender is gone is over, with an outcome or without.
        let under_way = current
            .as_ref()
            .filter(|outcome| outcome.borrow().is_none() && outcome.has_changed().is_ok());
        if let Some(outcome) = under_way {
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
    async fn those_who_ask_meanwhile_share_one_and_later_ones_get_another() {
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
        // The one who began goes away.
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
    async fn work_that_fails_altogether_is_told_and_the_next_begins_anew() {
        let flight: Flight<u32> = Flight::default();
        let outcome = flight.join(|| async { panic!("on purpose") }).await;
        assert_eq!(outcome, None);
        assert_eq!(flight.join(|| async { 7 }).await, Some(7));
    }
}
