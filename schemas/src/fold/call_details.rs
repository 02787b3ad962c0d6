//! The registers of what few model calls report: see [`CallDetails`].

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::state::ExactDecimal;
use super::{Last, Stamp};
use crate::event::{CallDetails, CallFingerprint, UsageParts};

/// The latest value of each detail. A field of the stored state: its shape never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DetailRegisters {
    cache_write: Last<u64>,
    cache_write_1h: Last<u64>,
    input_audio: Last<u64>,
    input_image: Last<u64>,
    output_audio: Last<u64>,
    requests: Last<u64>,
    service_tier: Last<Box<str>>,
    estimated_cost: Last<ExactDecimal>,
    ttft_ms: Last<u64>,
    /// No detail of the call, but as rare: see [`crate::event::Event::call_fingerprint`].
    fingerprint: Last<CallFingerprint>,
}

impl DetailRegisters {
    pub(super) fn apply_fingerprint(&mut self, fingerprint: CallFingerprint, stamp: Stamp) {
        self.fingerprint.offer(stamp, || fingerprint);
    }

    pub(super) fn fingerprint(&self) -> Option<CallFingerprint> {
        self.fingerprint.get().copied()
    }

    pub(super) fn apply(&mut self, details: &CallDetails<'_>, stamp: Stamp) {
        let UsageParts {
            cache_write,
            cache_write_1h,
            input_audio,
            input_image,
            output_audio,
            requests,
        } = details.parts;
        for (register, count) in [
            (&mut self.cache_write, cache_write),
            (&mut self.cache_write_1h, cache_write_1h),
            (&mut self.input_audio, input_audio),
            (&mut self.input_image, input_image),
            (&mut self.output_audio, output_audio),
            (&mut self.requests, requests),
            (&mut self.ttft_ms, details.ttft_ms),
        ] {
            register.offer_some(stamp, count, |count| count);
        }
        self.service_tier
            .offer_some(stamp, details.service_tier.as_deref(), Into::into);
        self.estimated_cost
            .offer_some(stamp, details.estimated_cost, ExactDecimal);
    }

    pub(super) fn join(&mut self, other: Self) {
        self.cache_write.join(other.cache_write);
        self.cache_write_1h.join(other.cache_write_1h);
        self.input_audio.join(other.input_audio);
        self.input_image.join(other.input_image);
        self.output_audio.join(other.output_audio);
        self.requests.join(other.requests);
        self.service_tier.join(other.service_tier);
        self.estimated_cost.join(other.estimated_cost);
        self.ttft_ms.join(other.ttft_ms);
        self.fingerprint.join(other.fingerprint);
    }

    /// All latest values.
    pub(super) fn latest(&self) -> CallDetails<'_> {
        self.read(|_| true)
    }

    /// Empty for none.
    pub(super) fn service_tier(&self) -> &str {
        self.service_tier.get().map_or("", AsRef::as_ref)
    }

    /// The event with the latest estimated cost.
    pub(super) fn estimated_at(&self) -> Option<Stamp> {
        self.estimated_cost.stamp()
    }

    /// The values that the event with this stamp gave and no later one replaced; `None` if there are none.
    pub(super) fn of(&self, stamp: Stamp) -> Option<CallDetails<'_>> {
        let details = self.read(|of| of == stamp);
        (details != CallDetails::default()).then_some(details)
    }

    fn read(&self, counts: impl Fn(Stamp) -> bool) -> CallDetails<'_> {
        fn get<T: Ord>(register: &Last<T>, counts: impl Fn(Stamp) -> bool) -> Option<&T> {
            register
                .get()
                .filter(|_| register.stamp().is_some_and(counts))
        }
        let count = |register| get(register, &counts).copied();
        CallDetails {
            parts: UsageParts {
                cache_write: count(&self.cache_write),
                cache_write_1h: count(&self.cache_write_1h),
                input_audio: count(&self.input_audio),
                input_image: count(&self.input_image),
                output_audio: count(&self.output_audio),
                requests: count(&self.requests),
            },
            service_tier: get(&self.service_tier, &counts).map(|tier| Cow::Borrowed(&**tier)),
            estimated_cost: get(&self.estimated_cost, &counts).map(|cost| cost.0),
            ttft_ms: count(&self.ttft_ms),
        }
    }
}
