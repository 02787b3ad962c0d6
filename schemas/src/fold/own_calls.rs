//! What a run's model calls add up to: its own cost, tokens and calls. And how the state keeps the calls.

use super::call_details::DetailRegisters;
use super::calls::{Call, Calls};
use super::state::ExactDecimal;
use super::{Cost, CostStatus, Last, OwnUsage, RunState, Stamp};
use crate::event::{CallDetails, CallFingerprint, Tokens, UsageParts};
use crate::price::{PriceKey, PriceTable, Usage};
use crate::timestamp::UnixMs;

/// The type of model calls.
const LLM: &str = "llm";

/// One of a run's own model calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelCall<'a> {
    /// Of the event that completes it, where one does.
    pub stamp: Option<Stamp>,
    /// Empty where none is known.
    pub model: &'a str,
    /// The total is as given, else what is known of prompt and completion.
    pub tokens: Tokens,
    pub parts: UsageParts,
    /// Milliseconds from the request to the first token.
    pub ttft_ms: Option<u64>,
    /// Empty where none is known.
    pub service_tier: &'a str,
    pub cost: Cost,
    /// The row of the price table that prices it.
    pub price: Option<&'a PriceKey>,
}

/// The one model call that a run of type `llm` reports, as far as it identifies the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneCall<'a> {
    /// The identifier that the provider gave to the response; may be empty.
    pub response_id: &'a str,
    /// May be empty.
    pub model: &'a str,
    /// Prompt, completion and total.
    pub tokens: [Option<u64>; 3],
    /// Whether it has what a cost is made of, the model aside.
    pub has_usage: bool,
    pub started_at_ms: UnixMs,
    /// `None` while unfinished.
    pub ended_at_ms: Option<UnixMs>,
    /// See [`crate::event::Event::call_fingerprint`].
    pub fingerprint: Option<CallFingerprint>,
}

impl RunState {
    /// Whether the run is a model call by its type.
    pub fn is_llm(&self) -> bool {
        self.kind() == LLM
    }

    /// The call of a run of type `llm` that reports no others.
    pub fn one_call(&self) -> Option<OneCall<'_>> {
        if !self.is_llm() || self.listed_calls().is_some() {
            return None;
        }
        let tokens = self.usage().tokens;
        let has_both = tokens.prompt.is_some() && tokens.completion.is_some();
        let is_total_given = self.total_tokens.get().is_some();
        Some(OneCall {
            response_id: self.response_id(),
            model: self.model(),
            tokens: [tokens.prompt, tokens.completion, tokens.total],
            has_usage: self.cost.get().is_some()
                || self.details().estimated_cost.is_some()
                || has_both
                || is_total_given,
            started_at_ms: self.started_at_ms(),
            ended_at_ms: self.ended_at_ms(),
            fingerprint: self
                .call_details
                .as_deref()
                .and_then(DetailRegisters::fingerprint),
        })
    }

    /// Its own model calls in order of time, as many as [`RunState::usage`] counts.
    pub fn model_calls<'a>(&'a self, prices: &'a PriceTable) -> Vec<ModelCall<'a>> {
        let calls = match self.listed_calls() {
            Some(calls) => calls
                .map(|(stamp, call)| ModelCall {
                    stamp: Some(stamp),
                    model: self.model_of(call),
                    tokens: OwnUsage::of(call.tokens, call.parts(), 1).tokens,
                    parts: call.parts(),
                    ttft_ms: call.details.as_deref().and_then(|details| details.ttft_ms),
                    service_tier: call.service_tier(),
                    cost: self.cost_of(stamp, call, prices),
                    price: None,
                })
                .collect(),
            None if self.kind() == LLM => {
                let usage = self.usage();
                vec![ModelCall {
                    stamp: self.only_call().map(|(stamp, _)| stamp),
                    model: self.model(),
                    tokens: usage.tokens,
                    parts: usage.parts,
                    ttft_ms: self.ttft_ms(),
                    service_tier: self.service_tier(),
                    cost: self.cost(prices),
                    price: None,
                }]
            }
            None => Vec::new(),
        };
        let with_price = |call: ModelCall<'a>| {
            let at_ms = match self.listed_calls() {
                Some(_) => call.stamp.map(|stamp| stamp.timestamp_ms()),
                None => None,
            };
            let is_priced = call.cost.status.is_from_the_table();
            let price = || prices.row(call.model, at_ms.unwrap_or(self.started_at_ms()));
            ModelCall {
                price: is_priced.then(price).flatten().map(|row| &row.key),
                ..call
            }
        };
        calls.into_iter().map(with_price).collect()
    }

    /// The model of one of several calls. One that names none has the run's.
    fn model_of<'a>(&'a self, call: &'a Call) -> &'a str {
        call.model.as_deref().unwrap_or(self.model())
    }

    /// Its own cost: the sum over its model calls, each as the client gave it, else by the price table.
    pub fn cost(&self, prices: &PriceTable) -> Cost {
        match self.listed_calls() {
            Some(calls) => calls
                .map(|(stamp, call)| self.cost_of(stamp, call, prices))
                .reduce(Cost::and)
                .unwrap_or_else(|| Cost::none(CostStatus::NoTokens)),
            None => match self.cost.get() {
                Some(ExactDecimal(amount)) => Cost::provided(*amount),
                None => {
                    let details = self.details();
                    let tokens = self.tokens();
                    let usage = usage(self.model(), tokens, &details, self.started_at_ms());
                    Cost::of(self.kind(), usage, prices).or_estimated(details.estimated_cost)
                }
            },
        }
    }

    /// The cost of one of several calls.
    fn cost_of(&self, stamp: Stamp, call: &Call, prices: &PriceTable) -> Cost {
        if let Some(ExactDecimal(amount)) = call.cost {
            return Cost::provided(amount);
        }
        let none = CallDetails::default();
        let details = call.details.as_deref().unwrap_or(&none);
        let usage = usage(
            self.model_of(call),
            call.tokens,
            details,
            stamp.timestamp_ms(),
        );
        Cost::of(LLM, usage, prices).or_estimated(details.estimated_cost)
    }

    /// The latest of each detail of its calls.
    pub(super) fn details(&self) -> CallDetails<'_> {
        let registers = self.call_details.as_deref();
        registers.map(DetailRegisters::latest).unwrap_or_default()
    }

    fn service_tier(&self) -> &str {
        let registers = self.call_details.as_deref();
        registers.map_or("", DetailRegisters::service_tier)
    }

    /// The latest counts.
    fn tokens(&self) -> Tokens {
        Tokens {
            prompt: self.prompt_tokens.get().copied(),
            completion: self.completion_tokens.get().copied(),
            total: self.total_tokens.get().copied(),
            cached: self.cached_tokens.get().copied(),
            reasoning: self.reasoning_tokens.get().copied(),
        }
    }

    /// Its own tokens and model calls, without its descendants'.
    pub fn usage(&self) -> OwnUsage {
        match self.listed_calls() {
            Some(calls) => calls
                .map(|(_, call)| OwnUsage::of(call.tokens, call.parts(), 1))
                .sum(),
            None => {
                let calls = u64::from(self.kind() == LLM);
                OwnUsage::of(self.tokens(), self.details().parts, calls)
            }
        }
    }

    /// The call that the registers make by themselves: that of the latest event with usage, if it is complete. It has
    /// the run's type.
    fn only_call(&self) -> Option<(Stamp, Call)> {
        let counts = [
            &self.prompt_tokens,
            &self.completion_tokens,
            &self.total_tokens,
            &self.cached_tokens,
            &self.reasoning_tokens,
        ];
        let stamps = counts.into_iter().filter_map(Last::stamp);
        let estimated = self.call_details.as_deref();
        let estimated = estimated.and_then(DetailRegisters::estimated_at);
        let stamp = stamps.chain(self.cost.stamp()).chain(estimated).max()?;
        fn of<T: Ord + Clone>(register: &Last<T>, stamp: Stamp) -> Option<T> {
            let is_of = register.stamp() == Some(stamp);
            register.get().filter(|_| is_of).cloned()
        }
        let [prompt, completion, total, cached, reasoning] =
            counts.map(|register| of(register, stamp));
        let call = Call {
            is_typed: self.kind() == LLM,
            model: of(&self.model, stamp),
            tokens: Tokens {
                prompt,
                completion,
                total,
                cached,
                reasoning,
            },
            cost: of(&self.cost, stamp),
            details: self
                .call_details
                .as_deref()
                .and_then(|registers| registers.of(stamp))
                .map(|details| Box::new(details.to_static())),
        };
        call.is_complete().then_some((stamp, call))
    }

    pub(super) fn take_calls(&mut self) -> KnownCalls {
        match self.calls.take() {
            Some(calls) => KnownCalls::Listed(calls),
            None => KnownCalls::Few(self.only_call(), None),
        }
    }

    /// Keeps the calls as a list only if the registers do not make the same: equal sets of events are equal states.
    pub(super) fn put_calls(&mut self, calls: KnownCalls) {
        let only = self.only_call();
        self.calls = match calls {
            KnownCalls::Few(one, None) if one == only => None,
            KnownCalls::Listed(calls) if calls.are(only.as_ref()) => None,
            KnownCalls::Listed(calls) => Some(calls),
            KnownCalls::Few(one, other) => {
                let calls: Calls = one.into_iter().chain(other).collect();
                (!calls.are(only.as_ref())).then(|| Box::new(calls))
            }
        };
    }

    /// The calls that count as the run's own, where the registers do not say it all: calls of type `llm`, and calls
    /// without a type if the run has it.
    fn listed_calls(&self) -> Option<impl Iterator<Item = (Stamp, &Call)>> {
        let is_llm = self.kind() == LLM;
        let calls = self.calls.as_deref()?;
        let counted = move || {
            let all = calls.iter();
            all.filter(move |(_, call)| call.is_typed || is_llm)
        };
        // All events of a run of type `llm` with one call are parts of that call.
        let is_one_in_parts = is_llm && calls.len() == 1;
        (counted().next().is_some() && !is_one_in_parts).then(counted)
    }
}

/// What a call is priced by.
fn usage<'a>(
    model: &'a str,
    tokens: Tokens,
    details: &'a CallDetails<'_>,
    at_ms: UnixMs,
) -> Usage<'a> {
    let parts = details.parts;
    Usage {
        model,
        prompt: tokens.prompt,
        completion: tokens.completion,
        total: tokens.total,
        cached: tokens.cached,
        cache_write: parts.cache_write,
        cache_write_1h: parts.cache_write_1h,
        input_audio: parts.input_audio,
        input_image: parts.input_image,
        reasoning: tokens.reasoning,
        output_audio: parts.output_audio,
        requests: parts.requests,
        service_tier: details.service_tier.as_deref().unwrap_or_default(),
        at_ms,
    }
}

/// The calls of a state while it changes: as a list, or the one of its registers and one more.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack while one event is folded; a box would be an allocation for each"
)]
pub(super) enum KnownCalls {
    Few(Option<(Stamp, Call)>, Option<(Stamp, Call)>),
    Listed(Box<Calls>),
}

impl KnownCalls {
    pub(super) fn and(self, call: Option<(Stamp, Call)>) -> Self {
        let Some((stamp, call)) = call else {
            return self;
        };
        match self {
            Self::Few(None, None) => Self::Few(Some((stamp, call)), None),
            Self::Few(one, None) => Self::Few(one, Some((stamp, call))),
            Self::Few(one, other) => {
                let few = one.into_iter().chain(other);
                Self::Listed(Box::new(few.chain([(stamp, call)]).collect()))
            }
            Self::Listed(mut calls) => {
                calls.offer(stamp, call);
                Self::Listed(calls)
            }
        }
    }

    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Listed(mut calls), Self::Listed(others)) => {
                calls.join(*others);
                Self::Listed(calls)
            }
            (calls, Self::Few(one, other)) | (Self::Few(one, other), calls) => {
                calls.and(one).and(other)
            }
        }
    }
}
