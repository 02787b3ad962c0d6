//! What a model call reports beside its counts of prompt and completion: few calls have any of it.

use std::borrow::Cow;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::FieldFault;
use super::fields::Fields;
use super::values;

/// Parts of a call's tokens that have a price of their own, disjoint from each other and from
/// [`super::Tokens::cached`] and [`super::Tokens::reasoning`]. And its requests, which are billed beside tokens.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct UsageParts {
    /// Prompt tokens written to a cache of the default lifetime, which is five minutes.
    pub cache_write: Option<u64>,
    /// Prompt tokens written to a cache that lasts an hour.
    pub cache_write_1h: Option<u64>,
    /// Prompt tokens of audio.
    pub input_audio: Option<u64>,
    /// Prompt tokens of images.
    pub input_image: Option<u64>,
    /// Completion tokens of audio.
    pub output_audio: Option<u64>,
    /// Requests that are billed one by one, for example searches.
    pub requests: Option<u64>,
}

/// All that an event says of its call beside [`super::Tokens`] and the cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallDetails<'a> {
    pub parts: UsageParts,
    /// `batch`, `flex`, `priority` or another tier with prices of its own.
    pub service_tier: Option<Cow<'a, str>>,
    /// USD by a price list of the client's: counts where the price table cannot price the call.
    pub estimated_cost: Option<Decimal>,
    /// Milliseconds from the request to the first token.
    pub ttft_ms: Option<u64>,
}

/// What was said in a model call, and who reports it: two instrumentations report one call with the same words.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CallFingerprint {
    /// Hash of the words.
    pub said: u64,
    /// Hash of the instrumentation's name.
    pub by: u64,
}

impl CallFingerprint {
    /// Of the text on the wire, `<words>/<instrumentation>`.
    pub fn of_text(text: &str) -> Self {
        let (said, by) = text.split_once('/').unwrap_or((text, ""));
        let [said, by] = [said, by].map(|part| xxhash_rust::xxh3::xxh3_64(part.as_bytes()));
        Self { said, by }
    }
}

/// `None` for an event without any.
pub(super) fn read<'a>(fields: &Fields<'a>) -> Result<Option<Box<CallDetails<'a>>>, FieldFault> {
    let given = [
        fields.cache_write_tokens,
        fields.cache_write_1h_tokens,
        fields.input_audio_tokens,
        fields.input_image_tokens,
        fields.output_audio_tokens,
        fields.requests,
        fields.service_tier,
        fields.estimated_cost,
        fields.ttft_ms,
    ];
    if given.iter().all(Option::is_none) {
        return Ok(None);
    }
    let details = CallDetails {
        parts: UsageParts {
            cache_write: values::count(("cache_write_tokens", fields.cache_write_tokens))?,
            cache_write_1h: values::count(("cache_write_1h_tokens", fields.cache_write_1h_tokens))?,
            input_audio: values::count(("input_audio_tokens", fields.input_audio_tokens))?,
            input_image: values::count(("input_image_tokens", fields.input_image_tokens))?,
            output_audio: values::count(("output_audio_tokens", fields.output_audio_tokens))?,
            requests: values::count(("requests", fields.requests))?,
        },
        service_tier: values::name(("service_tier", fields.service_tier))?,
        estimated_cost: values::money(("estimated_cost", fields.estimated_cost))?,
        ttft_ms: values::duration(("ttft_ms", fields.ttft_ms))?
            .and_then(|ttft_ms| u64::try_from(ttft_ms).ok()),
    };
    let is_empty = details == CallDetails::default();
    Ok((!is_empty).then(|| Box::new(details)))
}

impl CallDetails<'_> {
    /// The same without a borrow.
    pub fn to_static(&self) -> CallDetails<'static> {
        CallDetails {
            parts: self.parts,
            service_tier: self
                .service_tier
                .as_ref()
                .map(|tier| Cow::Owned(tier.clone().into_owned())),
            estimated_cost: self.estimated_cost,
            ttft_ms: self.ttft_ms,
        }
    }
}
