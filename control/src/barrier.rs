//! The barrier: work on whole tables happens while no step is in progress.
//!
//! Only workers write runs. Work that exchanges a whole table or one of its partitions (retention, a rebuild), or
//! changes the ownership of partitions, acquires the barrier: steps in progress finish, further ones wait. It is held
//! as briefly as possible, because nothing is stored meanwhile.
//!
//! Where several processes write into the same tables, the barrier spans all of them: [`Barrier::shared`] makes it, and
//! a [`BarrierDriver`] exchanges the messages; `protocol.rs` describes how the processes agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use schemas::control::BarrierOutcome;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::sync::{mpsc, watch};

mod driver;
mod protocol;

pub use driver::BarrierDriver;
use protocol::PermitState;

/// Increment of a generation when tables were replaced; changes count in the bits below.
const REPLACED: u64 = 1 << 32;
/// Orders queued for the driver: an acquisition and its release, for a few coordinators (X1).
const ORDERS: usize = 8;
/// How long a coordinator waits for all processors before it lets them continue for a moment.
const ACQUIRE_MAX: Duration = Duration::from_secs(60);

/// Whether tables were replaced between two generations, not only changed.
pub fn is_replaced(before: u64, after: u64) -> bool {
    before / REPLACED != after / REPLACED
}

/// The work of a step took too long: barriers did not wait for it, so its records have to be processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the permit of the step lapsed")]
pub struct PermitLapsed;

/// The barrier of one process. Clones are the same barrier.
#[derive(Clone, Default)]
pub struct Barrier {
    local: Local,
    shared: Option<Shared>,
}

/// The part of a barrier within one process.
#[derive(Clone, Default)]
struct Local {
    /// Read by steps, written while the process is paused.
    lock: Arc<RwLock<()>>,
    /// One coordinator in this process at a time.
    turn: Arc<Mutex<()>>,
    generation: Arc<watch::Sender<u64>>,
    partitions: Arc<AtomicU32>,
}

impl Local {
    fn changed(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    fn replaced(&self) {
        self.generation
            .send_modify(|generation| *generation += REPLACED);
    }
}

/// A barrier of this process that holds in all processors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    barrier: String,
    until: Instant,
}

#[derive(Clone)]
struct Shared {
    state: watch::Receiver<PermitState>,
    held: watch::Receiver<Option<Held>>,
    orders: mpsc::Sender<Order>,
}

/// Orders of a coordinator to the driver.
enum Order {
    Acquire(String),
    Release(BarrierOutcome),
}

impl Barrier {
    /// A barrier that spans all processes on one control topic. It grants no permit before the driver runs and has
    /// received messages for ten seconds.
    pub fn shared() -> (Self, BarrierDriver) {
        let local = Local::default();
        let (orders, ordered) = mpsc::channel(ORDERS);
        let driver = BarrierDriver::new(local.clone(), ordered);
        let shared = Shared {
            state: driver.state(),
            held: driver.held(),
            orders,
        };
        let barrier = Self {
            local,
            shared: Some(shared),
        };
        (barrier, driver)
    }

    /// Waits until a step may begin. The barrier is not acquired before the permit is dropped or expires; see
    /// [`Permit::expires`].
    pub async fn permit(&self) -> Permit {
        loop {
            let guard = self.local.lock.clone().read_owned().await;
            let generation = *self.local.generation.borrow();
            let Some(shared) = &self.shared else {
                return Permit {
                    _guard: guard,
                    generation,
                    shared: None,
                };
            };
            let mut states = shared.state.clone();
            let state = *states.borrow_and_update();
            if state
                .begin_until
                .is_some_and(|until| Instant::now() < until)
            {
                return Permit {
                    _guard: guard,
                    generation,
                    shared: Some((states, state.epoch)),
                };
            }
            drop(guard);
            if states.changed().await.is_err() {
                // Without a driver nothing proves that no coordinator works.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits for the steps in progress and lets no other begin until the guard is dropped; a shared barrier in all
    /// processors.
    pub async fn acquire(&self) -> BarrierGuard {
        let Some(shared) = &self.shared else {
            return BarrierGuard {
                _turn: self.local.turn.clone().lock_owned().await,
                local: self.local.clone(),
                outcome: BarrierOutcome::Nothing,
                hold: Hold::Local {
                    _guard: self.local.lock.clone().write_owned().await,
                },
            };
        };
        loop {
            let turn = self.local.turn.clone().lock_owned().await;
            let barrier = format!("barrier_{:032x}", rand::random::<u128>());
            // Made before the order, so that a coordinator that is dropped while it waits releases the barrier.
            let guard = BarrierGuard {
                local: self.local.clone(),
                outcome: BarrierOutcome::Nothing,
                hold: Hold::Shared(barrier.clone(), shared.clone()),
                _turn: turn,
            };
            let order = Order::Acquire(barrier.clone());
            if shared.orders.send(order).await.is_err() {
                std::future::pending::<()>().await;
            }
            let mut held = shared.held.clone();
            let is_own =
                |held: &Option<Held>| held.as_ref().is_some_and(|held| held.barrier == barrier);
            let acquired = tokio::time::timeout(ACQUIRE_MAX, held.wait_for(is_own)).await;
            let is_acquired = acquired.map(|held| held.is_ok());
            match is_acquired {
                Ok(true) => return guard,
                Ok(false) => std::future::pending().await,
                // A step takes long in some process, or two coordinators block each other.
                Err(_) => drop(guard),
            }
        }
    }

    /// Waits until no coordinator in this process holds the barrier.
    pub async fn not_held_here(&self) {
        match &self.shared {
            None => drop(self.local.turn.lock().await),
            Some(shared) => {
                // Without a driver no coordinator holds it.
                let _ = shared.held.clone().wait_for(Option::is_none).await;
            }
        }
    }

    /// Has every worker of this process clear its cached runs before its next step. Steps in progress continue, and
    /// this does not wait for them.
    pub fn forget(&self) {
        self.local.changed();
    }

    /// Changes when workers have to clear their cached runs: see [`Permit::generation`].
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.local.generation.subscribe()
    }

    /// Whether workers of other processes write into the same tables.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether this process does not receive its own heartbeats, so that no step may begin.
    pub fn is_cut_off(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.state.borrow().is_cut_off)
    }

    /// The number of partitions that keys are placed by; 0 while unknown.
    pub fn partitions(&self) -> u32 {
        self.local.partitions.load(Ordering::Acquire)
    }

    pub fn set_partitions(&self, partitions: u32) {
        self.local.partitions.store(partitions, Ordering::Release);
    }
}

/// The right of one step to begin and store. The step is in progress until this is dropped.
pub struct Permit {
    _guard: OwnedRwLockReadGuard<()>,
    generation: u64,
    shared: Option<(watch::Receiver<PermitState>, u64)>,
}

impl Permit {
    /// Changes whenever something other than a worker changed the tables, so that workers clear what they cached of
    /// them.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How long barriers wait for this step; `None` for until its end.
    ///
    /// # Errors
    /// A barrier may have been held since the step began.
    pub fn expires(&self) -> Result<Option<Instant>, PermitLapsed> {
        let Some((state, epoch)) = &self.shared else {
            return Ok(None);
        };
        let state = *state.borrow();
        if state.epoch != *epoch {
            return Err(PermitLapsed);
        }
        state.store_until.map(Some).ok_or(PermitLapsed)
    }
}

/// A barrier that is held; released when dropped.
pub struct BarrierGuard {
    local: Local,
    outcome: BarrierOutcome,
    hold: Hold,
    _turn: OwnedMutexGuard<()>,
}

enum Hold {
    Local { _guard: OwnedRwLockWriteGuard<()> },
    Shared(String, Shared),
}

impl BarrierGuard {
    /// The tables hold fewer or other rows now than the workers wrote, but none of a run that had none before.
    pub fn tables_changed(&mut self) {
        match self.hold {
            Hold::Local { .. } => self.local.changed(),
            Hold::Shared(..) if self.outcome == BarrierOutcome::Nothing => {
                self.outcome = BarrierOutcome::Changed;
            }
            Hold::Shared(..) => {}
        }
    }

    /// The tables may hold rows of runs that had none: the workers' filters of stored runs are outdated.
    pub fn tables_replaced(&mut self) {
        match self.hold {
            Hold::Local { .. } => self.local.replaced(),
            Hold::Shared(..) if matches!(self.outcome, BarrierOutcome::Repartitioned { .. }) => {}
            Hold::Shared(..) => self.outcome = BarrierOutcome::Replaced,
        }
    }

    /// Keys are placed by this number of partitions from now on. It has to be stored already.
    pub fn repartitioned(&mut self, partitions: u32) {
        self.outcome = BarrierOutcome::Repartitioned { partitions };
    }

    /// How long the barrier holds even if no further message of this process gets through. Work that must not outlast
    /// the barrier begins only when enough remains.
    pub fn remaining(&self) -> Duration {
        match &self.hold {
            Hold::Local { .. } => Duration::MAX,
            Hold::Shared(barrier, shared) => {
                let held = shared.held.borrow();
                let own = held.as_ref().filter(|held| held.barrier == *barrier);
                own.map_or(Duration::ZERO, |held| {
                    held.until.saturating_duration_since(Instant::now())
                })
            }
        }
    }
}

impl Drop for BarrierGuard {
    fn drop(&mut self) {
        if let Hold::Shared(_, shared) = &self.hold {
            // If the driver has ended, the barrier expires.
            let _ = shared.orders.try_send(Order::Release(self.outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_wait_while_the_barrier_is_held_and_learn_of_changes() {
        let barrier = Barrier::default();
        let step = barrier.permit().await;
        let before = step.generation();
        let acquiring = tokio::spawn({
            let barrier = barrier.clone();
            async move { barrier.acquire().await }
        });
        tokio::task::yield_now().await;
        assert!(!acquiring.is_finished(), "a step is under way");
        drop(step);
        let mut guard = acquiring.await.unwrap();
        let mut next = Box::pin(barrier.permit());
        assert!(poll_once(&mut next).is_none(), "held");
        guard.tables_changed();
        drop(guard);
        assert_ne!(next.await.generation(), before);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
