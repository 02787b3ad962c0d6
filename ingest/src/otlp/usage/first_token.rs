//! The time from the start of a model call to the first piece of its answer.

use chrono::DateTime;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::super::attributes::Attributes;
use super::super::value::Any;
use super::super::vocabulary::Used;

/// Seconds.
const SECONDS: [&str; 3] = [
    // OpenTelemetry's GenAI conventions, and their metric, which pydantic-ai 2.68 and ai 7 write on the span.
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.response.time_to_first_token",
];
/// Seconds by the conventions (openlit 1.35 writes it on the span); milliseconds of Strands Agents.
const SERVER: &str = "gen_ai.server.time_to_first_token";
/// Events on the span at that time.
const EVENTS: [&str; 4] = [
    // OpenInference's instrumentations.
    "First Token Stream Event",
    // AI SDK.
    "ai.stream.firstChunk",
    "gen_ai.content.first_chunk",
    // OpenLLMetry: one for each piece.
    "llm.content.completion.chunk",
];
const CHUNK: &str = "gen_ai.content.completion.chunk";
const MS_PER_S: f64 = 1e3;
const NANOS_PER_MS: f64 = 1e6;

/// Milliseconds, if the client says it in any form, and it is within the call.
pub(crate) fn of(attributes: &Attributes<'_>, used: Used, span: &Span) -> Option<u64> {
    let length_ns = span
        .end_time_unix_nano
        .checked_sub(span.start_time_unix_nano)?;
    let length_ms = (length_ns as f64 / NANOS_PER_MS).ceil();
    let is_within = |ms: &f64| (0.0..=length_ms).contains(ms);
    let seconds = attributes
        .first(SECONDS, number)
        .map(|seconds| seconds * MS_PER_S);
    let ms = seconds
        .or_else(|| attributes.first(used.names(|one| one.first_token_ms), number))
        .filter(is_within)
        .or_else(|| {
            let given = attributes.first([SERVER], number)?;
            // What is after the end in seconds are milliseconds.
            let ms = given * MS_PER_S;
            [ms, given].into_iter().find(is_within)
        })
        .or_else(|| {
            let at = attributes.first(used.names(|one| one.first_token_at), moment_ns)?;
            since_start(span, at).filter(is_within)
        })
        .or_else(|| first_event(span).filter(is_within))?;
    Some(ms.round() as u64)
}

/// The earliest of the events that mark it.
fn first_event(span: &Span) -> Option<f64> {
    let events = span.events.iter().filter(|event| {
        let name = event.name.as_str();
        name == CHUNK || EVENTS.contains(&name)
    });
    let first = events.map(|event| event.time_unix_nano).min()?;
    since_start(span, first)
}

fn since_start(span: &Span, nanos: u64) -> Option<f64> {
    let nanos = nanos.checked_sub(span.start_time_unix_nano)?;
    Some(nanos as f64 / NANOS_PER_MS)
}

fn number(any: &Any) -> Option<f64> {
    let number = match any {
        Any::DoubleValue(number) => *number,
        Any::IntValue(number) => *number as f64,
        Any::StringValue(text) => text.parse().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A time in a text, which some releases of Langfuse's SDK put into quotation marks.
fn moment_ns(any: &Any) -> Option<u64> {
    let Any::StringValue(text) = any else {
        return None;
    };
    let time = DateTime::parse_from_rfc3339(text.trim_matches('"')).ok()?;
    u64::try_from(time.timestamp_nanos_opt()?).ok()
}
