//! How the processors of a deployment agree that no step is under way in any of them. Pure: words and time in, words
//! and permissions out.
//!
//! Every process says each second that it is there, and whether it keeps its gate closed. Whoever wants all gates closed
//! says so each second, and may go on when all that are there have answered.
//!
//! # Why no step is under way while a closer works
//!
//! All processes hear all words in one order, each at a time of its own. Let `c` be the moment at which the closer said
//! the newest `Close` that counts. It counts if the closer heard it back within [`ROUND_TRIP_MAX`], and every process
//! that it heard of in the last [`FORGOTTEN_AFTER`] had said before it that it was closed. The closer works until
//! `c` + [`CLOSED_FOR`] at the latest.
//!
//! A step begins only in a process that lately heard itself say that it is open. Either it said so before that `Close`:
//! then the closer heard it, and the `Close` did not count. Or after: then it has heard the `Close`, and is closed until
//! [`CLOSED_FOR`] after that, unless it opens. A process that has just started has not heard what was said before;
//! it listens for [`CLOSED_FOR`] first.
//!
//! A step that began before is waited for, because its process says that it is open. If the closer does not hear of
//! that process any more, the process does not hear itself either, or not lately: it stores nothing from
//! [`WRITES_FOR`] after the last word of its own that it heard, and begins the step anew when it is heard again.
//! That is [`ROUND_TRIP_MAX`] earlier than a closer could forget it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use schemas::control::{Outcome, Processor, Word};

/// How often a process says that it is there, and a closer that it closes.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// How long a gate stays closed after the last word of its closer.
pub(super) const CLOSED_FOR: Duration = Duration::from_secs(10);
/// A step begins only when a word of this process was heard by itself that was said no longer ago.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// A process is not waited for that was not heard for this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15);
/// A `Close` that took longer than this to come back does not count.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(3);
/// How long after a word of its own a process may store what it has begun.
const WRITES_FOR: Duration = Duration::from_secs(12);
/// Longest time a gate is kept closed for one word, whoever says it (X1).
const CLOSED_FOR_MAX: Duration = Duration::from_secs(60);
/// Own words that are remembered until they are heard: one a second, and two at each closing (X1).
const SAID_MAX: usize = 100;
/// Gates that are closed at a time, and processes that are remembered: far more than there are (X1).
const CLOSINGS_MAX: usize = 100;
const OTHERS_MAX: usize = 10_000;

/// What a process has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Say this.
    Say(Word),
    /// The tables hold other rows of the same runs.
    Changed,
    /// Nothing that is known of the tables is certain.
    Replaced,
    /// Records are placed by this number of partitions.
    PlacedBy(u32),
}

/// What steps may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Until when a step may begin.
    pub(super) passes_until: Option<Instant>,
    /// Until when a step may store; `None` when not at all.
    pub(super) writes_until: Option<Instant>,
    /// Changes whenever steps that began before have to be done anew.
    pub(super) epoch: u64,
    /// Nothing is heard of the others.
    pub(super) is_deaf: bool,
}

/// A gate that somebody closes.
#[derive(Clone, Debug)]
struct Closing {
    gate: String,
    until: Instant,
}

/// Another process, as it was last heard.
#[derive(Clone, Debug)]
struct Other {
    heard: Instant,
    closed: Option<String>,
}

/// A gate that this process closes.
#[derive(Clone, Debug)]
struct Mine {
    gate: String,
    said: VecDeque<(u64, Instant)>,
    last_said: Option<Instant>,
    count: u64,
    until: Option<Instant>,
}

/// One word of this process's own, heard by itself.
#[derive(Clone, Copy, Debug)]
struct HeardBack {
    said: Instant,
    is_open: bool,
}

/// What one process knows.
pub(super) struct Accord {
    process: String,
    partitions: u32,
    count: u64,
    said: VecDeque<(u64, Instant)>,
    last_said: Option<Instant>,
    heard_back: Option<HeardBack>,
    /// Everything that was said since then was heard.
    listens_since: Instant,
    /// Since when no gate is closed here.
    open_since: Instant,
    epoch: u64,
    closings: Vec<Closing>,
    others: BTreeMap<String, Other>,
    mine: Option<Mine>,
    /// No step is under way, and none begins.
    is_drained: bool,
    effects: Vec<Effect>,
}

impl Accord {
    /// A process of this name, new at each start, that hears everything from now on.
    pub(super) fn new(process: String, now: Instant) -> Self {
        Self {
            process,
            partitions: 0,
            count: 0,
            said: VecDeque::new(),
            last_said: None,
            heard_back: None,
            listens_since: now,
            open_since: now,
            epoch: 0,
            closings: Vec::new(),
            others: BTreeMap::new(),
            mine: None,
            is_drained: false,
            effects: Vec::new(),
        }
    }

    /// What has to be done since this was last asked, in order.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What steps may do.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        let heard = self.heard_back;
        let opens = heard.filter(|heard| {
            heard.is_open
                && heard.said >= self.open_since
                && self.closings.is_empty()
                && self.mine.is_none()
                && now >= self.listens_since + CLOSED_FOR
        });
        Standing {
            passes_until: opens.map(|heard| heard.said + HEARD_WITHIN),
            writes_until: heard.map(|heard| heard.said + WRITES_FOR),
            epoch: self.epoch,
            is_deaf: heard.is_none_or(|heard| now >= heard.said + HEARD_WITHIN),
        }
    }

    /// Whether no step may begin, so that those under way can be waited for.
    pub(super) fn is_closing(&self) -> bool {
        !self.closings.is_empty()
    }

    /// Until when the gate that this process closes is closed everywhere.
    pub(super) fn granted(&self) -> Option<(&str, Instant)> {
        let mine = self.mine.as_ref()?;
        Some((mine.gate.as_str(), mine.until?))
    }

    /// The number of partitions records are placed by, for others to see.
    pub(super) fn place_by(&mut self, partitions: u32) {
        self.partitions = partitions;
    }

    /// No step is under way any more, or steps may begin again.
    pub(super) fn drained(&mut self, is_drained: bool, now: Instant) {
        if self.is_drained != is_drained {
            self.is_drained = is_drained;
            self.say_self(now);
            self.hurry(now);
        }
    }

    /// This process wants all gates closed. One at a time.
    pub(super) fn close(&mut self, gate: String, now: Instant) {
        self.mine = Some(Mine {
            gate,
            said: VecDeque::new(),
            last_said: None,
            count: 0,
            until: None,
        });
        self.say_close(now);
    }

    /// The gate that this process closed may open.
    pub(super) fn open(&mut self, outcome: Outcome) {
        if let Some(mine) = self.mine.take() {
            let gate = mine.gate;
            self.effects.push(Effect::Say(Word::Open { gate, outcome }));
        }
    }

    /// The process ends.
    pub(super) fn leave(&mut self) {
        self.count += 1;
        let word = self.word(true);
        self.effects.push(Effect::Say(word));
    }

    /// Words were missed.
    pub(super) fn missed(&mut self) {
        self.lapse();
    }

    /// Time passes.
    pub(super) fn tick(&mut self, now: Instant) {
        let heard = self.heard_back;
        if heard.is_some_and(|heard| now >= heard.said + WRITES_FOR) {
            self.lapse();
        }
        let before = self.closings.len();
        self.closings.retain(|closing| closing.until > now);
        if self.closings.len() < before {
            // Nobody says what the closer did before it went silent.
            self.effects.push(Effect::Replaced);
            self.opened(now);
        }
        let is_due = |last: Option<Instant>| last.is_none_or(|last| now >= last + SAID_EVERY);
        if is_due(self.last_said) {
            self.say_self(now);
        }
        if self
            .mine
            .as_ref()
            .is_some_and(|mine| is_due(mine.last_said))
        {
            self.say_close(now);
        }
    }

    /// A word came, of this process or another.
    pub(super) fn heard(&mut self, word: Word, now: Instant) {
        // What lapsed is not brought back by a word that comes late.
        self.tick(now);
        match word {
            Word::Processor(word) if word.process == self.process => self.heard_self(&word, now),
            Word::Processor(word) => self.heard_other(word, now),
            Word::Close {
                gate,
                for_ms,
                count,
            } => self.heard_close(gate, Duration::from_millis(for_ms), (count, now)),
            Word::Open { gate, outcome } => self.heard_open(&gate, outcome, now),
            _ => {}
        }
    }

    fn heard_self(&mut self, word: &Processor, now: Instant) {
        let Some(said) = take(&mut self.said, word.count) else {
            return;
        };
        if self.heard_back.is_none() {
            self.listens_since = now;
        }
        self.heard_back = Some(HeardBack {
            said,
            is_open: word.closed.is_none(),
        });
    }

    fn heard_other(&mut self, word: Processor, now: Instant) {
        self.others
            .retain(|_, other| now < other.heard + FORGOTTEN_AFTER);
        if word.leaves {
            self.others.remove(&word.process);
        } else if self.others.len() < OTHERS_MAX || self.others.contains_key(&word.process) {
            let other = Other {
                heard: now,
                closed: word.closed,
            };
            self.others.insert(word.process, other);
            self.hurry(now);
        }
    }

    /// The last answer is here: the closer's next word counts, so it need not wait for its time.
    fn hurry(&mut self, now: Instant) {
        let waiting = self.mine.as_ref().filter(|mine| mine.until.is_none());
        if waiting.is_some_and(|mine| self.is_closed_everywhere(&mine.gate, now)) {
            self.say_close(now);
        }
    }

    fn heard_close(&mut self, gate: String, lasts: Duration, (count, now): (u64, Instant)) {
        let until = now + lasts.min(CLOSED_FOR_MAX);
        let known = self.closings.iter().position(|known| known.gate == gate);
        match known {
            Some(at) => self.closings[at].until = self.closings[at].until.max(until),
            None if self.closings.len() < CLOSINGS_MAX => self.closings.push(Closing {
                gate: gate.clone(),
                until,
            }),
            None => return,
        }
        let is_closed_everywhere = self.is_closed_everywhere(&gate, now);
        if let Some(mine) = self.mine.as_mut().filter(|mine| mine.gate == gate)
            && let Some(said) = take(&mut mine.said, count)
            && now < said + ROUND_TRIP_MAX
            && is_closed_everywhere
            // Once over, it is over: steps may have begun since.
            && mine.until.is_none_or(|until| now < until)
        {
            mine.until = Some(said + CLOSED_FOR);
        }
    }

    fn heard_open(&mut self, gate: &str, outcome: Outcome, now: Instant) {
        let before = self.closings.len();
        self.closings.retain(|closing| closing.gate != gate);
        let was_closed = self.closings.len() < before;
        if let Outcome::Repartitioned { partitions } = outcome {
            self.effects.push(Effect::PlacedBy(partitions));
        }
        match outcome {
            Outcome::Nothing => {}
            Outcome::Changed if was_closed => self.effects.push(Effect::Changed),
            _ => self.effects.push(Effect::Replaced),
        }
        if was_closed {
            self.opened(now);
        }
    }

    /// Whether this process and all others keep this gate closed and no other.
    fn is_closed_everywhere(&self, gate: &str, now: Instant) -> bool {
        let mut others = self.others.values();
        self.closed_gate() == Some(gate)
            && now >= self.listens_since + FORGOTTEN_AFTER
            && others.all(|other| {
                now >= other.heard + FORGOTTEN_AFTER || other.closed.as_deref() == Some(gate)
            })
    }

    /// The gate that is closed here, with no step under way: the first that was.
    fn closed_gate(&self) -> Option<&str> {
        let first = self.closings.first().filter(|_| self.is_drained)?;
        Some(first.gate.as_str())
    }

    fn opened(&mut self, now: Instant) {
        if self.closings.is_empty() {
            self.is_drained = false;
            self.open_since = now;
        }
        self.say_self(now);
    }

    /// Nobody need have waited for this process.
    fn lapse(&mut self) {
        self.heard_back = None;
        self.said.clear();
        self.epoch += 1;
        self.effects.push(Effect::Replaced);
    }

    fn say_self(&mut self, now: Instant) {
        self.count += 1;
        self.last_said = Some(now);
        remember(&mut self.said, (self.count, now));
        let word = self.word(false);
        self.effects.push(Effect::Say(word));
    }

    fn word(&self, leaves: bool) -> Word {
        Word::Processor(Processor {
            process: self.process.clone(),
            closed: self.closed_gate().map(str::to_owned),
            partitions: self.partitions,
            leaves,
            count: self.count,
        })
    }

    fn say_close(&mut self, now: Instant) {
        if let Some(mine) = &mut self.mine {
            mine.count += 1;
            mine.last_said = Some(now);
            remember(&mut mine.said, (mine.count, now));
            self.effects.push(Effect::Say(Word::Close {
                gate: mine.gate.clone(),
                for_ms: u64::try_from(CLOSED_FOR.as_millis()).unwrap_or(u64::MAX),
                count: mine.count,
            }));
        }
    }
}

fn remember(said: &mut VecDeque<(u64, Instant)>, word: (u64, Instant)) {
    if said.len() == SAID_MAX {
        said.pop_front();
    }
    said.push_back(word);
}

/// When the word of this number was said; it and those before it are forgotten.
fn take(said: &mut VecDeque<(u64, Instant)>, count: u64) -> Option<Instant> {
    while let Some((number, at)) = said.pop_front() {
        if number == count {
            return Some(at);
        }
        if number > count {
            said.push_front((number, at));
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests;
