//! From a body of OTLP to a body of `/api/report`: pure.

use bytes::Bytes;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use schemas::event::EventFault;
use schemas::fault::Fault;

use super::log_record::Runs;
use super::span;
use super::wire::{Room, Wire};
use crate::plan::Rejections;

const HEAD: &[u8] = b"{\"events\":[";
const TAIL: &[u8] = b"]}";

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
}

/// The events of a request, and the spans or records that none could be made of.
#[derive(Debug)]
pub(crate) struct Translation {
    /// `{"events": [...]}`.
    pub(crate) events: Bytes,
    pub(crate) rejections: Rejections,
}

impl Signal {
    /// What one of it is called where a person reads it.
    fn item(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "logRecords",
        }
    }

    /// How many events an item makes.
    pub(crate) fn events_of_item(self) -> usize {
        match self {
            Self::Traces => 2,
            Self::Logs => 1,
        }
    }

    /// Translates a body at a moment. `limit` is how many bytes the events may take: a span of a few bytes makes
    /// hundreds. `room` is asked for the memory of what is read at once, before it is.
    ///
    /// # Errors
    /// 400 when the body as a whole is not OTLP, 413 when its events take more than `limit`, 503 without memory.
    pub(crate) fn translate(
        self,
        wire: Wire,
        body: &Bytes,
        (now_ms, limit): (i64, usize),
        mut room: Room<impl FnMut(usize) -> bool>,
    ) -> Result<Translation, Fault> {
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
                match span.and_then(|span| span::write(&span, source, now_ms, &mut events)) {
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
                    let added = record
                        .and_then(|record| runs.add((index, record), source, now_ms, &mut events));
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
        // Every event has a comma behind it.
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

fn within(limit: usize, bytes: usize) -> Result<(), Fault> {
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the body makes events of more than {limit} bytes; send smaller batches");
    Err(Fault::new(413, "body_too_large", message))
}

#[cfg(test)]
mod tests;
