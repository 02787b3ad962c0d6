//! Lets work on whole tables happen between two steps of the processor.
//!
//! Only workers write runs. Work that swaps a whole table or one of its partitions (retention, a rebuild) closes the
//! gate: steps under way finish, further ones wait. Closed for as short as possible: nothing is stored meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::ProcessorError;

/// One replacement in a generation; changes are counted below it.
const REPLACED: u64 = 1 << 32;

/// Whether tables were replaced between two generations, and not only changed.
pub(crate) fn is_replaced(before: u64, after: u64) -> bool {
    before / REPLACED != after / REPLACED
}

/// The gate of one process. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    lock: Arc<RwLock<()>>,
    generation: Arc<AtomicU64>,
}

impl Gate {
    /// Waits until the gate is open; it cannot close before the pass is dropped.
    pub async fn pass(&self) -> Pass {
        let guard = self.lock.clone().read_owned().await;
        Pass {
            _guard: guard,
            generation: self.generation.load(Ordering::Acquire),
        }
    }

    /// Whether workers of other processes write into the same tables.
    pub fn is_shared(&self) -> bool {
        false
    }

    /// Waits for the steps under way and keeps others waiting until the guard is dropped.
    pub async fn close(&self) -> Closed {
        Closed {
            _guard: self.lock.clone().write_owned().await,
            generation: self.generation.clone(),
        }
    }
}

/// A step is under way until this is dropped.
#[derive(Debug)]
pub struct Pass {
    _guard: OwnedRwLockReadGuard<()>,
    generation: u64,
}

impl Pass {
    /// A number that changes whenever the tables were changed behind the workers' backs, so that they forget what they
    /// know of them.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Until when others wait for this step; `None` when that is until its end. [`ProcessorError::Lapsed`] when they
    /// did not wait.
    pub(crate) fn until(&self) -> Result<Option<Instant>, ProcessorError> {
        Ok(None)
    }
}

/// A closed gate; opens when dropped.
#[derive(Debug)]
pub struct Closed {
    _guard: OwnedRwLockWriteGuard<()>,
    generation: Arc<AtomicU64>,
}

impl Closed {
    /// The tables hold fewer or other rows now than the workers wrote, but of no run that had none before.
    pub fn tables_changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// There may be rows now of runs that had none: what workers know of which runs there are is old.
    pub fn tables_replaced(&self) {
        self.generation.fetch_add(REPLACED, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_wait_while_it_is_closed_and_learn_of_changes() {
        let gate = Gate::default();
        let step = gate.pass().await;
        let before = step.generation();
        let closing = tokio::spawn({
            let gate = gate.clone();
            async move { gate.close().await }
        });
        tokio::task::yield_now().await;
        assert!(!closing.is_finished(), "a step is under way");
        drop(step);
        let closed = closing.await.unwrap();
        let mut next = Box::pin(gate.pass());
        assert!(futures_now(&mut next).is_none(), "closed");
        closed.tables_changed();
        drop(closed);
        assert_ne!(next.await.generation(), before);
    }

    fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
