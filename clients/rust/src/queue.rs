//! The queue between the program and the task that sends, with its bounds and counters: pure, it knows no clock and no
//! network.

use std::collections::VecDeque;

use crate::settings::Settings;
use crate::stats::{Dropped, Stats};

const HEAD: &str = "{\"events\":[";
const TAIL: &str = "]}";

/// Events that wait, each as its JSON, oldest first.
#[derive(Debug)]
pub(crate) struct Queue {
    bounds: Bounds,
    waiting: VecDeque<String>,
    bytes: usize,
    /// Events of the batch that is on its way.
    on_its_way: u64,
    is_closed: bool,
    stats: Stats,
}

/// How much waits, and how much goes at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    queue_events: usize,
    queue_bytes: usize,
    batch_events: usize,
    batch_bytes: usize,
}

impl Bounds {
    /// A batch of one event is the least there can be.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            queue_events: settings.queue_events,
            queue_bytes: settings.queue_bytes,
            batch_events: settings.batch_events.max(1),
            batch_bytes: settings.batch_bytes,
        }
    }
}

/// A batch that was taken from the queue. It has to be given back with what became of it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Batch {
    /// `{"events": [...]}`.
    pub(crate) body: String,
    pub(crate) events: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server answered with 200, and says that it kept and refused so many.
    Sent { accepted: u64, rejected: u64 },
    /// It could not be delivered.
    Failed,
    /// There was no more time for it.
    Left,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            waiting: VecDeque::new(),
            bytes: 0,
            on_its_way: 0,
            is_closed: false,
            stats: Stats::default(),
        }
    }

    /// Whether an event would be refused whatever it holds; then it is counted, and need not be written as JSON.
    pub(crate) fn refuses(&mut self) -> bool {
        let is_full = self.waiting.len() >= self.bounds.queue_events;
        if !is_full && !self.is_closed {
            return false;
        }
        self.stats.queued += 1;
        match self.is_closed {
            true => self.stats.dropped.closed += 1,
            false => self.stats.dropped.queue_full += 1,
        }
        true
    }

    /// Takes an event, or counts why not. Says whether a batch is full now: then it need not wait.
    pub(crate) fn push(&mut self, event: String) -> bool {
        self.stats.queued += 1;
        let Dropped {
            queue_full,
            too_large,
            closed,
            ..
        } = &mut self.stats.dropped;
        if self.is_closed {
            *closed += 1;
        } else if HEAD.len() + event.len() + TAIL.len() > self.bounds.batch_bytes {
            *too_large += 1;
        } else if self.waiting.len() >= self.bounds.queue_events
            || self.bytes + event.len() > self.bounds.queue_bytes
        {
            *queue_full += 1;
        } else {
            self.bytes += event.len();
            self.waiting.push_back(event);
        }
        self.is_batch_full()
    }

    /// Whether more waits than fits into one batch, or just as much.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.waiting.len() >= self.bounds.batch_events || self.bytes >= self.bounds.batch_bytes
    }

    /// The next batch: the oldest events, as many as fit. `None` when none wait.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let mut bytes = HEAD.len() + TAIL.len();
        let fitting = self.waiting.iter().take(self.bounds.batch_events);
        let count = fitting
            .take_while(|event| {
                // The comma after it counts even where there is none.
                bytes += event.len() + 1;
                bytes <= self.bounds.batch_bytes + 1
            })
            .count();
        if count == 0 {
            return None;
        }
        let mut body = String::with_capacity(bytes);
        body.push_str(HEAD);
        for (place, event) in self.waiting.drain(..count).enumerate() {
            if place > 0 {
                body.push(',');
            }
            self.bytes -= event.len();
            body.push_str(&event);
        }
        body.push_str(TAIL);
        let events = count as u64;
        self.on_its_way += events;
        Some(Batch { body, events })
    }

    /// What became of a batch that was taken.
    pub(crate) fn settle(&mut self, events: u64, fate: Fate) {
        self.on_its_way -= events;
        match fate {
            Fate::Sent { accepted, rejected } => {
                self.stats.sent += events;
                self.stats.accepted += accepted;
                self.stats.rejected += rejected;
            }
            Fate::Failed => self.stats.dropped.failed += events,
            Fate::Left => self.stats.dropped.closed += events,
        }
    }

    /// A batch is sent again.
    pub(crate) fn retried(&mut self) {
        self.stats.retries += 1;
    }

    /// Takes no more events.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Gives up what still waits.
    pub(crate) fn leave(&mut self) {
        self.close();
        self.stats.dropped.closed += self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes = 0;
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            waiting: self.waiting.len() as u64 + self.on_its_way,
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests;
