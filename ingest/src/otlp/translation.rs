//! Translates a body of OTLP to a body of `/api/report`. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::event::EventFault;

use super::coding_agent;
use super::log_record::{Incoming, Runs};
use super::source::Source;
use super::span::{self, Read};
use super::terms::Terms;
use super::wire::{Room, Wire};
use crate::outcome::Rejections;

const HEAD: &[u8] = b"{\"events\":[";
const TAIL: &[u8] = b"]}";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
}

/// A body to translate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportBody<'a> {
    pub(crate) wire: Wire,
    pub(crate) bytes: &'a Bytes,
    pub(crate) terms: Terms,
    /// Bound on the bytes of the events: a span of a few bytes becomes hundreds.
    pub(crate) events_bytes_max: usize,
}

/// The events of a request, and its spans or records that yielded none.
#[derive(Debug)]
pub(crate) struct Translation {
    /// `{"events": [...]}`.
    pub(crate) events: Bytes,
    pub(crate) rejections: Rejections,
}

impl Signal {
    /// The name of an item in messages.
    fn item(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "logRecords",
        }
    }

    /// Events per item.
    pub(crate) fn events_of_item(self) -> usize {
        match self {
            Self::Traces => 2,
            Self::Logs => 1,
        }
    }

    /// Translates a body. Memory for an item is reserved in `room` before it is parsed.
    ///
    /// # Errors
    /// 400 when the body as a whole is not OTLP, 413 when its events take more than [`ExportBody::events_bytes_max`], 503 without memory.
    pub(crate) fn translate(
        self,
        body: ExportBody<'_>,
        mut room: Room<impl FnMut(usize) -> bool>,
    ) -> Result<Translation, ApiError> {
        let ExportBody {
            wire,
            bytes: body,
            terms,
            events_bytes_max: limit,
        } = body;
        let mut events = Vec::with_capacity(2 * body.len() + HEAD.len());
        events.extend_from_slice(HEAD);
        let mut rejections = Rejections::default();
        let mut index = 0;
        let mut runs = Runs::default();
        let mut refuse = |index: usize, mut fault: EventFault| {
            fault.message = format!("{}[{index}] {}", self.item(), fault.message);
            rejections.add(index, fault);
        };
        match self {
            Self::Traces => {
                let mut models = Models::default();
                let mut write = |at: Waiting, model: Option<&str>, events: &mut Vec<u8>| {
                    let start = events.len();
                    let read = Read { terms, model };
                    let span = at
                        .span
                        .and_then(|span| span::write(&span, &at.source, events, read));
                    match span {
                        Ok(()) => events.push(b','),
                        Err(fault) => {
                            events.truncate(start);
                            refuse(at.index, fault);
                        }
                    }
                };
                wire.visit(body, &mut room, |source, span: Result<Span, _>| {
                    let source = Arc::clone(source);
                    let at = Waiting {
                        index,
                        span,
                        source,
                    };
                    if let Some(at) = models.take(at) {
                        write(at, None, &mut events);
                    }
                    index += 1;
                    within(limit, events.len() + models.bytes())
                })?;
                let Models { named, waiting } = models;
                for at in waiting {
                    let trace = at.span.as_ref().map(|span| &span.trace_id);
                    let model = trace.ok().and_then(|trace| named.get(trace)).cloned();
                    write(at, model.as_deref(), &mut events);
                }
                within(limit, events.len())?;
            }
            Self::Logs => {
                wire.visit(body, &mut room, |source, record: Result<LogRecord, _>| {
                    let start = events.len();
                    let added = record.and_then(|record| {
                        let incoming = Incoming {
                            index,
                            record,
                            source,
                            terms,
                        };
                        runs.add(incoming, &mut events)
                    });
                    if let Err(fault) = added {
                        events.truncate(start);
                        refuse(index, fault);
                    }
                    index += 1;
                    within(limit, events.len() + runs.bytes())
                })?;
                runs.write(&mut events, &mut refuse);
                within(limit, events.len())?;
            }
        }
        // Every event is followed by a comma.
        if events.ends_with(b",") {
            events.pop();
        }
        events.extend_from_slice(TAIL);
        Ok(Translation {
            events: events.into(),
            rejections,
        })
    }
}

/// Spans whose model other spans of their trace name, which may come later in the body.
#[derive(Default)]
struct Models {
    /// By trace.
    named: HashMap<Vec<u8>, String>,
    waiting: Vec<Waiting>,
}

/// A span of a body.
struct Waiting {
    index: usize,
    span: Result<Span, EventFault>,
    source: Arc<Source>,
}

/// Spans that wait at most; the further ones of a body have no model.
const WAITING: usize = 1000;
/// Bytes of a span that waits: it has some twenty short attributes.
const WAITING_BYTES: usize = 8 << 10;

impl Models {
    /// Keeps a span that waits, and gives back any other.
    fn take(&mut self, at: Waiting) -> Option<Waiting> {
        let scope = at.source.scope();
        let Ok(span) = &at.span else {
            return Some(at);
        };
        if let Some(model) = coding_agent::model_named(span, scope) {
            self.named.insert(span.trace_id.clone(), model.to_owned());
        }
        let waits = coding_agent::waits_for_model(span, scope)
            && self.waiting.len() < WAITING
            && span.encoded_len() <= WAITING_BYTES;
        if !waits {
            return Some(at);
        }
        self.waiting.push(at);
        None
    }

    fn bytes(&self) -> usize {
        self.waiting.len() * WAITING_BYTES
    }
}

fn within(limit: usize, bytes: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the body makes events of more than {limit} bytes; send smaller batches");
    Err(ApiError::new(ErrorCode::BodyTooLarge, message))
}

#[cfg(test)]
mod tests;
