//! This process within its deployment: the content of its heartbeats, the other processes, and orders that clear the
//! caches of all of them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use control::{
    BarrierDriver, ClearProgress, ControlChannel, ControlTopic, Driver, HEARTBEAT_INTERVAL,
    Members, PROCESSOR_HEARTBEAT_INTERVAL,
};
use processor::HotView;
use query::{CORE_CACHE, Cleared, ClearedHere, Processes};
use schemas::control::{
    CacheReport, ControlMessage, EventCounts, Heartbeat, KnownProcess, ORDERS_REMEMBERED,
    StalledPartition, WaitingMarks,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::Running;
use super::health::Health;
use super::role::Role;
use crate::caches::{CacheName, Caches};

/// How long an order waits for the other processes, so that a request that clears caches gets a response within a
/// second.
const CLEARED_WITHIN: Duration = Duration::from_millis(900);
/// How long it waits in a single process, which only depends on its database.
const CLEARED_ALONE_WITHIN: Duration = Duration::from_secs(10);
/// How long publishing an order may take.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(2);
/// Concurrent orders of this process: with four such processes, as many as every process remembers (X1).
const ORDERS_MAX: usize = ORDERS_REMEMBERED / 4;

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Deployment(Arc<Inner>);

struct Inner {
    /// The constant part of its heartbeats.
    identity: Heartbeat,
    health: Health,
    caches: Caches,
    members: Members,
    /// Present where there can be other processes.
    topic: Option<ControlTopic>,
    /// Orders that this process carried out.
    cleared: Mutex<VecDeque<String>>,
    /// Orders that this process received from clients.
    begun: Mutex<VecDeque<String>>,
    turns: Arc<Semaphore>,
    hot_runs: Mutex<Option<HotView>>,
    stalled: Mutex<Option<watch::Receiver<Vec<StalledPartition>>>>,
    waiting_marks: Mutex<Option<watch::Receiver<Option<WaitingMarks>>>>,
    events: OnceLock<Box<dyn Fn() -> EventCounts + Send + Sync>>,
    is_leaving: AtomicBool,
}

impl Deployment {
    /// This process, with its listening address and its caches.
    pub(crate) fn new(
        running: &Running,
        address: SocketAddr,
        topic: Option<ControlTopic>,
        caches: Caches,
    ) -> Self {
        let public_url = running.config.server.public_url.clone();
        let endpoint = public_url.unwrap_or_else(|| endpoint(address, host_name().as_deref()));
        let health = running.health.clone();
        let deployment = Self::of(running.role, endpoint, health, topic, caches);
        if running.role.processes() {
            deployment.add_hot_runs();
        }
        deployment
    }

    fn of(
        role: Role,
        endpoint: String,
        health: Health,
        topic: Option<ControlTopic>,
        caches: Caches,
    ) -> Self {
        let interval = match role.processes() {
            true => PROCESSOR_HEARTBEAT_INTERVAL,
            false => HEARTBEAT_INTERVAL,
        };
        let identity = Heartbeat {
            process: random_name("process"),
            role: role.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            endpoint,
            ..Heartbeat::default()
        };
        Self(Arc::new(Inner {
            members: Members::new(identity.process.clone(), interval),
            identity,
            health,
            caches,
            topic,
            cleared: Mutex::default(),
            begun: Mutex::default(),
            turns: Arc::new(Semaphore::new(ORDERS_MAX)),
            hot_runs: Mutex::default(),
            stalled: Mutex::default(),
            waiting_marks: Mutex::default(),
            events: OnceLock::new(),
            is_leaving: AtomicBool::new(false),
        }))
    }

    pub(crate) fn caches(&self) -> &Caches {
        &self.0.caches
    }

    /// Sets the hot runs of the processor.
    pub(crate) fn hot_runs(&self, hot_runs: HotView) {
        *lock(&self.0.hot_runs) = Some(hot_runs);
    }

    /// The stalled partitions of a processor that starts. Until then there are none.
    pub(crate) fn stalled(&self, stalled: watch::Receiver<Vec<StalledPartition>>) {
        *lock(&self.0.stalled) = Some(stalled);
    }

    /// Sets the marks that wait for their run.
    pub(crate) fn waiting_marks(&self, waiting: watch::Receiver<Option<WaitingMarks>>) {
        *lock(&self.0.waiting_marks) = Some(waiting);
    }

    /// Sets the source of the event counts in heartbeats, once.
    pub(crate) fn counts_events(&self, counts: impl Fn() -> EventCounts + Send + Sync + 'static) {
        // A second one is ignored.
        let _ = self.0.events.set(Box::new(counts));
    }

    fn add_hot_runs(&self) {
        let (read, cleared) = (Arc::downgrade(&self.0), Arc::downgrade(&self.0));
        let report = move || {
            let inner = read.upgrade();
            let hot = inner.and_then(|inner| lock(&inner.hot_runs).clone());
            hot.map_or_else(CacheReport::default, |hot| hot.report())
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

    fn heartbeat(&self) -> Heartbeat {
        let counts = self.0.events.get();
        let stalled = lock(&self.0.stalled);
        let stalled = stalled.as_ref().map(|stalled| stalled.borrow().clone());
        let waiting_marks = lock(&self.0.waiting_marks).clone();
        Heartbeat {
            stalled: stalled.unwrap_or_default(),
            waiting_marks: waiting_marks.and_then(|waiting| *waiting.borrow()),
            missing: self.0.health.missing_parts(),
            caches: self.0.caches.reports(),
            cleared: lock(&self.0.cleared).iter().cloned().collect(),
            leaving: self.0.is_leaving.load(Ordering::Acquire),
            events: counts.map(|counts| counts()).unwrap_or_default(),
            ..self.0.identity.clone()
        }
    }

    /// The task that publishes the heartbeats of this process and receives the others', with the barrier of its
    /// processor if it has one. `None` for a process without others.
    pub(crate) fn driver(&self, barrier: Option<BarrierDriver>) -> Option<Driver> {
        let topic = self.0.topic.clone()?;
        let (members, deployment) = (self.0.members.clone(), self.clone());
        let describe = move || deployment.heartbeat();
        Some(Driver::new(Arc::new(topic), members, describe, barrier))
    }

    /// From now on the heartbeats report that this process shuts down: no order waits for it.
    pub(crate) fn leave(&self) {
        self.0.is_leaving.store(true, Ordering::Release);
        self.0.members.publish_soon();
    }

    /// Carries out an order of another process and confirms it.
    pub(crate) async fn carry_out(&self, names: &[String], order: &str) {
        let is_in = |orders: &Mutex<VecDeque<String>>| lock(orders).iter().any(|it| it == order);
        let is_known = is_in(&self.0.cleared) || is_in(&self.0.begun);
        if is_known || !names.iter().any(|name| name == CORE_CACHE) {
            return;
        }
        if self.0.caches.clear().await {
            tracing::info!(control.order = order, "caches cleared by order");
            self.did(order);
        }
    }

    fn did(&self, order: &str) {
        remember(&mut lock(&self.0.cleared), order);
        self.0.members.publish_soon();
    }

    /// Waits until every live process has confirmed the order; returns the progress then, or at the deadline.
    async fn carried_out(&self, order: &str, deadline: Instant) -> ClearProgress {
        let mut received = self.0.members.received();
        loop {
            let progress = self.0.members.clear_progress(order);
            if progress.awaited.is_empty() {
                return progress;
            }
            let changed = tokio::time::timeout_at(deadline.into(), received.changed()).await;
            // This holds the sender, so waiting cannot fail.
            if !matches!(changed, Ok(Ok(()))) {
                return self.0.members.clear_progress(order);
            }
        }
    }
}

#[async_trait]
impl Processes for Deployment {
    fn processes(&self) -> Vec<KnownProcess> {
        let own = KnownProcess {
            heartbeat: self.heartbeat(),
            silent_ms: 0,
        };
        std::iter::once(own).chain(self.0.members.list()).collect()
    }

    async fn clear(&self, names: &[String]) -> Result<Cleared, String> {
        let deadline = Instant::now() + CLEARED_WITHIN;
        let turn = tokio::time::timeout_at(deadline.into(), self.0.turns.clone().acquire_owned());
        let Ok(Ok(turn)) = turn.await else {
            return Err("too many such orders are under way; nothing was done".to_owned());
        };
        let order = random_name("order");
        // Concurrent, and each continues when the response has to be sent before: only the waiting ends. The turn is
        // over when the last of them is.
        let turn = Arc::new(turn);
        let here = self.clear_here(&order, turn.clone());
        let others = self.order_others(names, &order, deadline, turn);
        // Without other processes that clear meanwhile, a process waits longer for its own database.
        let here_until = match self.0.topic {
            Some(_) => deadline,
            None => Instant::now() + CLEARED_ALONE_WITHIN,
        };
        let here = tokio::time::timeout_at(here_until.into(), here);
        let (here, others) = tokio::join!(here, others);
        let here = match here {
            Ok(Ok(true)) => ClearedHere::Done,
            Ok(_) => ClearedHere::Failed,
            Err(_) => ClearedHere::UnderWay,
        };
        if !others.is_published {
            tracing::warn!(
                control.order = order,
                "an order to clear caches may not have reached the other processes: it was not published in time"
            );
        }
        let progress = others.progress;
        if progress.confirmed < progress.of {
            tracing::warn!(
                control.order = order,
                control.awaited = ?progress.awaited,
                control.silent = ?progress.silent,
                "some processes did not confirm that their caches are cleared"
            );
        }
        Ok(Cleared {
            order,
            here,
            is_published: others.is_published,
            confirmed: progress.confirmed + usize::from(here == ClearedHere::Done),
            of: progress.of + 1,
        })
    }
}

struct Ordered {
    /// The order is durable on the topic, or there is no other process.
    is_published: bool,
    progress: ClearProgress,
}

impl Deployment {
    /// Starts clearing the caches of this process; the task returns whether they hold no old entry.
    fn clear_here(&self, order: &str, turn: Arc<OwnedSemaphorePermit>) -> JoinHandle<bool> {
        let (deployment, order) = (self.clone(), order.to_owned());
        // This process receives the order too.
        remember(&mut lock(&deployment.0.begun), &order);
        tokio::spawn(async move {
            let _turn = turn;
            let is_done = deployment.0.caches.clear().await;
            if is_done {
                deployment.did(&order);
            }
            is_done
        })
    }

    /// Publishes the order and waits for the others until the deadline.
    async fn order_others(
        &self,
        names: &[String],
        order: &str,
        deadline: Instant,
        turn: Arc<OwnedSemaphorePermit>,
    ) -> Ordered {
        let Some(topic) = self.0.topic.clone() else {
            return Ordered {
                is_published: true,
                progress: ClearProgress::default(),
            };
        };
        let message = ControlMessage::ClearCaches {
            names: names.to_vec(),
            order: order.to_owned(),
        };
        let publishing_turn = turn.clone();
        let published = tokio::spawn(async move {
            let _turn = publishing_turn;
            let published = tokio::time::timeout(PUBLISHED_WITHIN, topic.publish(&message)).await;
            matches!(published, Ok(Ok(())))
        });
        let published = tokio::time::timeout_at(deadline.into(), published).await;
        let is_published = matches!(published, Ok(Ok(true)));
        // No process will carry out an unpublished order.
        let until = if is_published {
            deadline
        } else {
            Instant::now()
        };
        let progress = self.carried_out(order, until).await;
        drop(turn);
        Ordered {
            is_published,
            progress,
        }
    }
}

/// Adds an order, and drops the oldest beyond the bound.
fn remember(orders: &mut VecDeque<String>, order: &str) {
    orders.push_back(order.to_owned());
    while orders.len() > ORDERS_REMEMBERED {
        orders.pop_front();
    }
}

/// The endpoint of a process that listens on this address; for one that listens on all addresses, with the name of its
/// machine, so that it is distinguishable.
fn endpoint(address: SocketAddr, host: Option<&str>) -> String {
    match host {
        Some(host) if address.ip().is_unspecified() => format!("http://{host}:{}", address.port()),
        _ => format!("http://{address}"),
    }
}

/// The name of this machine or container, if the system has one.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_name)).then(|| name.to_owned())
}

fn random_name(kind: &str) -> String {
    format!("{kind}_{:032x}", rand::random::<u128>())
}

/// Consistent at any moment: no code between two changes can panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
