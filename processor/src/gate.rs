//! Lets work on whole tables happen between two steps of the processor.
//!
//! Only workers write runs. Work that swaps a whole table or one of its partitions (retention, a rebuild), or changes
//! who works on what, closes the gate: steps under way finish, further ones wait. Closed for as short as possible:
//! nothing is stored meanwhile.
//!
//! Where several processes write into the same tables, the gate is one of all of them: [`Gate::shared`] makes it, and a
//! [`Keeper`] talks with the others; how they agree is in `accord`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use schemas::control::Outcome;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::sync::{mpsc, watch};

use crate::ProcessorError;
use crate::control::Control;

mod accord;
mod keeper;

use accord::{Accord, Standing};
pub use keeper::Keeper;

/// One replacement in a generation; changes are counted below it.
const REPLACED: u64 = 1 << 32;
/// Orders to the keeper on their way: a closing and its opening (X1).
const ORDERS: usize = 8;
/// How long a closer waits for all others before it lets them go on for a moment.
const CLOSING_MAX: Duration = Duration::from_secs(60);

/// Whether tables were replaced between two generations, and not only changed.
pub(crate) fn is_replaced(before: u64, after: u64) -> bool {
    before / REPLACED != after / REPLACED
}

/// The gate of one process. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate {
    local: Local,
    shared: Option<Shared>,
}

/// What one process has of a gate.
#[derive(Clone, Default)]
struct Local {
    lock: Arc<RwLock<()>>,
    /// Whoever closes has it.
    turn: Arc<Mutex<()>>,
    generation: Arc<watch::Sender<u64>>,
    placed_by: Arc<AtomicU32>,
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

/// The gate of this process that is closed everywhere, and until when.
type Granted = Option<(String, Instant)>;

/// The way to the keeper.
#[derive(Clone)]
struct Shared {
    standing: watch::Receiver<Standing>,
    granted: watch::Receiver<Granted>,
    orders: mpsc::Sender<Order>,
}

/// What a closer wants of the keeper.
enum Order {
    Close(String),
    Open(Outcome),
}

impl Gate {
    /// A gate that is one with those of all other processes that hear the same words. Nothing passes before the keeper
    /// runs, and has listened for a while.
    pub fn shared(control: Arc<dyn Control>) -> (Self, Keeper) {
        let process = format!("processor_{:032x}", crate::jobs::random());
        let accord = Accord::new(process, Instant::now());
        let (tell_standing, standing) = watch::channel(accord.standing(Instant::now()));
        let (tell_granted, granted) = watch::channel(None);
        let (orders, ordered) = mpsc::channel(ORDERS);
        let local = Local::default();
        let keeper = Keeper::new(
            (control, local.clone(), accord),
            (tell_standing, tell_granted),
            ordered,
        );
        let shared = Shared {
            standing,
            granted,
            orders,
        };
        let gate = Self {
            local,
            shared: Some(shared),
        };
        (gate, keeper)
    }

    /// Waits until the gate is open; it cannot close before the pass is dropped, but for what [`Pass::until`] says.
    pub async fn pass(&self) -> Pass {
        loop {
            let guard = self.local.lock.clone().read_owned().await;
            let generation = *self.local.generation.borrow();
            let Some(shared) = &self.shared else {
                return Pass {
                    _guard: guard,
                    generation,
                    shared: None,
                };
            };
            let mut standings = shared.standing.clone();
            let standing = *standings.borrow_and_update();
            if standing
                .passes_until
                .is_some_and(|until| Instant::now() < until)
            {
                return Pass {
                    _guard: guard,
                    generation,
                    shared: Some((standings, standing.epoch)),
                };
            }
            drop(guard);
            if standings.changed().await.is_err() {
                // Without a keeper nobody can say that it is open.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits for the steps under way and keeps others waiting until what is returned is dropped. Of a shared gate, for
    /// those of all processes.
    pub async fn close(&self) -> Closed {
        let Some(shared) = &self.shared else {
            return Closed {
                _turn: self.local.turn.clone().lock_owned().await,
                local: self.local.clone(),
                outcome: Outcome::Nothing,
                hold: Hold::Local {
                    _guard: self.local.lock.clone().write_owned().await,
                },
            };
        };
        loop {
            let turn = self.local.turn.clone().lock_owned().await;
            let gate = format!("gate_{:032x}", crate::jobs::random());
            // Made before it is asked for, so that a closer that is dropped while it waits lets all go on.
            let closed = Closed {
                local: self.local.clone(),
                outcome: Outcome::Nothing,
                hold: Hold::Shared(gate.clone(), shared.clone()),
                _turn: turn,
            };
            if shared
                .orders
                .send(Order::Close(gate.clone()))
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
            let mut granted = shared.granted.clone();
            let is_mine =
                |granted: &Granted| granted.as_ref().is_some_and(|(name, _)| *name == gate);
            let answered = tokio::time::timeout(CLOSING_MAX, granted.wait_for(is_mine)).await;
            let is_answered = answered.map(|granted| granted.is_ok());
            match is_answered {
                Ok(true) => return closed,
                Ok(false) => std::future::pending().await,
                // A step somewhere takes long, or two closers stand in each other's way.
                Err(_) => drop(closed),
            }
        }
    }

    /// Waits until nobody in this process is at work behind it.
    pub(crate) async fn not_closed_here(&self) {
        match &self.shared {
            None => drop(self.local.turn.lock().await),
            Some(shared) => {
                // Without a keeper nobody is.
                let _ = shared.granted.clone().wait_for(Option::is_none).await;
            }
        }
    }

    /// Has every worker of this process forget the runs that it knows before it begins another step. A step that is
    /// under way goes on; nobody waits.
    pub fn forget(&self) {
        self.local.changed();
    }

    /// Counts what makes workers forget: see [`Pass::generation`].
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.local.generation.subscribe()
    }

    /// Whether workers of other processes write into the same tables.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether this process does not hear the others, and lets no step begin.
    pub fn is_deaf(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.standing.borrow().is_deaf)
    }

    /// The number of partitions that records are placed by; 0 while that is not known.
    pub(crate) fn placed_by(&self) -> u32 {
        self.local.placed_by.load(Ordering::Acquire)
    }

    pub(crate) fn place_by(&self, partitions: u32) {
        self.local.placed_by.store(partitions, Ordering::Release);
    }
}

/// A step is under way until this is dropped.
pub struct Pass {
    _guard: OwnedRwLockReadGuard<()>,
    generation: u64,
    shared: Option<(watch::Receiver<Standing>, u64)>,
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
        let Some((standing, epoch)) = &self.shared else {
            return Ok(None);
        };
        let standing = *standing.borrow();
        if standing.epoch != *epoch {
            return Err(ProcessorError::Lapsed);
        }
        match standing.writes_until {
            Some(until) => Ok(Some(until)),
            None => Err(ProcessorError::Lapsed),
        }
    }
}

/// A closed gate; opens when dropped.
pub struct Closed {
    local: Local,
    outcome: Outcome,
    hold: Hold,
    _turn: OwnedMutexGuard<()>,
}

enum Hold {
    Local { _guard: OwnedRwLockWriteGuard<()> },
    Shared(String, Shared),
}

impl Closed {
    /// The tables hold fewer or other rows now than the workers wrote, but of no run that had none before.
    pub fn tables_changed(&mut self) {
        match self.hold {
            Hold::Local { .. } => self.local.changed(),
            Hold::Shared(..) if self.outcome == Outcome::Nothing => {
                self.outcome = Outcome::Changed;
            }
            Hold::Shared(..) => {}
        }
    }

    /// There may be rows now of runs that had none: what workers know of which runs there are is old.
    pub fn tables_replaced(&mut self) {
        match self.hold {
            Hold::Local { .. } => self.local.replaced(),
            Hold::Shared(..) if matches!(self.outcome, Outcome::Repartitioned { .. }) => {}
            Hold::Shared(..) => self.outcome = Outcome::Replaced,
        }
    }

    /// Records are placed by another number of partitions from now on: this one, if it is written down already.
    pub fn repartitioned(&mut self, partitions: u32) {
        self.outcome = Outcome::Repartitioned { partitions };
    }

    /// How long it stays closed even if nothing more is heard of this process: what must not last longer than the
    /// closing begins only when there is enough left.
    pub fn left(&self) -> Duration {
        match &self.hold {
            Hold::Local { .. } => Duration::MAX,
            Hold::Shared(gate, shared) => {
                let granted = shared.granted.borrow();
                let until = granted.as_ref().filter(|(name, _)| name == gate);
                until.map_or(Duration::ZERO, |(_, until)| {
                    until.saturating_duration_since(Instant::now())
                })
            }
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if let Hold::Shared(_, shared) = &self.hold {
            // Where the keeper has ended, the gate opens by itself.
            let _ = shared.orders.try_send(Order::Open(self.outcome));
        }
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
        let mut closed = closing.await.unwrap();
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
