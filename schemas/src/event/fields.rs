//! The fields of an event in the JSON, not yet parsed.
//!
//! One pass over the event's bytes finds the range of each value; only then are the relevant ones parsed. So a value of
//! the wrong type is the event's fault, not the batch's.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits::EVENT_FIELDS;

/// A JSON key, borrowed unless it contains an escape.
#[derive(serde::Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

macro_rules! fields {
    ($($field:ident = $($key:literal)|+),+ $(,)?) => {
        /// The raw value of each known field of either dialect, without `null` values.
        #[derive(Clone, Debug, Default)]
        pub struct Fields<'a> {
            $(pub(crate) $field: Option<&'a RawValue>,)+
            pub(crate) others: Vec<(Cow<'a, str>, &'a RawValue)>,
            /// The event has more unknown fields than are kept.
            pub(crate) has_too_many: bool,
            pub(crate) is_no_object: bool,
        }

        impl<'a> Fields<'a> {
            fn set(&mut self, key: Cow<'a, str>, value: &'a RawValue) {
                match key.as_ref() {
                    $($($key)|+ => self.$field = Some(value),)+
                    _ if self.others.len() < EVENT_FIELDS => self.others.push((key, value)),
                    _ => self.has_too_many = true,
                }
            }
        }
    };
}

fields! {
    name = "name",
    app_id = "app_id",
    run_id = "run_id",
    parent_run_id = "parent_run_id",
    timestamp = "timestamp",
    kind = "type",
    metadata = "metadata",
    input = "input",
    output = "output",
    model = "model",
    prompt_tokens = "prompt_tokens",
    completion_tokens = "completion_tokens",
    total_tokens = "total_tokens",
    cached_tokens = "cached_tokens",
    reasoning_tokens = "reasoning_tokens",
    cache_write_tokens = "cache_write_tokens",
    cache_write_1h_tokens = "cache_write_1h_tokens",
    input_audio_tokens = "input_audio_tokens",
    input_image_tokens = "input_image_tokens",
    output_audio_tokens = "output_audio_tokens",
    requests = "requests",
    service_tier = "service_tier",
    estimated_cost = "estimated_cost",
    ttft_ms = "ttft_ms",
    call_fingerprint = "call_fingerprint",
    cost = "cost",
    response_id = "response_id",
    event_id = "event_id",
    status = "status",
    error = "error",
    duration_ms = "duration_ms",
    tags = "tags",
    user_email = "user_email",
    agent = "agent",
    thread_id = "thread_id",
    // Fields of chat and feedback only.
    role = "role",
    content = "content",
    rating = "rating",
    comment = "comment",
    // The dialect of the llmonitor and lunary clients.
    old_run_id = "runId",
    old_parent_run_id = "parentRunId",
    old_app = "app" | "appId",
    old_event = "event",
    old_user_id = "userId",
    old_user_properties = "userProps",
    old_tokens = "tokensUsage",
    old_thread_tags = "threadTags",
    old_message = "message",
    old_feedback = "feedback",
    old_extra = "extra",
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Key(key)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            if value.get() != "null" {
                fields.set(key, value);
            }
        }
        Ok(fields)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(no_object())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(no_object())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(no_object())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(no_object())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(no_object())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(no_object())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(no_object())
    }
}

fn no_object<'a>() -> Fields<'a> {
    Fields {
        is_no_object: true,
        ..Fields::default()
    }
}
