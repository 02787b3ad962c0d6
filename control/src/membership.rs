//! Which processes of the deployment are alive, as far as one process has received their heartbeats. Pure: heartbeats
//! and time in, answers out.
//!
//! The barrier asks whether all processors are paused, the API which processes there are and which of them cleared
//! their caches: both from the same heartbeats.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemas::control::{ALIVE_WITHIN_MS, Heartbeat, KnownProcess};

use crate::echoes::Echoes;

/// How often a processor publishes a heartbeat: its steps may begin for five seconds after one.
pub const PROCESSOR_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of other processes: each heartbeat takes about a kilobyte of the topic.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A barrier does not wait for a processor without a heartbeat for this long. The processor stores nothing from three
/// seconds earlier on; see [`crate::barrier`].
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(15);
/// A process without a heartbeat is listed for this long: long enough for a person to see that one is missing.
const LISTED_FOR: Duration = Duration::from_secs(5 * 60);
/// Processes to keep: far more than a deployment has (X1).
const MEMBERS_MAX: usize = 1000;

/// What one process knows of itself and of the others.
#[derive(Debug)]
pub struct Membership {
    process: String,
    interval: Duration,
    is_urgent: bool,
    echoes: Echoes,
    others: BTreeMap<String, Received>,
    others_max: usize,
    /// When a processor that a barrier had to wait for was last dropped because of [`MEMBERS_MAX`].
    dropped: Option<Instant>,
}

#[derive(Debug)]
struct Received {
    heartbeat: Heartbeat,
    at: Instant,
}

impl Received {
    fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

/// Progress of an order to clear caches among the other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearProgress {
    pub confirmed: usize,
    pub of: usize,
    /// Endpoints of processes that may still confirm.
    pub awaited: Vec<String>,
    /// Endpoints of processes that did not confirm and are not alive.
    pub silent: Vec<String>,
}

impl Membership {
    pub fn new(process: String, interval: Duration) -> Self {
        Self {
            process,
            interval,
            is_urgent: false,
            echoes: Echoes::default(),
            others: BTreeMap::new(),
            others_max: MEMBERS_MAX,
            dropped: None,
        }
    }

    /// The next heartbeat is due at once.
    pub fn publish_soon(&mut self) {
        self.is_urgent = true;
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.is_urgent || self.echoes.is_due(self.interval, now)
    }

    /// Sets process and sequence of a heartbeat that is published now.
    pub fn stamp(&mut self, heartbeat: Heartbeat, now: Instant) -> Heartbeat {
        self.is_urgent = false;
        Heartbeat {
            process: self.process.clone(),
            sequence: self.echoes.publish(now),
            ..heartbeat
        }
    }

    /// Own heartbeats in flight prove nothing any more.
    pub(crate) fn forget_published(&mut self) {
        self.echoes.forget();
    }

    /// For a heartbeat of this process, returns when it was published: at that moment this process was able to publish,
    /// and every message before it on the topic has been received.
    pub fn receive(&mut self, heartbeat: Heartbeat, now: Instant) -> Option<Instant> {
        if heartbeat.process == self.process {
            return self.echoes.receive(heartbeat.sequence);
        }
        if heartbeat.leaving && heartbeat.processor.is_none() {
            self.others.remove(&heartbeat.process);
            return None;
        }
        let received = Received { heartbeat, at: now };
        let process = received.heartbeat.process.clone();
        self.others.insert(process, received);
        self.others
            .retain(|_, other| other.silence(now) < LISTED_FOR);
        while self.others.len() > self.others_max {
            self.drop_most_silent(now);
        }
        None
    }

    fn drop_most_silent(&mut self, now: Instant) {
        let most = self.others.iter().min_by_key(|(_, other)| other.at);
        if let Some((process, other)) = most {
            let process = process.clone();
            if other.heartbeat.processor.is_some() && other.silence(now) < FORGOTTEN_AFTER {
                self.dropped = Some(now);
            }
            self.others.remove(&process);
        }
    }

    /// Whether every other processor that sent a heartbeat within [`FORGOTTEN_AFTER`] is paused at this barrier, by its
    /// last heartbeat.
    pub fn all_paused_at(&self, barrier: &str, now: Instant) -> bool {
        let is_paused = |other: &Received| {
            let state = other.heartbeat.processor.as_ref();
            state.is_none_or(|state| state.barrier.as_deref() == Some(barrier))
        };
        self.dropped.is_none_or(|at| now >= at + FORGOTTEN_AFTER)
            && self
                .others
                .values()
                .all(|other| other.silence(now) >= FORGOTTEN_AFTER || is_paused(other))
    }

    /// The barriers at which other processors are paused, by their heartbeats within [`FORGOTTEN_AFTER`].
    pub fn paused_at(&self, now: Instant) -> impl Iterator<Item = &str> {
        let others = self.others.values();
        let others = others.filter(move |other| other.silence(now) < FORGOTTEN_AFTER);
        others.filter_map(|other| other.heartbeat.processor.as_ref()?.barrier.as_deref())
    }

    /// The other processes that are not leaving, ordered by role and endpoint.
    pub fn list(&self, now: Instant) -> Vec<KnownProcess> {
        let known = self.known(now).map(|(other, silence)| KnownProcess {
            heartbeat: other.heartbeat.clone(),
            silent_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
        });
        let mut list: Vec<_> = known.collect();
        list.sort_by(|a, b| {
            let key = |known: &KnownProcess| {
                let heartbeat = &known.heartbeat;
                (heartbeat.role.clone(), heartbeat.endpoint.clone())
            };
            key(a).cmp(&key(b))
        });
        list
    }

    pub fn clear_progress(&self, order: &str, now: Instant) -> ClearProgress {
        let mut progress = ClearProgress::default();
        for (Received { heartbeat, .. }, silence) in self.known(now) {
            progress.of += 1;
            if heartbeat.cleared.iter().any(|cleared| cleared == order) {
                progress.confirmed += 1;
            } else if silence < Duration::from_millis(ALIVE_WITHIN_MS) {
                progress.awaited.push(heartbeat.endpoint.clone());
            } else {
                progress.silent.push(heartbeat.endpoint.clone());
            }
        }
        progress
    }

    fn known(&self, now: Instant) -> impl Iterator<Item = (&Received, Duration)> {
        let staying = |other: &&Received| !other.heartbeat.leaving;
        let others = self.others.values().filter(staying);
        let others = others.map(move |other| (other, other.silence(now)));
        others.filter(|(_, silence)| *silence < LISTED_FOR)
    }
}

#[cfg(test)]
mod tests;
