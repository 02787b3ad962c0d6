//! Every process says that it is there and what it keeps in memory, and hears the others say so: who is in the
//! deployment, and whether all of them did what was asked.
//!
//! Who does not hear does not speak: a process that could not be told anything must not look as if it had been.

mod roster;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use processor::{Control, HotView};
use query::platform::{CORE_CACHE, Cleared, ClearedHere, Heard, Processes};
use schemas::control::{CacheReport, EventCounts, ORDERS_REMEMBERED, Present, Word};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Running;
use super::health::Health;
use super::role::Role;
use crate::caches::{CacheName, Caches};
use crate::control::OverLog;
use roster::{Roster, Standing};

/// How often a process says that it is there.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// A process speaks only if it heard everything that was said until this long ago.
const HEARS_WITHIN: Duration = Duration::from_secs(10);
/// Until everybody has to have said that caches are empty: an answer within a second, whoever does not.
const CLEARED_WITHIN: Duration = Duration::from_millis(900);
/// The same for a process alone, which has nobody to wait for but its own database.
const CLEARED_ALONE_WITHIN: Duration = Duration::from_secs(10);
/// How long one word may take.
const SAYING_MAX: Duration = Duration::from_secs(2);
/// Orders under way in this process: of four such processes, as many as everybody remembers (X1).
const ORDERS_MAX: usize = ORDERS_REMEMBERED / 4;

/// This process among the others. Clones are the same.
#[derive(Clone)]
pub(crate) struct Presence(Arc<Inner>);

struct Inner {
    /// What does not change of what it says.
    who: Present,
    health: Health,
    caches: Caches,
    /// Where there can be others.
    control: Option<Arc<OverLog>>,
    roster: Mutex<Roster>,
    /// Counts what was heard.
    heard: watch::Sender<u64>,
    /// Orders that were carried out here.
    cleared: Mutex<VecDeque<String>>,
    /// Orders that this process was asked for itself.
    begun: Mutex<VecDeque<String>>,
    /// Something has to be said now.
    urge: Notify,
    turns: Arc<Semaphore>,
    hot_runs: Mutex<Option<HotView>>,
    /// Says what became of events here.
    events: OnceLock<Box<dyn Fn() -> EventCounts + Send + Sync>>,
}

impl Presence {
    /// This process, which listens here, with what it keeps in memory.
    pub(crate) fn new(
        running: &Running,
        (address, control): (SocketAddr, Option<&Arc<OverLog>>),
        caches: Caches,
    ) -> Self {
        let public_url = running.config.server.public_url.clone();
        let endpoint = public_url.unwrap_or_else(|| endpoint(address, host_name().as_deref()));
        let presence = Self::of(
            who(running.role, endpoint),
            running.health.clone(),
            (caches, control.cloned()),
        );
        if running.role.processes() {
            presence.add_hot_runs();
        }
        presence
    }

    fn of(who: Present, health: Health, with: (Caches, Option<Arc<OverLog>>)) -> Self {
        let (caches, control) = with;
        Self(Arc::new(Inner {
            who,
            health,
            caches,
            control,
            roster: Mutex::default(),
            heard: watch::Sender::new(0),
            cleared: Mutex::default(),
            begun: Mutex::default(),
            urge: Notify::new(),
            turns: Arc::new(Semaphore::new(ORDERS_MAX)),
            hot_runs: Mutex::default(),
            events: OnceLock::new(),
        }))
    }

    /// What this process keeps in memory, to add to.
    pub(crate) fn caches(&self) -> &Caches {
        &self.0.caches
    }

    /// A processor begins to work with these. Until then there are none.
    pub(crate) fn hot_runs(&self, hot_runs: HotView) {
        *lock(&self.0.hot_runs) = Some(hot_runs);
    }

    /// From now on this says what became of events here. Given once.
    pub(crate) fn counts_events(&self, counts: impl Fn() -> EventCounts + Send + Sync + 'static) {
        // A second one would change nothing.
        let _ = self.0.events.set(Box::new(counts));
    }

    fn add_hot_runs(&self) {
        let (read, cleared) = (Arc::downgrade(&self.0), Arc::downgrade(&self.0));
        let report = move || {
            let inner = read.upgrade();
            let hot = inner.and_then(|inner| lock(&inner.hot_runs).clone());
            hot.map_or_else(nothing, |hot| hot.report())
        };
        let clear = move || {
            let inner = cleared.upgrade();
            let hot = inner.and_then(|inner| lock(&inner.hot_runs).clone());
            async move {
                if let Some(hot) = hot {
                    hot.clear().await;
                }
                Ok(())
            }
        };
        self.0
            .caches
            .add_read_again(CacheName::HotRuns, report, clear);
    }

    /// What this process says of itself now.
    fn present(&self) -> Present {
        Present {
            missing: self.0.health.missing_parts(),
            caches: self.0.caches.reports(),
            cleared: lock(&self.0.cleared).iter().cloned().collect(),
            events: self
                .0
                .events
                .get()
                .map(|counts| counts())
                .unwrap_or_default(),
            ..self.0.who.clone()
        }
    }

    /// Says and hears until the server stops. A process alone has nobody to talk to.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let Some(control) = &self.0.control else {
            return;
        };
        tokio::select! {
            () = self.speak(control) => {}
            () = self.listen(control) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn speak(&self, control: &OverLog) {
        let mut ticks = tokio::time::interval(SAID_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.0.urge.notified() => {}
            }
            if control.heard_until().elapsed() > HEARS_WITHIN {
                continue;
            }
            self.say(control, Word::Present(Box::new(self.present())))
                .await;
        }
    }

    async fn listen(&self, control: &OverLog) {
        let mut words = control.listen();
        loop {
            match words.recv().await {
                Ok(Word::Present(present)) if present.process != self.0.who.process => {
                    lock(&self.0.roster).hear(*present, Instant::now());
                    self.0.heard.send_modify(|heard| *heard += 1);
                }
                // What was missed is said again.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn say(&self, control: &OverLog, word: Word) {
        match tokio::time::timeout(SAYING_MAX, control.say(&word)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(error.message = %error, "the other processes cannot be told for now");
            }
            Err(_) => tracing::debug!("the other processes cannot be told for now"),
        }
    }

    /// Says that this process ends, so that nobody waits for it.
    pub(crate) async fn leave(&self) {
        if let Some(control) = &self.0.control {
            let left = Present {
                leaves: true,
                ..self.0.who.clone()
            };
            self.say(control, Word::Present(Box::new(left))).await;
        }
    }

    /// Does what another process ordered, and says so.
    pub(crate) async fn carry_out(&self, names: &[String], order: &str) {
        let is_in = |orders: &Mutex<VecDeque<String>>| lock(orders).iter().any(|it| it == order);
        let is_known = is_in(&self.0.cleared) || is_in(&self.0.begun);
        if is_known || !names.iter().any(|name| name == CORE_CACHE) {
            return;
        }
        if self.0.caches.clear().await {
            tracing::info!(control.order = order, "caches were emptied by order");
            self.did(order);
        }
    }

    fn did(&self, order: &str) {
        remember(&mut lock(&self.0.cleared), order);
        self.0.urge.notify_one();
    }

    /// Waits until all that can be waited for said that they carried it out; says how it stands then, or at the
    /// deadline.
    async fn carried_out(&self, order: &str, deadline: Instant) -> Standing {
        let mut heard = self.0.heard.subscribe();
        loop {
            let standing = lock(&self.0.roster).standing(order, Instant::now());
            if standing.awaited.is_empty() {
                return standing;
            }
            let changed = tokio::time::timeout_at(deadline.into(), heard.changed()).await;
            // The sender lives as long as this does, so waiting cannot fail.
            if !matches!(changed, Ok(Ok(()))) {
                return lock(&self.0.roster).standing(order, Instant::now());
            }
        }
    }
}

#[async_trait]
impl Processes for Presence {
    fn processes(&self) -> Vec<Heard> {
        let own = Heard {
            present: self.present(),
            silent_ms: 0,
        };
        let others = lock(&self.0.roster).list(Instant::now());
        std::iter::once(own).chain(others).collect()
    }

    async fn clear(&self, names: &[String]) -> Result<Cleared, String> {
        let deadline = Instant::now() + CLEARED_WITHIN;
        let turn = tokio::time::timeout_at(deadline.into(), self.0.turns.clone().acquire_owned());
        let Ok(Ok(turn)) = turn.await else {
            return Err("too many such orders are under way; nothing was done".to_owned());
        };
        let order = random_name("order");
        // Side by side, and each goes on when the answer has to go out before: only the waiting has an end.
        // The turn is over when the last of them is.
        let turn = Arc::new(turn);
        let here = self.clear_here(&order, turn.clone());
        let others = self.order_others(names, &order, (deadline, turn));
        // A process alone has nobody who clears meanwhile: it waits longer for its own database.
        let here_until = match self.0.control {
            Some(_) => deadline,
            None => Instant::now() + CLEARED_ALONE_WITHIN,
        };
        let here = tokio::time::timeout_at(here_until.into(), here);
        let (here, (is_told, standing)) = tokio::join!(here, others);
        let here = match here {
            Ok(Ok(true)) => ClearedHere::Done,
            Ok(_) => ClearedHere::Failed,
            Err(_) => ClearedHere::UnderWay,
        };
        if !is_told {
            tracing::warn!(
                control.order = order,
                "an order to empty caches could not be said to the other processes for certain"
            );
        }
        if standing.confirmed < standing.of {
            tracing::warn!(
                control.order = order,
                control.awaited = ?standing.awaited,
                control.silent = ?standing.silent,
                "not every process said that it emptied its caches"
            );
        }
        Ok(Cleared {
            order,
            here,
            is_told,
            confirmed: standing.confirmed + usize::from(here == ClearedHere::Done),
            of: standing.of + 1,
        })
    }
}

impl Presence {
    /// Begins to empty the caches of this process; whoever waits hears whether they hold nothing from before.
    fn clear_here(&self, order: &str, turn: Arc<OwnedSemaphorePermit>) -> JoinHandle<bool> {
        let (presence, order) = (self.clone(), order.to_owned());
        // Its own word comes back to it, too.
        presence.begin(&order);
        tokio::spawn(async move {
            let _turn = turn;
            let is_done = presence.0.caches.clear().await;
            if is_done {
                presence.did(&order);
            }
            is_done
        })
    }

    /// Tells the others; says whether they were told for certain, and how far they have come at the deadline.
    async fn order_others(
        &self,
        names: &[String],
        order: &str,
        (deadline, turn): (Instant, Arc<OwnedSemaphorePermit>),
    ) -> (bool, Standing) {
        let Some(control) = self.0.control.clone() else {
            return (true, Standing::default());
        };
        let word = Word::ClearCaches {
            names: names.to_vec(),
            order: order.to_owned(),
        };
        let said_in = turn.clone();
        let said = tokio::spawn(async move {
            let _turn = said_in;
            let said = tokio::time::timeout(SAYING_MAX, control.say(&word)).await;
            matches!(said, Ok(Ok(())))
        });
        let said = tokio::time::timeout_at(deadline.into(), said).await;
        let is_told = matches!(said, Ok(Ok(true)));
        // Nobody has to be waited for who was not told.
        let until = if is_told { deadline } else { Instant::now() };
        let standing = self.carried_out(order, until).await;
        drop(turn);
        (is_told, standing)
    }

    /// This process works at an order of its own.
    fn begin(&self, order: &str) {
        remember(&mut lock(&self.0.begun), order);
    }
}

/// Adds an order; forgets the oldest of more than are remembered.
fn remember(orders: &mut VecDeque<String>, order: &str) {
    orders.push_back(order.to_owned());
    while orders.len() > ORDERS_REMEMBERED {
        orders.pop_front();
    }
}

/// What does not change of what a process says.
fn who(role: Role, endpoint: String) -> Present {
    Present {
        process: random_name("process"),
        role: role.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        endpoint,
        missing: Vec::new(),
        caches: Vec::new(),
        cleared: Vec::new(),
        leaves: false,
        events: EventCounts::default(),
    }
}

/// Where others reach a process that listens here: one that listens on all addresses, by the name of its machine, so
/// that it can be told from the others.
fn endpoint(address: SocketAddr, host: Option<&str>) -> String {
    match host {
        Some(host) if address.ip().is_unspecified() => format!("http://{host}:{}", address.port()),
        _ => format!("http://{address}"),
    }
}

/// The name of this machine or container, where it can be asked for.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_name)).then(|| name.to_owned())
}

/// The report of a processor that has not begun.
fn nothing() -> CacheReport {
    CacheReport {
        name: String::new(),
        entries: 0,
        used_bytes: 0,
        max_bytes: 0,
        hits: 0,
        misses: 0,
    }
}

fn random_name(kind: &str) -> String {
    format!("{kind}_{:032x}", rand::random::<u128>())
}

/// The lists here are whole at any moment: a panic between two of their changes cannot happen.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
