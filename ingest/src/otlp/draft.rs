//! An event of Spindle's own dialect, as it is written.

use std::borrow::Cow;

use schemas::api_error::EventCode;
use schemas::event::EventFault;
use schemas::{limits, timestamp};
use serde::{Serialize, Serializer};

use super::metadata::{Metadata, bounded};
use super::usage::Usage;
use super::value::Json;

/// Bytes of an input or output that was too large: even fully escaped, the event then fits.
const CUT_BYTES: usize = 96 << 10;

/// Fields of an event. Empty ones are not written.
#[derive(Debug, Serialize)]
pub(crate) struct Draft<'a> {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_id: Option<&'a str>,
    pub(crate) run_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_run_id: Option<&'a str>,
    #[serde(rename = "timestamp", serialize_with = "time")]
    pub(crate) timestamp_ms: i64,
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Json<'a>>,
    #[serde(flatten)]
    pub(crate) usage: Option<Spent<'a>>,
    /// The identifier that the model's provider gave to the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call_fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_email: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(crate) metadata: Metadata<'a>,
    /// The second form of an input that the client sent in two forms.
    #[serde(rename = "input.value", skip_serializing_if = "Option::is_none")]
    pub(crate) input_value: Option<Json<'a>>,
    #[serde(rename = "output.value", skip_serializing_if = "Option::is_none")]
    pub(crate) output_value: Option<Json<'a>>,
}

/// [`Usage`] in the form of an event.
#[derive(Debug, Serialize)]
pub(crate) struct Spent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_audio_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_image_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_audio_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<u64>,
}

impl<'a> From<Usage<'a>> for Spent<'a> {
    fn from(usage: Usage<'a>) -> Self {
        Self {
            model: usage.model,
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            total_tokens: usage.total,
            cached_tokens: usage.cached,
            cache_write_tokens: usage.cache_write,
            cache_write_1h_tokens: usage.cache_write_1h,
            input_audio_tokens: usage.input_audio,
            input_image_tokens: usage.input_image,
            reasoning_tokens: usage.reasoning,
            output_audio_tokens: usage.output_audio,
            requests: usage.requests,
            service_tier: usage.service_tier,
            cost: usage.cost,
            estimated_cost: usage.estimated_cost,
            ttft_ms: usage.ttft_ms,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Failure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    pub(crate) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stack: Option<&'a str>,
}

impl<'a> Draft<'a> {
    /// An event with the required fields only.
    pub(crate) fn new(name: String, run_id: &'a str, kind: &'a str, timestamp_ms: i64) -> Self {
        Self {
            name,
            event_id: None,
            app_id: None,
            run_id,
            parent_run_id: None,
            timestamp_ms,
            kind,
            input: None,
            output: None,
            usage: None,
            response_id: None,
            call_fingerprint: None,
            error: None,
            agent: None,
            user_email: None,
            thread_id: None,
            tags: Vec::new(),
            metadata: Metadata::default(),
            input_value: None,
            output_value: None,
        }
    }

    /// Appends the event as JSON. Where it is too large, input and output are cut, so that the rest is kept. After an
    /// error `out` holds a part of it.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Result<(), EventFault> {
        let start = out.len();
        match self.write_whole(out) {
            Err(fault) if fault.code == EventCode::EventTooLarge => {
                out.truncate(start);
                for value in [&mut self.input, &mut self.output] {
                    *value = value.take().map(|value| bounded(value, CUT_BYTES));
                }
                (self.input_value, self.output_value) = (None, None);
                self.write_whole(out)
            }
            written => written,
        }
    }

    fn write_whole(&self, out: &mut Vec<u8>) -> Result<(), EventFault> {
        let start = out.len();
        let written = serde_json::to_writer(&mut *out, self);
        let bytes = out.len() - start;
        match written {
            Ok(()) if bytes <= limits::EVENT_BYTES => Ok(()),
            Ok(()) => Err(EventFault {
                code: EventCode::EventTooLarge,
                message: format!(
                    "makes an event of {bytes} bytes; the limit is {}",
                    limits::EVENT_BYTES
                ),
            }),
            Err(error) => Err(EventFault {
                code: EventCode::InvalidValue,
                message: format!("cannot be written: {error}"),
            }),
        }
    }
}

fn time<S: Serializer>(time_ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp::to_text(*time_ms))
}

/// The time in milliseconds, if events may have it.
pub(crate) fn moment(nanos: u64, now_ms: i64, field: &str) -> Result<i64, EventFault> {
    let time_ms = i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX);
    let message = if time_ms < limits::EARLIEST_TIMESTAMP_MS {
        format!("{field} is before the year 2000")
    } else if time_ms > now_ms.saturating_add(limits::FUTURE_TIMESTAMP_MS) {
        format!("{field} is more than a day in the future")
    } else {
        return Ok(time_ms);
    };
    Err(EventFault {
        code: EventCode::TimestampOutOfRange,
        message,
    })
}
