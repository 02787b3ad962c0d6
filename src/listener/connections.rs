//! The table of open connections: their number, their addresses, and which one is evicted when it is full.
//!
//! A connection can be evicted while it only waits for its client: before the head of a request, between requests, and
//! during a request body. The oldest wait ends first, so a client that sends at once is never affected. Bodies of
//! reports end last, and only after [`REPORT_WAIT`]. A request that is being handled or answered is never ended here;
//! other bounds limit its time.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use schemas::client_address::ClientAddress;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections that are evicted at once when the table is full, as a share of it: one pass over the table costs
/// microseconds per thousand entries, so a flood of connections does not cost one pass each.
const EVICTED_SHARE: usize = 100;
/// Wait for a report's body that is never cut short: a body that was sent at once has arrived by then.
const REPORT_WAIT: Duration = Duration::from_secs(1);

/// The purpose of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// Events, for the ingest tier.
    Report,
    /// All other bodies.
    Other,
}

/// Why the server ended or rejected a connection or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its address had too many connections.
    Address,
    /// It was evicted for a new one.
    Evicted,
    /// The client sent no complete head of a request.
    Silent,
    /// A request body arrived too slowly.
    SlowBody,
    /// A response was read too slowly.
    SlowAnswer,
}

impl Ended {
    const ALL: [Self; 5] = [
        Self::Address,
        Self::Evicted,
        Self::Silent,
        Self::SlowBody,
        Self::SlowAnswer,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Address => "address_limit",
            Self::Evicted => "evicted",
            Self::Silent => "silent",
            Self::SlowBody => "slow_body",
            Self::SlowAnswer => "slow_answer",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HttpMetrics {
    open: IntGauge,
    ended: IntCounterVec,
}

impl HttpMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let open = IntGauge::new("spindle_http_connections", "Open connections.")?;
        registry.register(Box::new(open.clone()))?;
        let ended = IntCounterVec::new(
            Opts::new(
                "spindle_http_ended_total",
                "Connections and requests that the server ended, by reason.",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(ended.clone()))?;
        for reason in Ended::ALL {
            ended.with_label_values(&[reason.label()]);
        }
        Ok(Self { open, ended })
    }

    pub(crate) fn ended(&self, reason: Ended) {
        self.ended.with_label_values(&[reason.label()]).inc();
    }
}

/// Clones share the table.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Table>);

struct Table {
    max: usize,
    max_per_address: usize,
    metrics: HttpMetrics,
    started: Instant,
    open: Mutex<Open>,
    /// A connection has ended.
    freed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    by_address: HashMap<ClientAddress, usize>,
}

/// The state of an open connection that others need.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) metrics: HttpMetrics,
    started: Instant,
    /// Start of the current wait, or of the newest request: milliseconds since `started`.
    since_ms: AtomicU64,
    /// Requests since the connection was opened.
    requests: AtomicUsize,
    /// Requests that are being handled or answered.
    busy: AtomicUsize,
    /// Requests that wait for their body.
    reports: AtomicUsize,
    others: AtomicUsize,
    /// The connection has to end at once.
    pub(crate) end: CancellationToken,
}

/// An entry in the table, removed when dropped.
pub(crate) struct Admitted {
    table: Arc<Table>,
    id: u64,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(max: usize, max_per_address: usize, metrics: HttpMetrics) -> Self {
        Self(Arc::new(Table {
            max,
            max_per_address,
            metrics,
            started: Instant::now(),
            open: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// Adds a new connection. Waits while the table is full of connections that cannot be evicted; `None` when the
    /// address has too many of these.
    pub(crate) async fn admit(&self, peer: SocketAddr) -> Option<Admitted> {
        /// Interval of the next attempt: connections become evictable without notice.
        const AGAIN: Duration = Duration::from_millis(100);
        let table = &self.0;
        let address = ClientAddress::from(peer.ip());
        loop {
            let freed = table.freed.notified();
            {
                let mut open = table.open();
                let of_address = open.by_address.get(&address).copied().unwrap_or(0);
                if of_address >= table.max_per_address && !table.evict(&mut open, 1, Some(address))
                {
                    table.metrics.ended(Ended::Address);
                    return None;
                }
                if open.connections.len() < table.max {
                    return Some(Table::insert(table, &mut open, peer));
                }
                table.evict(&mut open, (table.max / EVICTED_SHARE).max(1), None);
            }
            // Whichever comes first; both lead to another attempt.
            let _ = tokio::time::timeout(AGAIN, freed).await;
        }
    }
}

impl Table {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(table: &Arc<Self>, open: &mut Open, peer: SocketAddr) -> Admitted {
        let connection = Arc::new(Connection::new(peer, table.metrics.clone(), table.started));
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, connection.clone());
        let address = ClientAddress::from(peer.ip());
        *open.by_address.entry(address).or_default() += 1;
        table.metrics.open.inc();
        Admitted {
            table: table.clone(),
            id,
            connection,
        }
    }

    /// Evicts up to `most` connections, of one address or of all; whether one was found. Their entries are free as soon
    /// as their tasks have ended.
    fn evict(&self, open: &mut Open, most: usize, of: Option<ClientAddress>) -> bool {
        let now_ms = self.started.elapsed().as_millis() as u64;
        let is_meant = |connection: &Connection| {
            of.is_none_or(|address| address == ClientAddress::from(connection.peer.ip()))
        };
        let mut waiting: Vec<_> = (open.connections.values())
            .filter(|connection| is_meant(connection))
            .filter_map(|connection| Some((connection.wait(now_ms)?, connection)))
            .collect();
        let most = most.min(waiting.len());
        if most == 0 {
            return false;
        }
        waiting.select_nth_unstable_by_key(most - 1, |(wait, _)| *wait);
        for (_, connection) in &waiting[..most] {
            connection.end.cancel();
            self.metrics.ended(Ended::Evicted);
        }
        true
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.table.open();
        open.connections.remove(&self.id);
        let address = ClientAddress::from(self.connection.peer.ip());
        if let Some(count) = open.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
        drop(open);
        self.table.metrics.open.dec();
        self.table.freed.notify_waiters();
    }
}

impl Connection {
    fn new(peer: SocketAddr, metrics: HttpMetrics, started: Instant) -> Self {
        let connection = Self {
            peer,
            metrics,
            started,
            since_ms: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            reports: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            end: CancellationToken::new(),
        };
        connection.waits_from_now();
        connection
    }

    fn waits_from_now(&self) {
        let now_ms = self.started.elapsed().as_millis() as u64;
        self.since_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The order of eviction, least first; `None` for a connection that cannot be evicted.
    fn wait(&self, now_ms: u64) -> Option<(bool, u64)> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let is_report = self.reports.load(Ordering::Relaxed) > 0;
        let is_early = now_ms.saturating_sub(since_ms) < REPORT_WAIT.as_millis() as u64;
        let stays = self.end.is_cancelled()
            || self.busy.load(Ordering::Relaxed) > 0
            || (is_report && is_early);
        (!stays).then_some((is_report, since_ms))
    }

    pub(crate) fn begin(self: &Arc<Self>) -> InRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.waits_from_now();
        InRequest(self.clone())
    }

    /// A request waits for its body from now on.
    pub(crate) fn wait_for_body(self: &Arc<Self>, kind: BodyKind) -> BodyWait {
        self.bodies(kind).fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_sub(1, Ordering::Relaxed);
        BodyWait(self.clone(), kind)
    }

    fn bodies(&self, kind: BodyKind) -> &AtomicUsize {
        match kind {
            BodyKind::Report => &self.reports,
            BodyKind::Other => &self.others,
        }
    }

    /// Returns when there has been no request for `first`, or for `next` once there has been one.
    pub(crate) async fn is_idle(&self, first: Duration, next: Duration) {
        loop {
            let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
            let limit = if count(&self.requests) == 0 {
                first
            } else {
                next
            };
            let is_used = [&self.busy, &self.reports, &self.others]
                .into_iter()
                .any(|of| count(of) > 0);
            let since = Duration::from_millis(self.since_ms.load(Ordering::Relaxed));
            let idle = self.started.elapsed().saturating_sub(since);
            match limit.checked_sub(idle) {
                _ if is_used => tokio::time::sleep(limit).await,
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

/// A request that is being handled or answered, until dropped.
pub(crate) struct InRequest(Arc<Connection>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.waits_from_now();
    }
}

/// A request that waits for its body; when dropped, the request is being handled again.
pub(crate) struct BodyWait(Arc<Connection>, BodyKind);

impl Drop for BodyWait {
    fn drop(&mut self) {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        self.0.bodies(self.1).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
