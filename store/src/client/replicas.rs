//! Several replicas behind one client, which stays with one of them until a connection to it fails.
//!
//! [`Choice`] decides, with the time as an argument; [`connector`] opens connections accordingly, [`probe`] checks
//! replicas. Errors of queries say nothing about a replica and change no choice.

mod connector;
mod probe;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use connector::client;

use crate::error::StoreError;
use crate::metrics::Metrics;

/// Maximum number of replicas: each is probed every few seconds (X1).
pub const REPLICAS_MAX: usize = 16;
/// How long a replica is avoided after a failure; doubles while it keeps failing.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest such pause: how long a replica that has recovered may stay unused.
const PAUSE_MOST: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Health {
    /// End of the pause; `None` while it is healthy.
    rests_until: Option<Instant>,
    /// Failures since it was last healthy.
    failures: u32,
}

/// Chooses a replica. Pure: time is an argument.
#[derive(Clone, Debug)]
struct Choice {
    health: Vec<Health>,
    in_use: usize,
}

impl Choice {
    fn new(replicas: usize) -> Self {
        Self {
            health: vec![Health::default(); replicas.max(1)],
            in_use: 0,
        }
    }

    /// The replicas to try for one connection, each once: the current one, then healthy ones and ones whose pause is
    /// over, then the rest by the end of their pause.
    fn order(&self, now: Instant) -> Vec<usize> {
        let count = self.health.len();
        let mut order: Vec<usize> = (0..count).map(|n| (self.in_use + n) % count).collect();
        order.sort_by_key(|replica| {
            let rests = self.health[*replica].rests_until;
            rests.filter(|until| *until > now)
        });
        order
    }

    /// A connection to this replica failed: its pause begins, and if it was the current one, the next one is.
    fn failed(&mut self, replica: usize, now: Instant) {
        let Some(health) = self.health.get_mut(replica) else {
            return;
        };
        // Connections that break together are one failure.
        if health.rests_until.is_some_and(|until| until > now) {
            return;
        }
        let doublings = health.failures.min(16);
        health.failures = health.failures.saturating_add(1);
        let pause = (PAUSE_FIRST * 2_u32.pow(doublings)).min(PAUSE_MOST);
        health.rests_until = Some(now + pause);
        if replica == self.in_use {
            self.in_use = self.order(now)[0];
        }
    }

    /// This replica answered. It becomes the current one only if the current one is not healthy.
    fn answered(&mut self, replica: usize) {
        let Some(health) = self.health.get_mut(replica) else {
            return;
        };
        *health = Health::default();
        if self.health[self.in_use].rests_until.is_some() {
            self.in_use = replica;
        }
    }

    /// Whether to probe this replica.
    fn is_due(&self, replica: usize, now: Instant) -> bool {
        let rests = self.health[replica].rests_until;
        rests.is_none_or(|until| until <= now)
    }
}

/// Host and port of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// From `http://host:port`.
    fn of(url: &str) -> Result<Self, StoreError> {
        // The URL may contain a password.
        let bad = |why: &str| {
            StoreError::Invalid(format!(
                "an address of ClickHouse must be like http://host:8123: {why}"
            ))
        };
        let uri: hyper::Uri = url.parse().map_err(|_| bad("it cannot be read"))?;
        if uri.scheme_str() != Some("http") {
            return Err(bad("it has to begin with http://"));
        }
        let host = uri.host().ok_or_else(|| bad("it has no host"))?;
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(8123),
        })
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

#[derive(Debug)]
pub(crate) struct Replicas {
    addresses: Vec<Address>,
    choice: Mutex<Choice>,
    metrics: Metrics,
}

impl Replicas {
    /// From `http://host:port` each, the first one current.
    pub(crate) fn new<'a>(
        urls: impl Iterator<Item = &'a str>,
        metrics: Metrics,
    ) -> Result<Arc<Self>, StoreError> {
        let addresses: Vec<Address> = urls.map(Address::of).collect::<Result<_, _>>()?;
        if addresses.len() > REPLICAS_MAX {
            return Err(StoreError::Invalid(format!(
                "{} replicas are given, {REPLICAS_MAX} is the most there may be",
                addresses.len()
            )));
        }
        let replicas = Self {
            choice: Mutex::new(Choice::new(addresses.len())),
            addresses,
            metrics,
        };
        replicas.show(&replicas.choice());
        Ok(Arc::new(replicas))
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.choice().in_use
    }

    fn order(&self) -> Vec<usize> {
        self.choice().order(Instant::now())
    }

    fn failed(&self, replica: usize, why: &str) {
        self.change(|choice| choice.failed(replica, Instant::now()), why);
    }

    fn answered(&self, replica: usize) {
        self.change(|choice| choice.answered(replica), "it is back");
    }

    fn change(&self, change: impl FnOnce(&mut Choice), why: &str) {
        let mut choice = self.choice();
        let before = choice.in_use;
        change(&mut choice);
        if choice.in_use != before {
            self.metrics.replica_switches.inc();
            tracing::warn!(
                clickhouse.from = self.addresses[before].name(),
                clickhouse.to = self.addresses[choice.in_use].name(),
                clickhouse.why = why,
                "another replica is used from now on"
            );
        }
        self.show(&choice);
    }

    fn show(&self, choice: &Choice) {
        for (replica, address) in self.addresses.iter().enumerate() {
            let name = address.name();
            let up = choice.health[replica].rests_until.is_none();
            let gauge = |vec: &prometheus::IntGaugeVec, value: bool| {
                vec.with_label_values(&[&name]).set(i64::from(value));
            };
            gauge(&self.metrics.replica_up, up);
            gauge(&self.metrics.replica_in_use, replica == choice.in_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_replica_is_kept_until_it_fails_and_not_left_because_another_is_back() {
        let now = Instant::now();
        let mut choice = Choice::new(3);
        assert_eq!(choice.order(now), [0, 1, 2]);
        choice.failed(0, now);
        assert_eq!((choice.in_use, choice.order(now)), (1, vec![1, 2, 0]));
        choice.answered(0);
        assert_eq!(choice.in_use, 1);
        choice.failed(2, now);
        assert_eq!(choice.in_use, 1);
    }

    #[test]
    fn a_replica_that_keeps_failing_rests_longer_and_longer_up_to_a_bound() {
        let mut now = Instant::now();
        let mut choice = Choice::new(2);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            choice.failed(0, now);
            let until = choice.health[0].rests_until.unwrap();
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses[..3], [PAUSE_FIRST, PAUSE_FIRST * 2, PAUSE_FIRST * 4]);
        assert_eq!(pauses[9], PAUSE_MOST);
    }

    #[test]
    fn addresses_are_http_with_host_and_port() {
        let address = Address::of("http://db-1:8124").unwrap();
        assert_eq!(address.name(), "db-1:8124");
        assert_eq!(Address::of("http://db").unwrap().port, 8123);
        for bad in ["https://db", "db:8123", "", "ftp://x"] {
            assert!(Address::of(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_replica_is_tried_once_and_one_that_is_fine_is_used_if_there_is_one(
            count in 1_usize..6,
            steps in prop::collection::vec((0_usize..6, any::<bool>(), 0_u64..3000), 0..60),
        ) {
            let mut now = Instant::now();
            let mut choice = Choice::new(count);
            for (replica, fails, ms) in steps {
                now += Duration::from_millis(ms);
                if fails {
                    choice.failed(replica, now);
                } else {
                    choice.answered(replica);
                }
                let mut order = choice.order(now);
                prop_assert_eq!(order.len(), count);
                let is_fine = |replica: usize| choice.health[replica].rests_until.is_none();
                if (0..count).any(is_fine) {
                    prop_assert!(choice.is_due(order[0], now));
                }
                order.sort_unstable();
                prop_assert_eq!(order, (0..count).collect::<Vec<_>>());
            }
        }
    }
}
