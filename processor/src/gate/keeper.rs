//! Says and hears the words by which the gates of all processes are one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use eventlog::LogError;
use schemas::control::Word;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedRwLockWriteGuard, mpsc, watch};

use super::accord::{Accord, Effect, Standing};
use super::{Granted, Local, Order};
use crate::control::Control;
use crate::processor::stopped_by;

/// How often the keeper looks at the time.
const TICK: Duration = Duration::from_millis(200);
/// Words that wait to be said: beyond it the oldest are old news (X1).
const UNSAID_MAX: usize = 16;
/// How long the last word of a process may take.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

type Saying = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;
type Draining = Pin<Box<dyn Future<Output = OwnedRwLockWriteGuard<()>> + Send>>;

/// Keeps the gate of this process one with the others' for as long as it runs.
pub struct Keeper {
    control: Arc<dyn Control>,
    local: Local,
    accord: Accord,
    standing: watch::Sender<Standing>,
    granted: watch::Sender<Granted>,
    orders: mpsc::Receiver<Order>,
    unsaid: VecDeque<Word>,
    saying: Option<Saying>,
    draining: Option<Draining>,
    guard: Option<OwnedRwLockWriteGuard<()>>,
}

impl Keeper {
    pub(super) fn new(
        (control, local, accord): (Arc<dyn Control>, Local, Accord),
        (standing, granted): (watch::Sender<Standing>, watch::Sender<Granted>),
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            control,
            local,
            accord,
            standing,
            granted,
            orders,
            unsaid: VecDeque::new(),
            saying: None,
            draining: None,
            guard: None,
        }
    }

    /// Talks with the others until `stop` becomes true, which has to be after the last step of this process; then tells
    /// them not to wait for it.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut words = self.control.listen();
        // What was said before is not known.
        self.accord.missed();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = words.recv() => match heard {
                    Ok(word) => self.accord.heard(word, Instant::now()),
                    Err(RecvError::Lagged(_)) => self.accord.missed(),
                    Err(RecvError::Closed) => break,
                },
                _ = ticks.tick() => {
                    let partitions = self.local.placed_by.load(Ordering::Acquire);
                    self.accord.place_by(partitions);
                    self.accord.tick(Instant::now());
                }
                order = self.orders.recv() => match order {
                    Some(Order::Close(gate)) => self.accord.close(gate, Instant::now()),
                    Some(Order::Open(outcome)) => self.accord.open(outcome),
                    None => break,
                },
                said = pending(&mut self.saying) => {
                    self.saying = None;
                    if let Err(error) = said {
                        tracing::warn!(error = %error, "the other processors cannot be told for now");
                    }
                }
                guard = pending(&mut self.draining) => {
                    self.draining = None;
                    self.guard = Some(guard);
                }
                () = stopped_by(&mut stop) => break,
            }
            self.settle();
        }
        self.accord.leave();
        self.settle();
        let farewell = async {
            if let Some(saying) = &mut self.saying {
                let _ = saying.await;
            }
            for word in &self.unsaid {
                let _ = self.control.say(word).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL_MAX, farewell).await;
    }

    /// Does what the accord wants done, and shows what it allows.
    fn settle(&mut self) {
        let now = Instant::now();
        if !self.accord.is_closing() {
            self.draining = None;
        } else if self.guard.is_none() && self.draining.is_none() {
            self.draining = Some(Box::pin(self.local.lock.clone().write_owned()));
        }
        let is_drained = self.accord.is_closing() && self.guard.is_some();
        self.accord.drained(is_drained, now);
        for effect in self.accord.effects() {
            match effect {
                Effect::Say(word) => self.unsaid.push_back(word),
                Effect::Changed => self.local.changed(),
                Effect::Replaced => self.local.replaced(),
                Effect::PlacedBy(partitions) => {
                    self.local.placed_by.store(partitions, Ordering::Release);
                }
            }
        }
        while self.unsaid.len() > UNSAID_MAX {
            self.unsaid.pop_front();
        }
        if self.saying.is_none()
            && let Some(word) = self.unsaid.pop_front()
        {
            let control = self.control.clone();
            self.saying = Some(Box::pin(async move { control.say(&word).await }));
        }
        let standing = self.accord.standing(now);
        self.standing.send_if_modified(|shown| {
            let changes = *shown != standing;
            *shown = standing;
            changes
        });
        let granted = self.accord.granted();
        let granted = granted.map(|(gate, until)| (gate.to_owned(), until));
        self.granted.send_if_modified(|shown| {
            let changes = *shown != granted;
            *shown = granted;
            changes
        });
        // Only now: whoever passes has to see what happened while it was closed.
        if !self.accord.is_closing() {
            self.guard = None;
        }
    }
}

/// The future, if there is one; else never.
async fn pending<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
