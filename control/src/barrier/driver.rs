//! The driver of a barrier within one process: connects the protocol with the steps and coordinators of the process.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Instant;

use schemas::control::{ControlMessage, ProcessorState};
use tokio::sync::{OwnedRwLockWriteGuard, mpsc, watch};

use super::protocol::{Effect, PermitState, Protocol};
use super::{Held, Local, Order};
use crate::membership::Membership;

type Draining = Pin<Box<dyn Future<Output = OwnedRwLockWriteGuard<()>> + Send>>;

/// Pauses and resumes the steps of one process as the protocol demands. A [`crate::Driver`] runs it.
pub struct BarrierDriver {
    local: Local,
    protocol: Protocol,
    state: watch::Sender<PermitState>,
    held: watch::Sender<Option<Held>>,
    orders: mpsc::Receiver<Order>,
    /// Waits for the steps in progress.
    draining: Option<Draining>,
    /// Keeps steps from beginning.
    guard: Option<OwnedRwLockWriteGuard<()>>,
}

impl BarrierDriver {
    pub(super) fn new(local: Local, orders: mpsc::Receiver<Order>) -> Self {
        let protocol = Protocol::default();
        Self {
            local,
            state: watch::Sender::new(protocol.permit_state(Instant::now())),
            protocol,
            held: watch::Sender::new(None),
            orders,
            draining: None,
            guard: None,
        }
    }

    pub(super) fn state(&self) -> watch::Receiver<PermitState> {
        self.state.subscribe()
    }

    pub(super) fn held(&self) -> watch::Receiver<Option<Held>> {
        self.held.subscribe()
    }

    /// Waits for an order of a coordinator in this process, or for the last step in progress.
    pub(crate) async fn event(&mut self) {
        tokio::select! {
            Some(order) = self.orders.recv() => match order {
                Order::Acquire(barrier) => self.protocol.acquire(barrier, Instant::now()),
                Order::Release(outcome) => self.protocol.release(outcome),
            },
            guard = drained(&mut self.draining) => {
                self.draining = None;
                self.guard = Some(guard);
            }
        }
    }

    pub(crate) fn tick(&mut self, members: &mut Membership) {
        self.protocol.tick(members, Instant::now());
    }

    pub(crate) fn receive(&mut self, message: ControlMessage, members: &mut Membership) {
        self.protocol.receive(message, members, Instant::now());
    }

    /// Applies the protocol's effects, publishes the permit state, and returns the messages to publish.
    pub(crate) fn advance(&mut self, members: &mut Membership) -> Vec<ControlMessage> {
        let now = Instant::now();
        if !self.protocol.is_requested() {
            self.draining = None;
        } else if self.guard.is_none() && self.draining.is_none() {
            self.draining = Some(Box::pin(self.local.lock.clone().write_owned()));
        }
        let is_drained = self.protocol.is_requested() && self.guard.is_some();
        self.protocol.drained(is_drained, members, now);
        let mut messages = Vec::new();
        for effect in self.protocol.effects() {
            match effect {
                Effect::Publish(message) => messages.push(message),
                Effect::Changed => self.local.changed(),
                Effect::Replaced => self.local.replaced(),
                Effect::Repartitioned(partitions) => {
                    self.local.partitions.store(partitions, Ordering::Release);
                }
            }
        }
        let state = self.protocol.permit_state(now);
        show(&self.state, state);
        let held = self.protocol.held().map(|(barrier, until)| Held {
            barrier: barrier.to_owned(),
            until,
        });
        show(&self.held, held);
        // Last: a step that begins has to see what happened while it waited.
        if !self.protocol.is_requested() {
            self.guard = None;
        }
        messages
    }

    /// The part of the heartbeat of this process, as of the last call of [`BarrierDriver::advance`].
    pub(crate) fn processor_state(&self) -> ProcessorState {
        ProcessorState {
            barrier: self.protocol.paused_at().map(str::to_owned),
            partitions: self.local.partitions.load(Ordering::Acquire),
        }
    }
}

fn show<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|shown| {
        let changes = *shown != value;
        *shown = value;
        changes
    });
}

async fn drained(draining: &mut Option<Draining>) -> OwnedRwLockWriteGuard<()> {
    match draining {
        Some(draining) => draining.await,
        None => std::future::pending().await,
    }
}
