//! The rates of a row, and what a call costs at them.

use super::factor::Factor;
use super::kinds::{KindRates, RateKind, UnpricedKind, UnpricedKinds};
use super::rate::Rate;
use super::{Charge, Usage, dollars};

/// USD per token by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub input: Rate,
    pub output: Rate,
    /// Defaults to the rate of the prompt.
    pub cached_input: Option<Rate>,
    /// Applies where only the total is known; defaults to the rate of the prompt, and then the cost is an estimate.
    pub total: Option<Rate>,
    /// Boxed, because most rows have none and the table holds thousands. `None` where all of it would be empty.
    pub special: Option<Box<SpecialRates>>,
}

/// The rates of kinds that few models have, and what changes all rates of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialRates {
    /// Without the four kinds that are fields of [`Rates`].
    pub kinds: KindRates,
    /// USD per request.
    pub request: Option<Rate>,
    /// In ascending order of [`RateTier::above_input_tokens`].
    pub tiers: Vec<RateTier>,
    /// In ascending order of the names.
    pub service_tiers: Vec<ServiceTier>,
}

/// The rates of calls with long prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTier {
    /// A longer prompt has these rates, for its own tokens and the tokens of its completion.
    pub above_input_tokens: u64,
    /// Kinds that are absent have the rates of the row.
    pub rates: KindRates,
}

/// The price of a service tier, relative to the standard one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTier {
    /// `batch`, `flex`, `priority`, ... Its case does not matter.
    pub name: Box<str>,
    pub factor: Factor,
}

/// What providers call their standard service.
const STANDARD_TIERS: [&str; 5] = ["default", "standard", "auto", "on_demand", "standard_only"];

/// The parts of a prompt, in the order in which they take their tokens.
const PROMPT_PARTS: [(RateKind, UnpricedKind); 5] = [
    (RateKind::CachedInput, UnpricedKind::CacheRead),
    (RateKind::CacheWrite, UnpricedKind::CacheWrite),
    (RateKind::CacheWrite1h, UnpricedKind::CacheWrite1h),
    (RateKind::InputAudio, UnpricedKind::InputAudio),
    (RateKind::InputImage, UnpricedKind::InputImage),
];

/// The tokens of one side, and the kinds that had no rate.
struct Bill<'a> {
    rates: &'a Rates,
    tier: Option<&'a KindRates>,
    unpriced: UnpricedKinds,
}

impl Rates {
    /// The rates of a row that has all its kinds in `kinds`; `None` without a rate for input or output.
    pub fn of(kinds: &KindRates, special: SpecialRates) -> Option<Self> {
        let mut rates = Self {
            input: kinds.get(RateKind::Input)?,
            output: kinds.get(RateKind::Output)?,
            cached_input: kinds.get(RateKind::CachedInput),
            total: kinds.get(RateKind::Total),
            special: None,
        };
        let own = |kind: RateKind| rates.base(kind).is_none();
        let special = SpecialRates {
            kinds: kinds.iter().filter(|(kind, _)| own(*kind)).collect(),
            ..special
        };
        rates.special = special.boxed();
        Some(rates)
    }

    /// The rate of the row, whatever the length of the prompt.
    pub fn get(&self, kind: RateKind) -> Option<Rate> {
        match self.special.as_deref() {
            Some(special) => self.base(kind).or_else(|| special.kinds.get(kind)),
            None => self.base(kind),
        }
    }

    fn base(&self, kind: RateKind) -> Option<Rate> {
        match kind {
            RateKind::Input => Some(self.input),
            RateKind::Output => Some(self.output),
            RateKind::CachedInput => self.cached_input,
            RateKind::Total => self.total,
            _ => None,
        }
    }

    /// The cost of a call at these rates. Prompt and completion count if both are known, else the total.
    ///
    /// The kinds are parts of the prompt (of the completion). They take its tokens in a fixed order, each as many as are
    /// left: cache reads, cache writes of 5 minutes and of 1 hour, audio, images (audio, reasoning). What is left has the
    /// rate of input (output). So no token is counted twice, whatever a client reports.
    ///
    /// A kind without a rate costs what the rest costs and is named in [`Charge::unpriced`]; a cache write of an hour
    /// costs at least what the other cache writes do, and reasoning is output. Requests without a rate cost nothing and
    /// are named too. Where only the total is known, its parts are not: then the row's first rates apply.
    pub fn charge(&self, usage: Usage<'_>) -> Charge {
        let special = self.special.as_deref();
        let mut unpriced = UnpricedKinds::default();
        let (mut units, is_estimated) = match (usage.prompt, usage.completion) {
            (Some(prompt), Some(completion)) => {
                let mut bill = Bill {
                    rates: self,
                    tier: special.and_then(|special| special.tier(prompt)),
                    unpriced,
                };
                // At most 2^64 tokens at less than 2^60 units, so the sum of both and of the requests is below 2^126.
                let units = bill.prompt(prompt, &usage) + bill.completion(completion, &usage);
                unpriced = bill.unpriced;
                (units, false)
            }
            _ => {
                let total = usage.total.unwrap_or(0);
                let rate = self.total.unwrap_or(self.input);
                // The parts are not told from the rest, but none is left out in silence.
                let mut bill = Bill {
                    rates: self,
                    tier: None,
                    unpriced,
                };
                bill.prompt(u64::MAX, &usage);
                bill.completion(u64::MAX, &usage);
                unpriced = bill.unpriced;
                (rate.times(total), self.total.is_none())
            }
        };
        if !usage.service_tier.is_empty() {
            match special.and_then(|special| special.factor(usage.service_tier)) {
                Some(factor) => units = factor.times(units),
                None if is_standard(usage.service_tier) => {}
                None => unpriced.insert(UnpricedKind::ServiceTier),
            }
        }
        if let Some(requests) = usage.requests.filter(|requests| *requests > 0) {
            match special.and_then(|special| special.request) {
                Some(rate) => units = units.saturating_add(rate.times(requests)),
                None => unpriced.insert(UnpricedKind::Request),
            }
        }
        Charge {
            amount: dollars(units),
            is_estimated,
            unpriced,
        }
    }
}

impl SpecialRates {
    /// `None` where all of it is empty, so that equal rates are equal values. Sorts both lists of tiers.
    pub fn boxed(mut self) -> Option<Box<Self>> {
        self.tiers.sort_by_key(|tier| tier.above_input_tokens);
        self.service_tiers
            .sort_by(|one, other| one.name.cmp(&other.name));
        (self != Self::default()).then(|| Box::new(self))
    }

    fn tier(&self, prompt: u64) -> Option<&KindRates> {
        let mut longest_first = self.tiers.iter().rev();
        let tier = longest_first.find(|tier| tier.above_input_tokens < prompt)?;
        Some(&tier.rates)
    }

    fn factor(&self, name: &str) -> Option<Factor> {
        let mut tiers = self.service_tiers.iter();
        let tier = tiers.find(|tier| tier.name.eq_ignore_ascii_case(name))?;
        Some(tier.factor)
    }
}

/// Whether this is a provider's name for its standard service, which needs no factor.
pub fn is_standard(service_tier: &str) -> bool {
    let mut names = STANDARD_TIERS.iter();
    names.any(|name| name.eq_ignore_ascii_case(service_tier))
}

impl Bill<'_> {
    fn prompt(&mut self, tokens: u64, usage: &Usage<'_>) -> u128 {
        let counts = [
            usage.cached,
            usage.cache_write,
            usage.cache_write_1h,
            usage.input_audio,
            usage.input_image,
        ];
        let plain = self.rate(RateKind::Input).unwrap_or_default();
        let (mut rest, mut units) = (tokens, 0);
        for (count, (kind, unpriced)) in counts.into_iter().zip(PROMPT_PARTS) {
            let count = take(count, &mut rest);
            if count == 0 {
                continue;
            }
            let rate = self.rate(kind).unwrap_or_else(|| {
                self.unpriced.insert(unpriced);
                match kind {
                    RateKind::CacheWrite1h => self.rate(RateKind::CacheWrite).unwrap_or(plain),
                    _ => plain,
                }
            });
            units += rate.times(count);
        }
        units + plain.times(rest)
    }

    fn completion(&mut self, tokens: u64, usage: &Usage<'_>) -> u128 {
        let plain = self.rate(RateKind::Output).unwrap_or_default();
        let mut rest = tokens;
        let audio = take(usage.output_audio, &mut rest);
        let audio_rate = self.rate(RateKind::OutputAudio);
        if audio > 0 && audio_rate.is_none() {
            self.unpriced.insert(UnpricedKind::OutputAudio);
        }
        let reasoning = take(usage.reasoning, &mut rest);
        let reasoning_rate = self.rate(RateKind::Reasoning).unwrap_or(plain);
        audio_rate.unwrap_or(plain).times(audio)
            + reasoning_rate.times(reasoning)
            + plain.times(rest)
    }

    fn rate(&self, kind: RateKind) -> Option<Rate> {
        let in_tier = self.tier.and_then(|tier| tier.get(kind));
        in_tier.or_else(|| self.rates.get(kind))
    }
}

/// As many of the tokens as are left.
fn take(count: Option<u64>, rest: &mut u64) -> u64 {
    let count = count.unwrap_or(0).min(*rest);
    *rest -= count;
    count
}

#[cfg(test)]
mod tests;
