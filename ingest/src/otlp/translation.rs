//! Translates a body of OTLP to a body of `/api/report`. Pure.

use bytes::Bytes;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::event::EventFault;

use super::log_record::{Incoming, Runs};
use super::span;
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
            Self::Traces => wire.visit(body, &mut room, |source, span: Result<Span, _>| {
                let start = events.len();
                match span.and_then(|span| span::write(&span, source, terms, &mut events)) {
                    Ok(()) => events.push(b','),
                    Err(fault) => {
                        events.truncate(start);
                        refuse(index, fault);
                    }
                }
                index += 1;
                within(limit, events.len())
            })?,
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

fn within(limit: usize, bytes: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the body makes events of more than {limit} bytes; send smaller batches");
    Err(ApiError::new(ErrorCode::BodyTooLarge, message))
}

#[cfg(test)]
mod tests;
