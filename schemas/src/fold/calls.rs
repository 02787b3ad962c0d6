//! The model calls of a run: each event of type `llm` with usage is one (interface 6.3).
//!
//! Nearly every run has one call at most, and its registers say all about it. Only where they do not (a second call,
//! a call below a run of another type) the state keeps the calls themselves: [`Calls`] is absent otherwise, so
//! ordinary runs take no more memory and no more bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Stamp;
use super::state::ExactDecimal;
use crate::event::{Event, Tokens};

/// Weight of the calls kept of one run: the earliest up to here. The row, which is written again whenever the run
/// changes, has no more bytes than this.
const RUN_CALLS_BYTES: usize = 4 << 20;
/// Weight of one call, of which there are 131,072 without the names of their models: at most its bytes in the row, but
/// for figures that no model has.
const CALL_BYTES: usize = 32;

/// One model call, as its event reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// Whether the event has the type `llm` itself; without a type, it has that of its run.
    pub(super) is_typed: bool,
    /// `None` where other events of the run name it.
    pub(super) model: Option<Box<str>>,
    pub(super) tokens: Tokens,
    /// USD, from the client.
    pub(super) cost: Option<ExactDecimal>,
}

impl Call {
    /// The call that this event completes, if it does: an opening event begins a call, and its usage belongs to the
    /// event that closes it.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let kind = event.kind.as_deref();
        let effect = event.effect;
        let only_opens = effect.opened_at_ms.is_some() && effect.closed_at_ms.is_none();
        if only_opens || kind.is_some_and(|kind| kind != "llm") {
            return None;
        }
        let call = Self {
            is_typed: kind.is_some(),
            model: event.model.as_deref().map(Into::into),
            tokens: event.tokens,
            cost: event.cost.map(ExactDecimal),
        };
        call.is_complete().then_some(call)
    }

    /// Whether it says enough to be priced, the model aside.
    pub(super) fn is_complete(&self) -> bool {
        let Tokens {
            prompt,
            completion,
            total,
            ..
        } = self.tokens;
        self.cost.is_some() || total.is_some() || (prompt.is_some() && completion.is_some())
    }
}

/// The calls of a run in order of time, and how many have each model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    by_stamp: BTreeMap<Stamp, Box<Call>>,
    models: BTreeMap<Box<str>, usize>,
    /// The sum of [`CALL_BYTES`] and of the texts of `models`.
    weight: usize,
}

impl Calls {
    /// Adds a call. Two under one stamp (an `event_id` used twice) are ordered by value, so that the outcome never
    /// depends on the order. Neither does the bound: the weight of a set grows with the set, so a call that is dropped
    /// would be dropped in any order.
    pub(super) fn offer(&mut self, stamp: Stamp, call: Call) {
        match self.by_stamp.get(&stamp) {
            Some(kept) if **kept >= call => return,
            Some(_) => self.remove(stamp),
            None => {}
        }
        self.weight += CALL_BYTES;
        if let Some(model) = &call.model {
            let count = self.models.entry(model.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.weight += model.len();
            }
        }
        self.by_stamp.insert(stamp, Box::new(call));
        while self.weight > RUN_CALLS_BYTES
            && let Some((last, _)) = self.by_stamp.last_key_value()
        {
            self.remove(*last);
        }
    }

    fn remove(&mut self, stamp: Stamp) {
        let Some(call) = self.by_stamp.remove(&stamp) else {
            return;
        };
        self.weight -= CALL_BYTES;
        if let Some(model) = call.model
            && let Some(count) = self.models.get_mut(&model)
        {
            *count -= 1;
            if *count == 0 {
                self.models.remove(&model);
                self.weight -= model.len();
            }
        }
    }

    /// Adds the calls of others.
    pub(super) fn join(&mut self, others: Self) {
        for (stamp, call) in others.by_stamp {
            self.offer(stamp, *call);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_stamp.len()
    }

    /// The calls, in order of time.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Stamp, &Call)> {
        self.by_stamp
            .iter()
            .map(|(stamp, call)| (*stamp, call.as_ref()))
    }

    /// Whether they are just this one, or none.
    pub(super) fn are(&self, one: Option<&(Stamp, Call)>) -> bool {
        match one {
            Some((stamp, call)) => {
                let kept = self.by_stamp.get(stamp);
                self.len() == 1 && kept.is_some_and(|kept| **kept == *call)
            }
            None => self.by_stamp.is_empty(),
        }
    }
}

impl FromIterator<(Stamp, Call)> for Calls {
    fn from_iter<I: IntoIterator<Item = (Stamp, Call)>>(calls: I) -> Self {
        let mut all = Self::default();
        calls
            .into_iter()
            .for_each(|(stamp, call)| all.offer(stamp, call));
        all
    }
}

/// The stored form of calls: models once each, and for each call the time since the one before it, the rest of its
/// stamp, its model, which figures it has, and these.
#[derive(Serialize, Deserialize)]
struct Stored {
    models: Vec<Box<str>>,
    calls: Vec<StoredCall>,
    /// Costs from the client, by position.
    costs: Vec<(u32, ExactDecimal)>,
}

#[derive(Serialize, Deserialize)]
struct StoredCall {
    after_ms: i64,
    tie: [u8; 8],
    /// 0 for none, else one more than the position in the table.
    model: u32,
    /// Bit 0: typed. Bits 1 to 5: which of the counts are given.
    flags: u8,
    counts: Vec<u64>,
}

impl Serialize for Calls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.models.keys().map(AsRef::as_ref).zip(1..);
        let models: BTreeMap<&str, u32> = numbers.collect();
        let mut before_ms = 0;
        let mut calls = Vec::with_capacity(self.len());
        let mut costs = Vec::new();
        for ((stamp, call), position) in self.iter().zip(0u32..) {
            let mut flags = u8::from(call.is_typed);
            let mut counts = Vec::new();
            for (count, bit) in in_order(&call.tokens).into_iter().zip(1..) {
                if let Some(count) = count {
                    flags |= 1 << bit;
                    counts.push(count);
                }
            }
            costs.extend(call.cost.map(|cost| (position, cost)));
            let model = call.model.as_deref().and_then(|model| models.get(model));
            calls.push(StoredCall {
                after_ms: stamp.timestamp_ms().wrapping_sub(before_ms),
                tie: stamp.tie(),
                model: model.copied().unwrap_or(0),
                flags,
                counts,
            });
            before_ms = stamp.timestamp_ms();
        }
        let stored = Stored {
            models: models.into_keys().map(Into::into).collect(),
            calls,
            costs,
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Calls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let mut costs: BTreeMap<u32, ExactDecimal> = stored.costs.into_iter().collect();
        let mut before_ms = 0i64;
        let calls = stored
            .calls
            .into_iter()
            .zip(0u32..)
            .map(|(call, position)| {
                before_ms = before_ms.wrapping_add(call.after_ms);
                let mut counts = call.counts.into_iter();
                let mut count = |bit: u8| {
                    let is_given = call.flags & (1 << bit) != 0;
                    is_given.then(|| counts.next()).flatten()
                };
                let tokens = Tokens {
                    prompt: count(1),
                    completion: count(2),
                    total: count(3),
                    cached: count(4),
                    reasoning: count(5),
                };
                let model = usize::try_from(call.model).ok();
                let model = model.and_then(|number| stored.models.get(number.checked_sub(1)?));
                let read = Call {
                    is_typed: call.flags & 1 != 0,
                    model: model.cloned(),
                    tokens,
                    cost: costs.remove(&position),
                };
                (Stamp::from_parts(before_ms, call.tie), read)
            });
        Ok(calls.collect())
    }
}

/// The counts, in the order of their bits.
fn in_order(tokens: &Tokens) -> [Option<u64>; 5] {
    let Tokens {
        prompt,
        completion,
        total,
        cached,
        reasoning,
    } = *tokens;
    [prompt, completion, total, cached, reasoning]
}

#[cfg(test)]
mod tests;
