//! The model calls of a run: each event of type `llm` with usage is one (interface 6.3).
//!
//! Nearly every run has one call at most, and its registers say all about it. Only where they do not (a second call,
//! a call below a run of another type) the state keeps the calls themselves: [`Calls`] is absent otherwise, so
//! ordinary runs take no more memory and no more bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Stamp;
use super::state::ExactDecimal;
use crate::event::{CallDetails, Event, Tokens, UsageParts};

/// Weight of the calls kept of one run: the earliest up to here. The row, which is written again whenever the run
/// changes, has no more bytes than this.
const RUN_CALLS_BYTES: usize = 4 << 20;
/// Weight of one call, of which there are 131,072 without the names of their models: at most its bytes in the row, but
/// for figures that no model has.
const CALL_BYTES: usize = 32;
/// Weight of the details of a call, without the name of its service tier.
const DETAILS_BYTES: usize = 48;

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
    pub(super) details: Option<Box<CallDetails<'static>>>,
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
            details: event
                .call_details
                .as_deref()
                .map(|details| Box::new(details.to_static())),
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
        self.cost.is_some()
            || total.is_some()
            || (prompt.is_some() && completion.is_some())
            || self
                .details
                .as_deref()
                .is_some_and(|details| details.estimated_cost.is_some())
    }

    pub(super) fn parts(&self) -> UsageParts {
        let details = self.details.as_deref();
        details.map(|details| details.parts).unwrap_or_default()
    }

    /// Empty for none.
    pub(super) fn service_tier(&self) -> &str {
        let details = self.details.as_deref();
        details
            .and_then(|details| details.service_tier.as_deref())
            .unwrap_or_default()
    }

    /// Without the texts that several calls share.
    fn weight(&self) -> usize {
        match self.details {
            Some(_) => CALL_BYTES + DETAILS_BYTES,
            None => CALL_BYTES,
        }
    }

    /// Its model and its service tier.
    fn names(&self) -> impl Iterator<Item = &str> {
        let tier = Some(self.service_tier()).filter(|tier| !tier.is_empty());
        self.model.as_deref().into_iter().chain(tier)
    }
}

/// The calls of a run in order of time, and how many have each model or service tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    by_stamp: BTreeMap<Stamp, Box<Call>>,
    names: BTreeMap<Box<str>, usize>,
    /// The sum of the calls' weights and of the texts of `names`.
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
        self.weight += call.weight();
        for name in call.names() {
            let count = self.names.entry(name.into()).or_default();
            *count += 1;
            if *count == 1 {
                self.weight += name.len();
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
        self.weight -= call.weight();
        for name in call.names() {
            let Some(count) = self.names.get_mut(name) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.names.remove(name);
                self.weight -= name.len();
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

/// The stored form of calls: models and service tiers once each, and for each call the time since the one before it, the
/// rest of its stamp, its model, which figures it has, and these.
#[derive(Serialize, Deserialize)]
struct Stored {
    names: Vec<Box<str>>,
    calls: Vec<StoredCall>,
    /// Costs from the client, by position; estimated ones by position plus [`ESTIMATED`].
    costs: Vec<(u32, ExactDecimal)>,
}

/// Above every position: calls are bounded by their weight.
const ESTIMATED: u32 = 1 << 31;
/// The flag of calls with details: after the counts follow a number with a bit for each given detail, and those.
const HAS_DETAILS: u8 = 1 << 6;

#[derive(Serialize, Deserialize)]
struct StoredCall {
    after_ms: i64,
    tie: [u8; 8],
    /// 0 for none, else one more than the position in the table.
    model: u32,
    /// Bit 0: typed. Bits 1 to 5: which of the counts are given. Bit 6: [`HAS_DETAILS`].
    flags: u8,
    counts: Vec<u64>,
}

impl Serialize for Calls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.names.keys().map(AsRef::as_ref).zip(1..);
        let names: BTreeMap<&str, u32> = numbers.collect();
        let number = |name: Option<&str>| name.and_then(|name| names.get(name)).copied();
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
            if let Some(details) = call.details.as_deref() {
                flags |= HAS_DETAILS;
                let tier = number(details.service_tier.as_deref());
                counts.extend(details_in_order(details, tier));
                let estimated = details.estimated_cost.map(ExactDecimal);
                costs.extend(estimated.map(|cost| (position + ESTIMATED, cost)));
            }
            calls.push(StoredCall {
                after_ms: stamp.timestamp_ms().wrapping_sub(before_ms),
                tie: stamp.tie(),
                model: number(call.model.as_deref()).unwrap_or(0),
                flags,
                counts,
            });
            before_ms = stamp.timestamp_ms();
        }
        let stored = Stored {
            names: names.into_keys().map(Into::into).collect(),
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
                let name = |number: u64| {
                    let place = usize::try_from(number).ok()?.checked_sub(1)?;
                    stored.names.get(place)
                };
                let details = (call.flags & HAS_DETAILS != 0).then(|| {
                    let estimated = costs.remove(&(position + ESTIMATED));
                    let (parts, ttft_ms, tier) = read_details(&mut counts);
                    Box::new(CallDetails {
                        parts,
                        service_tier: tier
                            .and_then(name)
                            .map(|tier| Cow::Owned(tier.clone().into_string())),
                        estimated_cost: estimated.map(|cost| cost.0),
                        ttft_ms,
                    })
                });
                let read = Call {
                    is_typed: call.flags & 1 != 0,
                    model: name(u64::from(call.model)).cloned(),
                    tokens,
                    cost: costs.remove(&position),
                    details,
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

/// A number whose bits say which details are given, and those. `tier` is the number of the tier's name.
fn details_in_order(details: &CallDetails<'_>, tier: Option<u32>) -> Vec<u64> {
    let UsageParts {
        cache_write,
        cache_write_1h,
        input_audio,
        input_image,
        output_audio,
        requests,
    } = details.parts;
    let all = [
        cache_write,
        cache_write_1h,
        input_audio,
        input_image,
        output_audio,
        requests,
        details.ttft_ms,
        tier.map(u64::from),
    ];
    let given = all.iter().zip(0..);
    let bits = given.fold(0, |bits, (one, bit)| bits | u64::from(one.is_some()) << bit);
    [bits]
        .into_iter()
        .chain(all.into_iter().flatten())
        .collect()
}

/// What [`details_in_order`] wrote: the parts, the time to the first token, and the number of the tier's name.
fn read_details(counts: &mut impl Iterator<Item = u64>) -> (UsageParts, Option<u64>, Option<u64>) {
    let bits = counts.next().unwrap_or(0);
    let mut next = |bit: u8| (bits >> bit & 1 == 1).then(|| counts.next()).flatten();
    let parts = UsageParts {
        cache_write: next(0),
        cache_write_1h: next(1),
        input_audio: next(2),
        input_image: next(3),
        output_audio: next(4),
        requests: next(5),
    };
    (parts, next(6), next(7))
}

#[cfg(test)]
mod tests;
