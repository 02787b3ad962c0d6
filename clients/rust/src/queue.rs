//! The queue between the program and the sending task, with its bounds and counters. Pure: no clock, no network.

use std::collections::VecDeque;

use crate::settings::Settings;
use crate::stats::{Dropped, Stats};

const HEAD: &str = "{\"events\":[";
const TAIL: &str = "]}";

/// Queued events as JSON, oldest first.
#[derive(Debug)]
pub(crate) struct Queue {
    bounds: Bounds,
    waiting: VecDeque<String>,
    bytes: usize,
    /// Events of the batch in flight.
    on_its_way: u64,
    is_closed: bool,
    stats: Stats,
}

/// Bounds on the queue and on a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    queue_events: usize,
    queue_bytes: usize,
    batch_events: usize,
    batch_bytes: usize,
}

impl Bounds {
    /// A batch has room for at least one event.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            queue_events: settings.queue_events,
            queue_bytes: settings.queue_bytes,
            batch_events: settings.batch_events.max(1),
            batch_bytes: settings.batch_bytes,
        }
    }
}

/// A batch taken from the queue. It has to be settled with its fate.
#[derive(Debug)]
#[must_use]
pub(crate) struct Batch {
    /// `{"events": [...]}`.
    pub(crate) body: String,
    pub(crate) events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server answered with 200, and accepted and rejected so many events.
    Sent {
        accepted: u64,
        rejected: u64,
    },
    Failed,
    /// The time to close was over.
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

    /// Whether any event would be dropped now; then it is counted, and need not be serialized.
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

    /// Queues an event, or counts why not. Returns whether a batch is full now and need not wait.
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

    /// Whether at least a full batch is queued.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.waiting.len() >= self.bounds.batch_events || self.bytes >= self.bounds.batch_bytes
    }

    /// The next batch: the oldest events, as many as fit. `None` when the queue is empty.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let mut bytes = HEAD.len() + TAIL.len();
        let fitting = self.waiting.iter().take(self.bounds.batch_events);
        let count = fitting
            .take_while(|event| {
                // The comma after it counts even for the last one.
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

    /// Records the fate of a batch.
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

    pub(crate) fn retried(&mut self) {
        self.stats.retries += 1;
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Drops what is still queued.
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
