//! A span as two events of a run: its start and its end. Spans of coding agents make runs around them known, too.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use schemas::api_error::EventCode;
use schemas::event::EventFault;
use schemas::limits;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::coding_agent::{self, INTERNAL, Placed};
use super::context::Context;
use super::draft::{Draft, Failure, moment};
use super::facts::{Facts, LLM};
use super::fingerprint::{self, Known};
use super::message_event::{DETAILS, MessageEvent};
use super::messages::Said;
use super::metadata::{self, Metadata};
use super::response_id;
use super::source::Source;
use super::terms::Terms;
use super::usage::first_token;
use super::value::{Any, Json, cut, held};
use super::vocabulary::Used;

/// Events that are kept of a span, and links.
const LISTED: usize = 64;
/// Bytes of a value that only repeats messages: a page of text, where a model's output has its identifier.
const REPEATED_BYTES: usize = 8 << 10;
/// Bytes of an error's parts.
const ERROR_BYTES: usize = 64 << 10;
const EXCEPTION: &str = "exception";
/// One for each piece of a streamed output, without its content.
const CHUNK: &str = "gen_ai.content.completion.chunk";

/// What a span is read with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    pub(crate) terms: Terms,
    /// The model that other spans of its trace name, where its client puts it there.
    pub(crate) model: Option<&'a str>,
}

/// Appends both events, separated by a comma. After an error `out` holds a part of them.
pub(crate) fn write(
    span: &Span,
    source: &Source,
    out: &mut Vec<u8>,
    Read { terms, model }: Read<'_>,
) -> Result<(), EventFault> {
    let trace_id = identifier(&span.trace_id, 16, "traceId")?;
    let run_id = identifier(&span.span_id, 8, "spanId")?;
    let parent_id = match span.parent_span_id.as_slice() {
        id if id.iter().all(|byte| *byte == 0) => None,
        id => Some(identifier(id, 8, "parentSpanId")?),
    };
    if span.end_time_unix_nano == 0 {
        let message = "has no endTimeUnixNano; only spans that have ended are taken";
        return Err(fault(EventCode::MissingField, message));
    }
    let start_ms = moment(span.start_time_unix_nano, terms.now_ms, "startTimeUnixNano")?;
    let end_ms = moment(span.end_time_unix_nano, terms.now_ms, "endTimeUnixNano")?;

    // Attributes of an event about the whole call count as the span's, if the span has none.
    let details = span.events.iter().filter(|event| event.name == DETAILS);
    let details = details.flat_map(|event| &event.attributes);
    let attributes = Attributes::new(details.chain(&span.attributes)).of_scope(source.scope());
    let mut facts = Facts::of(&attributes);
    if facts.kind == LLM {
        let first_token = first_token::of(&attributes, Used::by(&attributes), span);
        facts.usage.ttft_ms = first_token.or(facts.usage.ttft_ms);
    }
    facts.hear(said_in_events(&span.events));
    let mut place = coding_agent::place(
        &Placed {
            span,
            attributes: &attributes,
            scope: source.scope(),
            is_root: parent_id.is_none(),
            model,
        },
        &mut facts,
    );
    let parent_id = parent_id.or_else(|| place.parent.take());
    let around = std::mem::take(&mut place.around);
    let context = Context::of(&attributes);
    let failure = failure(span, &attributes);

    let own_name = facts.name.take();
    let own_name = own_name.as_deref().unwrap_or(&span.name);
    // `_error` is the longest suffix of an event's name.
    let name = match cut(own_name, limits::NAME_BYTES - "_error".len()) {
        "" => facts.kind,
        name => name,
    };
    let app_id = context.app.as_deref().or(source.app.as_deref());
    let event_id = |phase: &str| Some(format!("{trace_id}-{run_id}-{phase}"));
    let of_source = |text: &'_ Option<String>| text.clone().map(Cow::from);
    let thread_id = || context.thread.clone().or_else(|| of_source(&source.thread));
    for one in around {
        for (phase, at_ms) in [("start", start_ms), ("end", end_ms)] {
            if phase == "end" && !one.closes {
                continue;
            }
            let mut draft = Draft {
                event_id: event_id(phase),
                app_id,
                parent_run_id: one.parent.as_deref(),
                agent: one.agent.map(Cow::from),
                thread_id: one.thread.clone().or_else(thread_id),
                ..Draft::new(
                    format!("{}_{phase}", one.name),
                    &one.run_id,
                    one.kind,
                    at_ms,
                )
            };
            match phase {
                "start" => draft.input.clone_from(&one.input),
                _ => draft.output.clone_from(&one.output),
            }
            draft.write(out)?;
            out.push(b',');
        }
    }
    let (own_id, own_parent) = match &place.tool {
        Some(tool) => (tool.as_str(), Some(run_id.as_str())),
        None => (run_id.as_str(), parent_id.as_deref()),
    };
    if place.tool.is_some() {
        let around_name = cut(&span.name, limits::NAME_BYTES - "_start".len());
        for (phase, at_ms) in [("start", start_ms), ("end", end_ms)] {
            let mut shell = Draft {
                event_id: event_id(phase),
                app_id,
                parent_run_id: parent_id.as_deref(),
                ..Draft::new(format!("{around_name}_{phase}"), &run_id, INTERNAL, at_ms)
            };
            shell.write(out)?;
            out.push(b',');
        }
    }
    let event = |phase: &str, timestamp_ms| Draft {
        event_id: event_id(phase),
        app_id,
        parent_run_id: own_parent,
        ..Draft::new(format!("{name}_{phase}"), own_id, facts.kind, timestamp_ms)
    };
    let mut start = event("start", start_ms);
    let mut end = event(if failure.is_some() { "error" } else { "end" }, end_ms);
    // One identity for any outcome: a span has one end.
    end.event_id = event_id("end");

    // What both signals of a client share, where it has such a thing: not both name the provider's identifier.
    let shared = place.response_id.map(Cow::from);
    end.response_id = shared.or_else(|| response_id::of(&facts, &attributes));
    let known = Known {
        scope: source.scope(),
        has_response_id: end.response_id.is_some(),
        has_parent: parent_id.is_some(),
        has_failed: failure.is_some(),
    };
    end.call_fingerprint = fingerprint::of(&facts, known);
    let (input, repeated_input) = facts.take_input();
    let (output, repeated_output) = facts.take_output();
    start.input = input;
    start.input_value = repeated_input.filter(|value| value.bytes() <= REPEATED_BYTES);
    end.output = output;
    end.output_value = repeated_output.filter(|value| value.bytes() <= REPEATED_BYTES);
    let usage = std::mem::take(&mut facts.usage);
    end.usage = Some(usage.with_cost_by(terms.client_cost).into());
    end.error = failure;
    start.agent = match facts.agent.take() {
        None if facts.kind == "agent" => Some(name.into()),
        agent => agent,
    };
    start.user_email = context.user.clone().or_else(|| of_source(&source.user));
    start.thread_id = thread_id();
    start.tags.clone_from(&context.tags);
    start
        .metadata
        .insert("trace_id", Json::Text((&trace_id).into()));
    source.add_to(&mut start.metadata);
    start.metadata.insert_rest(&attributes);
    source.add_others_to(&mut start.metadata);
    start.metadata.count_left_out(span.dropped_attributes_count);
    add_kind(&mut start.metadata, span.kind);
    add_links(&mut end.metadata, span);
    add_events(&mut end.metadata, span, end.error.is_some());

    start.write(out)?;
    out.push(b',');
    end.write(out)
}

pub(crate) fn fault(code: EventCode, message: impl Into<String>) -> EventFault {
    EventFault {
        code,
        message: message.into(),
    }
}

/// An identifier in hexadecimal digits, of the required length and not zero.
pub(crate) fn identifier(id: &[u8], bytes: usize, field: &str) -> Result<String, EventFault> {
    if id.is_empty() {
        return Err(fault(EventCode::MissingField, format!("has no {field}")));
    }
    if id.len() != bytes || id.iter().all(|byte| *byte == 0) {
        let message = format!("{field} must be {bytes} bytes and not all zero");
        return Err(fault(EventCode::InvalidValue, message));
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect())
}

fn said_in_events(events: &[Event]) -> Said {
    let mut said = Said::default();
    for event in events {
        if let Some(message) = MessageEvent::of(&event.name) {
            message.add_to(&mut said, None, &event.attributes);
        }
    }
    said
}

/// The status says whether the span failed, the last exception says how.
fn failure<'a>(span: &'a Span, attributes: &Attributes<'a>) -> Option<Failure<'a>> {
    let status = span.status.as_ref()?;
    if status.code != StatusCode::Error as i32 {
        return None;
    }
    let exception = span.events.iter().rfind(|event| event.name == EXCEPTION);
    let said = |key: &str| {
        let text = text_of(&exception?.attributes, key)?;
        Some(cut(text, ERROR_BYTES))
    };
    let of_status = cut(&status.message, ERROR_BYTES);
    Some(Failure {
        name: said("exception.type").or_else(|| attributes.text("error.type")),
        message: said("exception.message")
            .or(Some(of_status).filter(|text| !text.is_empty()))
            .unwrap_or("the span's status is an error"),
        stack: said("exception.stacktrace"),
    })
}

fn text_of<'a>(pairs: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let pair = pairs.iter().find(|pair| pair.key == key)?;
    match held(pair.value.as_ref())? {
        Any::StringValue(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The span's side of a request over the network.
fn add_kind(metadata: &mut Metadata<'_>, kind: i32) {
    let name = match SpanKind::try_from(kind) {
        Ok(SpanKind::Server) => "server",
        Ok(SpanKind::Client) => "client",
        Ok(SpanKind::Producer) => "producer",
        Ok(SpanKind::Consumer) => "consumer",
        _ => return,
    };
    metadata.insert("span.kind", Json::Text(name.into()));
}

fn add_links(metadata: &mut Metadata<'_>, span: &Span) {
    let links = span.links.iter().filter_map(|link| {
        Some(json!({
            "trace_id": identifier(&link.trace_id, 16, "traceId").ok()?,
            "run_id": identifier(&link.span_id, 8, "spanId").ok()?,
            "attributes": metadata::small_object(&link.attributes),
        }))
    });
    list(metadata, "links", links, span.dropped_links_count);
}

/// Events that nothing else used.
fn add_events(metadata: &mut Metadata<'_>, span: &Span, has_failed: bool) {
    let last = span
        .events
        .iter()
        .rposition(|event| event.name == EXCEPTION);
    let events = span.events.iter().enumerate().filter(|(place, event)| {
        let is_the_error = has_failed && Some(*place) == last;
        !is_the_error
            && ![CHUNK, DETAILS].contains(&event.name.as_str())
            && MessageEvent::of(&event.name).is_none()
    });
    let events = events.map(|(_, event)| {
        let time_ms = i64::try_from(event.time_unix_nano / 1_000_000).unwrap_or_default();
        json!({
            "name": event.name,
            "timestamp": schemas::timestamp::to_text(time_ms),
            "attributes": metadata::small_object(&event.attributes),
        })
    });
    list(metadata, "events", events, span.dropped_events_count);
}

fn list(
    metadata: &mut Metadata<'_>,
    name: &'static str,
    items: impl Iterator<Item = Value>,
    dropped: u32,
) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let kept: Vec<Value> = items.by_ref().take(LISTED).collect();
    let left_out = u64::try_from(items.count())
        .unwrap_or(u64::MAX)
        .saturating_add(dropped.into());
    metadata.insert_whole(name.into(), Json::from(Value::from(kept)));
    if left_out > 0 {
        metadata.insert(format!("dropped_{name}"), Json::from(Value::from(left_out)));
    }
}

#[cfg(test)]
pub(crate) mod tests;
