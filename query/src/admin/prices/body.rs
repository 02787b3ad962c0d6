//! The bodies of requests and responses for prices.

use std::collections::BTreeMap;

use schemas::money::Dollars;
use schemas::price::factor::Factor;
use schemas::price::kinds::{KindRates, RateKind};
use schemas::price::rate::{Per, Rate};
use schemas::price::{RateTier, SpecialRates};
use schemas::run::Instant;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use store::prices::PriceRecord;
use utoipa::ToSchema;

/// Prices of the usage of a model in USD. Kinds without a price of their own are left out, `cached_input` and `total`
/// aside, which are `null`.
#[derive(Serialize, ToSchema)]
pub(crate) struct Price {
    /// Name of the model, or prefix of names.
    model: String,
    /// Whether it applies to all models whose names begin with `model`.
    prefix: bool,
    /// When it takes effect; `null` for always. A run has the price in effect at its start.
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_from: Option<Instant>,
    /// A thousand prompt tokens.
    #[schema(value_type = f64)]
    input_per_1k: Dollars,
    /// A thousand completion tokens.
    #[schema(value_type = f64)]
    output_per_1k: Dollars,
    /// A thousand cached prompt tokens; `null` if they cost the same as others.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1k: Option<Dollars>,
    /// A thousand tokens of calls for which only the total is known; `null` if the prompt price is the estimate.
    #[schema(value_type = Option<f64>)]
    total_per_1k: Option<Dollars>,
    /// A million prompt tokens.
    #[schema(value_type = f64)]
    input_per_1m: Dollars,
    /// A million completion tokens.
    #[schema(value_type = f64)]
    output_per_1m: Dollars,
    /// A million cached prompt tokens; `null` if they cost the same as others.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1m: Option<Dollars>,
    /// A million tokens of calls for which only the total is known; `null` if the prompt price is the estimate.
    #[schema(value_type = Option<f64>)]
    total_per_1m: Option<Dollars>,
    #[serde(flatten)]
    kinds: KindPrices,
    /// One request, beside its tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    request: Option<Dollars>,
    /// Prices of requests with long prompts, in ascending order of the length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<PriceTier>,
    /// Factors by which the charge of tokens is multiplied, by the service tier of the call (`batch`, `priority`, ...).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, f64>)]
    service_tiers: BTreeMap<String, Number>,
    /// `shipped` with the program, or `changed` by an administrator.
    #[schema(value_type = String, pattern = "^(shipped|changed)$")]
    origin: Origin,
    /// When it was set; `null` for a shipped price.
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Instant>,
}

/// A factor with all its digits.
pub(crate) struct Number(Factor);

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Shipped,
    Changed,
}

/// Prices of kinds of usage that have their own.
#[derive(Serialize, ToSchema)]
struct KindPrices {
    /// A thousand prompt tokens written to a cache of the default lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cache_write_per_1k: Option<Dollars>,
    /// A thousand prompt tokens written to a cache that lasts one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cache_write_1h_per_1k: Option<Dollars>,
    /// A thousand prompt tokens of audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_audio_per_1k: Option<Dollars>,
    /// A thousand prompt tokens of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_image_per_1k: Option<Dollars>,
    /// A thousand completion tokens of audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    output_audio_per_1k: Option<Dollars>,
    /// A thousand completion tokens of reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    reasoning_per_1k: Option<Dollars>,
    /// A million prompt tokens written to a cache of the default lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cache_write_per_1m: Option<Dollars>,
    /// A million prompt tokens written to a cache that lasts one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cache_write_1h_per_1m: Option<Dollars>,
    /// A million prompt tokens of audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_audio_per_1m: Option<Dollars>,
    /// A million prompt tokens of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_image_per_1m: Option<Dollars>,
    /// A million completion tokens of audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    output_audio_per_1m: Option<Dollars>,
    /// A million completion tokens of reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    reasoning_per_1m: Option<Dollars>,
}

/// Prices of requests with long prompts. Kinds that are left out have the price of shorter ones.
#[derive(Serialize, ToSchema)]
struct PriceTier {
    /// A request whose prompt has more tokens has these prices, for all its tokens.
    above_input_tokens: u64,
    /// A thousand prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_per_1k: Option<Dollars>,
    /// A thousand completion tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    output_per_1k: Option<Dollars>,
    /// A thousand cached prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cached_input_per_1k: Option<Dollars>,
    /// A million prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    input_per_1m: Option<Dollars>,
    /// A million completion tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    output_per_1m: Option<Dollars>,
    /// A million cached prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    cached_input_per_1m: Option<Dollars>,
    #[serde(flatten)]
    kinds: KindPrices,
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string())
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

impl Origin {
    pub(crate) fn of(record: &PriceRecord) -> Self {
        match record.changed_at_ms {
            None => Origin::Shipped,
            Some(_) => Origin::Changed,
        }
    }
}

fn thousand(rate: Rate) -> Dollars {
    rate.per(Per::Thousand)
}

fn million(rate: Rate) -> Dollars {
    rate.per(Per::Million)
}

impl From<&PriceRecord> for Price {
    fn from(record: &PriceRecord) -> Self {
        let (key, rates) = (&record.row.key, &record.row.rates);
        let none = SpecialRates::default();
        let special = rates.special.as_deref().unwrap_or(&none);
        let factors = special.service_tiers.iter();
        Self {
            model: key.model.clone(),
            prefix: key.is_prefix,
            effective_from: key.effective_from.map(Instant),
            input_per_1k: thousand(rates.input),
            output_per_1k: thousand(rates.output),
            cached_input_per_1k: rates.cached_input.map(thousand),
            total_per_1k: rates.total.map(thousand),
            input_per_1m: million(rates.input),
            output_per_1m: million(rates.output),
            cached_input_per_1m: rates.cached_input.map(million),
            total_per_1m: rates.total.map(million),
            kinds: KindPrices::from(&special.kinds),
            request: special.request.map(|rate| rate.per(Per::One)),
            tiers: special.tiers.iter().map(PriceTier::from).collect(),
            service_tiers: factors
                .map(|tier| (tier.name.to_string(), Number(tier.factor)))
                .collect(),
            origin: Origin::of(record),
            changed_at: record.changed_at_ms.map(Instant),
        }
    }
}

impl From<&KindRates> for KindPrices {
    fn from(rates: &KindRates) -> Self {
        let per_1k = |kind| rates.get(kind).map(thousand);
        let per_1m = |kind| rates.get(kind).map(million);
        Self {
            cache_write_per_1k: per_1k(RateKind::CacheWrite),
            cache_write_1h_per_1k: per_1k(RateKind::CacheWrite1h),
            input_audio_per_1k: per_1k(RateKind::InputAudio),
            input_image_per_1k: per_1k(RateKind::InputImage),
            output_audio_per_1k: per_1k(RateKind::OutputAudio),
            reasoning_per_1k: per_1k(RateKind::Reasoning),
            cache_write_per_1m: per_1m(RateKind::CacheWrite),
            cache_write_1h_per_1m: per_1m(RateKind::CacheWrite1h),
            input_audio_per_1m: per_1m(RateKind::InputAudio),
            input_image_per_1m: per_1m(RateKind::InputImage),
            output_audio_per_1m: per_1m(RateKind::OutputAudio),
            reasoning_per_1m: per_1m(RateKind::Reasoning),
        }
    }
}

impl From<&RateTier> for PriceTier {
    fn from(tier: &RateTier) -> Self {
        let per_1k = |kind| tier.rates.get(kind).map(thousand);
        let per_1m = |kind| tier.rates.get(kind).map(million);
        Self {
            above_input_tokens: tier.above_input_tokens,
            input_per_1k: per_1k(RateKind::Input),
            output_per_1k: per_1k(RateKind::Output),
            cached_input_per_1k: per_1k(RateKind::CachedInput),
            input_per_1m: per_1m(RateKind::Input),
            output_per_1m: per_1m(RateKind::Output),
            cached_input_per_1m: per_1m(RateKind::CachedInput),
            kinds: KindPrices::from(&tier.rates),
        }
    }
}

/// A price to set, for a thousand tokens or for a million.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "documents WrittenPrice, whose type allows fields per thousand beside fields per million"
)]
pub(crate) enum PutPrice {
    /// Per thousand tokens.
    Thousand(PutPricePerThousand),
    /// Per million tokens.
    Million(PutPricePerMillion),
}

/// A price to set, in USD per thousand tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerThousand {
    /// Prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    input_per_1k: f64,
    /// Completion tokens.
    #[schema(minimum = 0, maximum = 1000)]
    output_per_1k: f64,
    /// Cached prompt tokens; by default the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    cached_input_per_1k: Option<f64>,
    /// Tokens of calls for which only the total is known; by default estimated with the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    total_per_1k: Option<f64>,
    /// Prompt tokens written to a cache of the default lifetime; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000)]
    cache_write_per_1k: Option<f64>,
    /// Prompt tokens written to a cache that lasts one hour; by default the price of other cache writes, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000)]
    cache_write_1h_per_1k: Option<f64>,
    /// Prompt tokens of audio; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000)]
    input_audio_per_1k: Option<f64>,
    /// Prompt tokens of images; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000)]
    input_image_per_1k: Option<f64>,
    /// Completion tokens of audio; by default the price of completion tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000)]
    output_audio_per_1k: Option<f64>,
    /// Completion tokens of reasoning; by default the price of completion tokens.
    #[schema(minimum = 0, maximum = 1000)]
    reasoning_per_1k: Option<f64>,
    /// USD for one request; by default nothing, and the cost of a call with requests is `partly_priced`.
    #[schema(minimum = 0, maximum = 1)]
    request: Option<f64>,
    /// Prices of requests with long prompts, at most 16, each with a length of its own.
    #[schema(max_items = 16)]
    tiers: Option<Vec<PutTierPerThousand>>,
    /// Factors of the charge of tokens by service tier, such as `batch`: from 0 to 1000, at most 6 digits after the point,
    /// at most 16 names of up to 64 bytes.
    service_tiers: Option<BTreeMap<String, f64>>,
    /// When it takes effect: ISO 8601, or a date, which begins at 00:00 UTC; by default always.
    effective_from: Option<String>,
    /// Whether it applies to all models whose names begin with the model.
    prefix: Option<bool>,
}

/// Prices of requests with long prompts, in USD per thousand tokens; at least one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutTierPerThousand {
    /// A request whose prompt has more tokens has these prices, for all its tokens.
    #[schema(minimum = 1, maximum = 9007199254740992_i64)]
    above_input_tokens: u64,
    /// Prompt tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    input_per_1k: Option<f64>,
    /// Completion tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    output_per_1k: Option<f64>,
    /// Cached prompt tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    cached_input_per_1k: Option<f64>,
    /// Prompt tokens written to a cache of the default lifetime; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    cache_write_per_1k: Option<f64>,
    /// Prompt tokens written to a cache that lasts one hour; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    cache_write_1h_per_1k: Option<f64>,
    /// Prompt tokens of audio; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    input_audio_per_1k: Option<f64>,
    /// Prompt tokens of images; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    input_image_per_1k: Option<f64>,
    /// Completion tokens of audio; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    output_audio_per_1k: Option<f64>,
    /// Completion tokens of reasoning; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000)]
    reasoning_per_1k: Option<f64>,
}

/// A price to set, in USD per million tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerMillion {
    /// Prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    input_per_1m: f64,
    /// Completion tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    output_per_1m: f64,
    /// Cached prompt tokens; by default the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    cached_input_per_1m: Option<f64>,
    /// Tokens of calls for which only the total is known; by default estimated with the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    total_per_1m: Option<f64>,
    /// Prompt tokens written to a cache of the default lifetime; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000000)]
    cache_write_per_1m: Option<f64>,
    /// Prompt tokens written to a cache that lasts one hour; by default the price of other cache writes, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000000)]
    cache_write_1h_per_1m: Option<f64>,
    /// Prompt tokens of audio; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000000)]
    input_audio_per_1m: Option<f64>,
    /// Prompt tokens of images; by default the price of prompt tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000000)]
    input_image_per_1m: Option<f64>,
    /// Completion tokens of audio; by default the price of completion tokens, and the cost is `partly_priced`.
    #[schema(minimum = 0, maximum = 1000000)]
    output_audio_per_1m: Option<f64>,
    /// Completion tokens of reasoning; by default the price of completion tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    reasoning_per_1m: Option<f64>,
    /// USD for one request; by default nothing, and the cost of a call with requests is `partly_priced`.
    #[schema(minimum = 0, maximum = 1)]
    request: Option<f64>,
    /// Prices of requests with long prompts, at most 16, each with a length of its own.
    #[schema(max_items = 16)]
    tiers: Option<Vec<PutTierPerMillion>>,
    /// Factors of the charge of tokens by service tier, such as `batch`: from 0 to 1000, at most 6 digits after the point,
    /// at most 16 names of up to 64 bytes.
    service_tiers: Option<BTreeMap<String, f64>>,
    /// When it takes effect: ISO 8601, or a date, which begins at 00:00 UTC; by default always.
    effective_from: Option<String>,
    /// Whether it applies to all models whose names begin with the model.
    prefix: Option<bool>,
}

/// Prices of requests with long prompts, in USD per million tokens; at least one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutTierPerMillion {
    /// A request whose prompt has more tokens has these prices, for all its tokens.
    #[schema(minimum = 1, maximum = 9007199254740992_i64)]
    above_input_tokens: u64,
    /// Prompt tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    input_per_1m: Option<f64>,
    /// Completion tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    output_per_1m: Option<f64>,
    /// Cached prompt tokens; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    cached_input_per_1m: Option<f64>,
    /// Prompt tokens written to a cache of the default lifetime; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    cache_write_per_1m: Option<f64>,
    /// Prompt tokens written to a cache that lasts one hour; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    cache_write_1h_per_1m: Option<f64>,
    /// Prompt tokens of audio; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    input_audio_per_1m: Option<f64>,
    /// Prompt tokens of images; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    input_image_per_1m: Option<f64>,
    /// Completion tokens of audio; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    output_audio_per_1m: Option<f64>,
    /// Completion tokens of reasoning; by default as for shorter prompts.
    #[schema(minimum = 0, maximum = 1000000)]
    reasoning_per_1m: Option<f64>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PriceList {
    /// By name, exact names before prefixes, oldest first.
    pub(super) data: Vec<Price>,
}

/// The deleted prices.
#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedPrices {
    /// Prices that are not in effect any more.
    pub(super) removed: Vec<Price>,
}
