//! How the processors of a deployment agree that none of them has a step in progress. Pure: messages and time in,
//! messages and permits out.
//!
//! Every processor publishes a heartbeat each second, and at once when it has paused at a barrier. The coordinator, the
//! process that needs the barrier, publishes `AcquireBarrier` each second, and works when all processors have paused.
//!
//! # Why no step is in progress while a coordinator works
//!
//! All processes receive all messages in one order, each at its own time. Let `c` be the moment at which the
//! coordinator published the newest `AcquireBarrier` that counts. It counts if the coordinator received it back within
//! [`ROUND_TRIP_MAX`], and every processor with a heartbeat in the last [`FORGOTTEN_AFTER`] had reported in its last
//! one before that message that it was paused. The coordinator works until `c` + [`HELD_FOR`] at the latest.
//!
//! A step begins only in a process that recently received its own heartbeat which reports that it is not paused. Either
//! that heartbeat comes before the `AcquireBarrier`: then the coordinator received it, and the message did not count.
//! Or it comes after: then the process has received the `AcquireBarrier`, and is paused until [`HELD_FOR`] after that,
//! unless the barrier is released. A process that has just started has not received what was published before; it
//! receives for [`HELD_FOR`] first.
//!
//! The coordinator waits for a step that began before, because the heartbeats of its process report that it is not
//! paused. If the coordinator receives no more heartbeats of that process, the process has not recently received its
//! own either: it stores nothing from [`STORES_FOR`] after its last received own heartbeat on, and repeats the step
//! when it receives one again. That is [`ROUND_TRIP_MAX`] earlier than a coordinator could forget it.

use std::time::{Duration, Instant};

use schemas::control::{BarrierOutcome, ControlMessage};

use crate::echoes::Echoes;
use crate::membership::{FORGOTTEN_AFTER, Membership};

/// How often a coordinator repeats `AcquireBarrier`: nine repetitions may be lost before the barrier expires.
const REPEATED_EVERY: Duration = Duration::from_secs(1);
/// How long a barrier holds after the last message of its coordinator: the longest pause that the death of a
/// coordinator causes.
const HELD_FOR: Duration = Duration::from_secs(10);
/// A step begins only if the last received own heartbeat was published within this time: four may be lost before a
/// processor pauses.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// An `AcquireBarrier` that took longer to come back does not count: the difference between [`STORES_FOR`] and
/// [`FORGOTTEN_AFTER`].
const ROUND_TRIP_MAX: Duration = Duration::from_secs(3);
/// How long after its own heartbeat a process may store what it has begun: long enough for most inserts that began
/// within [`BEGINS_WITHIN`].
const STORES_FOR: Duration = Duration::from_secs(12);
/// Upper bound on one barrier, regardless of who requested it (X1).
const HELD_FOR_MAX: Duration = Duration::from_secs(60);
/// Barriers requested at the same time: far more than there are coordinators (X1).
const REQUESTS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Publish(ControlMessage),
    /// The tables hold other rows of the same runs.
    Changed,
    /// No cached knowledge of the tables is certain.
    Replaced,
    /// Keys are placed by this number of partitions.
    Repartitioned(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitState {
    /// `None` if no step may begin.
    pub(crate) begin_until: Option<Instant>,
    /// `None` if no step may store.
    pub(crate) store_until: Option<Instant>,
    /// Changes whenever steps that began before have to be repeated.
    pub(crate) epoch: u64,
    /// This process does not receive its own heartbeats.
    pub(crate) is_cut_off: bool,
}

/// A requested barrier.
#[derive(Clone, Debug)]
struct Request {
    barrier: String,
    expires: Instant,
}

/// The barrier that this process requests as the coordinator.
#[derive(Clone, Debug)]
struct Own {
    barrier: String,
    echoes: Echoes,
    held_until: Option<Instant>,
}

/// The last heartbeat of this process that it received itself.
#[derive(Clone, Copy, Debug)]
struct Echo {
    published: Instant,
    is_paused: bool,
}

/// The state of one processor. The [`Membership`] that is passed to it is the one of the same process.
#[derive(Default)]
pub(crate) struct Protocol {
    echo: Option<Echo>,
    /// Every message since then was received; `None` before the first echo.
    receives_since: Option<Instant>,
    /// Since when no barrier is requested.
    open_since: Option<Instant>,
    epoch: u64,
    requests: Vec<Request>,
    own: Option<Own>,
    /// No step is in progress, and none begins.
    is_drained: bool,
    effects: Vec<Effect>,
}

impl Protocol {
    /// The effects since the last call, in order.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn permit_state(&self, now: Instant) -> PermitState {
        let echo = self.echo;
        let open = echo.filter(|echo| {
            !echo.is_paused
                && self.open_since.is_none_or(|since| echo.published >= since)
                && self.requests.is_empty()
                && self.own.is_none()
                && self.has_received_for(HELD_FOR, now)
        });
        PermitState {
            begin_until: open.map(|echo| echo.published + BEGINS_WITHIN),
            store_until: echo.map(|echo| echo.published + STORES_FOR),
            epoch: self.epoch,
            is_cut_off: echo.is_none_or(|echo| now >= echo.published + BEGINS_WITHIN),
        }
    }

    /// Whether no step may begin, so that the driver waits for the steps in progress.
    pub(crate) fn is_requested(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Until when the barrier that this process requested holds in all processors.
    pub(crate) fn held(&self) -> Option<(&str, Instant)> {
        let own = self.own.as_ref()?;
        Some((own.barrier.as_str(), own.held_until?))
    }

    /// The barrier at which this process is paused, with no step in progress: the first that was requested.
    pub(crate) fn paused_at(&self) -> Option<&str> {
        let first = self.requests.first().filter(|_| self.is_drained)?;
        Some(first.barrier.as_str())
    }

    /// No step is in progress any more, or steps may begin again.
    pub(crate) fn drained(&mut self, is_drained: bool, members: &mut Membership, now: Instant) {
        if self.is_drained != is_drained {
            self.is_drained = is_drained;
            members.publish_soon();
            self.hurry(members, now);
        }
    }

    /// This process requests a barrier as its coordinator. One at a time.
    pub(crate) fn acquire(&mut self, barrier: String, now: Instant) {
        self.own = Some(Own {
            barrier,
            echoes: Echoes::default(),
            held_until: None,
        });
        self.publish_acquire(now);
    }

    pub(crate) fn release(&mut self, outcome: BarrierOutcome) {
        if let Some(own) = self.own.take() {
            let barrier = own.barrier;
            let message = ControlMessage::ReleaseBarrier { barrier, outcome };
            self.effects.push(Effect::Publish(message));
        }
    }

    /// Messages were missed.
    fn missed(&mut self, members: &mut Membership) {
        self.receives_since = None;
        self.silenced(members);
    }

    /// Nothing of this process was received for long, so no barrier had to wait for it. Every message is still received:
    /// an `AcquireBarrier` in force comes before the next heartbeat of this process.
    fn silenced(&mut self, members: &mut Membership) {
        self.echo = None;
        members.forget_published();
        self.epoch += 1;
        self.effects.push(Effect::Replaced);
    }

    pub(crate) fn tick(&mut self, members: &mut Membership, now: Instant) {
        let echo = self.echo;
        if echo.is_some_and(|echo| now >= echo.published + STORES_FOR) {
            self.silenced(members);
        }
        let before = self.requests.len();
        self.requests.retain(|request| request.expires > now);
        if self.requests.len() < before {
            // What the coordinator did before it went silent is unknown.
            self.effects.push(Effect::Replaced);
            self.ended(members, now);
        }
        let own = self.own.as_ref();
        if own.is_some_and(|own| own.echoes.is_due(REPEATED_EVERY, now)) {
            self.give_way(members, now);
            self.publish_acquire(now);
        }
    }

    /// Takes a message of any process, in the order of the topic.
    pub(crate) fn receive(
        &mut self,
        message: ControlMessage,
        members: &mut Membership,
        now: Instant,
    ) {
        // A late message does not restore what has expired.
        self.tick(members, now);
        match message {
            ControlMessage::Heartbeat(heartbeat) => {
                let state = heartbeat.processor.as_ref();
                let is_paused = state.is_none_or(|state| state.barrier.is_some());
                match members.receive(*heartbeat, now) {
                    Some(published) => self.echoed(published, is_paused, now),
                    None => self.hurry(members, now),
                }
            }
            ControlMessage::AcquireBarrier {
                barrier,
                for_ms,
                sequence,
            } => {
                let expires = now + Duration::from_millis(for_ms).min(HELD_FOR_MAX);
                let request = Request { barrier, expires };
                self.requested(request, sequence, members, now);
            }
            ControlMessage::ReleaseBarrier { barrier, outcome } => {
                self.released(&barrier, outcome, members, now);
            }
            ControlMessage::Missed => self.missed(members),
            _ => {}
        }
    }

    fn echoed(&mut self, published: Instant, is_paused: bool, now: Instant) {
        self.receives_since.get_or_insert(now);
        self.echo = Some(Echo {
            published,
            is_paused,
        });
    }

    /// Every processor has paused: the coordinator's next message counts, so it is published at once.
    fn hurry(&mut self, members: &Membership, now: Instant) {
        let waiting = self.own.as_ref().filter(|own| own.held_until.is_none());
        if waiting.is_some_and(|own| self.all_paused_at(&own.barrier, members, now)) {
            self.publish_acquire(now);
        }
    }

    fn requested(&mut self, request: Request, sequence: u64, members: &Membership, now: Instant) {
        let barrier = request.barrier.clone();
        let mut known = self.requests.iter();
        match known.position(|known| known.barrier == barrier) {
            Some(at) => {
                let known = &mut self.requests[at];
                known.expires = known.expires.max(request.expires);
            }
            None if self.requests.len() < REQUESTS_MAX => self.requests.push(request),
            None => return,
        }
        let all_paused = self.all_paused_at(&barrier, members, now);
        if let Some(own) = self.own.as_mut().filter(|own| own.barrier == barrier)
            && let Some(published) = own.echoes.receive(sequence)
            && now < published + ROUND_TRIP_MAX
            && all_paused
            // A barrier that expired is not held again: steps may have begun since.
            && own.held_until.is_none_or(|until| now < until)
        {
            own.held_until = Some(published + HELD_FOR);
        }
    }

    fn released(
        &mut self,
        barrier: &str,
        outcome: BarrierOutcome,
        members: &mut Membership,
        now: Instant,
    ) {
        let before = self.requests.len();
        self.requests.retain(|request| request.barrier != barrier);
        let was_requested = self.requests.len() < before;
        if let BarrierOutcome::Repartitioned { partitions } = outcome {
            self.effects.push(Effect::Repartitioned(partitions));
        }
        match outcome {
            BarrierOutcome::Nothing => {}
            BarrierOutcome::Changed if was_requested => self.effects.push(Effect::Changed),
            _ => self.effects.push(Effect::Replaced),
        }
        if was_requested {
            self.ended(members, now);
        }
    }

    /// Whether this process and all other processors are paused at this barrier and no other.
    fn all_paused_at(&self, barrier: &str, members: &Membership, now: Instant) -> bool {
        self.paused_at() == Some(barrier)
            && self.has_received_for(FORGOTTEN_AFTER, now)
            && members.all_paused_at(barrier, now)
    }

    fn has_received_for(&self, duration: Duration, now: Instant) -> bool {
        self.receives_since
            .is_some_and(|since| now >= since + duration)
    }

    fn ended(&mut self, members: &mut Membership, now: Instant) {
        if self.requests.is_empty() {
            self.is_drained = false;
            self.open_since = Some(now);
        }
        members.publish_soon();
    }

    /// Releases the barrier that this process waits for, to request it again behind the others, if some processors are
    /// paused at it and others at one with a lower name.
    ///
    /// Processes that run receive requests in one order. One that starts receives their repetitions first, which may come
    /// in another order: it is paused at another barrier than the rest, and no coordinator has all processors. Of those
    /// coordinators all but one give way, and every process receives that in one order.
    fn give_way(&mut self, members: &Membership, now: Instant) {
        let Some(own) = self.own.as_ref().filter(|own| own.held_until.is_none()) else {
            return;
        };
        let is_requested =
            |barrier: &str| self.requests.iter().any(|known| known.barrier == barrier);
        let paused_at = || members.paused_at(now).chain(self.paused_at());
        let barrier = own.barrier.as_str();
        let is_split = paused_at().any(|at| at == barrier)
            && paused_at().any(|at| at < barrier && is_requested(at));
        if is_split && let Some(own) = &mut self.own {
            // A request from before the release must not count any more: the processors resume after it.
            own.echoes.forget();
            let (barrier, outcome) = (own.barrier.clone(), BarrierOutcome::Nothing);
            let message = ControlMessage::ReleaseBarrier { barrier, outcome };
            self.effects.push(Effect::Publish(message));
        }
    }

    fn publish_acquire(&mut self, now: Instant) {
        if let Some(own) = &mut self.own {
            let message = ControlMessage::AcquireBarrier {
                barrier: own.barrier.clone(),
                for_ms: u64::try_from(HELD_FOR.as_millis()).unwrap_or(u64::MAX),
                sequence: own.echoes.publish(now),
            };
            self.effects.push(Effect::Publish(message));
        }
    }
}

#[cfg(test)]
mod tests;
