//! The two ways in which a request is written, read one item at a time: what is small in a body can be large in
//! memory, so that a whole body is never held as objects.

mod json;
mod lenient;
mod protobuf;
mod room;

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use std::sync::Arc;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use schemas::event::EventFault;
use schemas::fault::Fault;
use schemas::limits;
use serde::de::DeserializeOwned;

use super::source::Source;
pub(crate) use room::Room;
use room::Shape;

/// Bytes of one span or record as it comes: of a longer one not even the beginning is looked at.
const ITEM_BYTES: usize = 8 * limits::EVENT_BYTES;

/// How a request is written, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Protobuf,
    Json,
}

impl Wire {
    /// The media type of an answer.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    /// What the request says of its body.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let media_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let is = |known: &str| media_type.eq_ignore_ascii_case(known);
        if is("application/x-protobuf") || is("application/protobuf") {
            Ok(Self::Protobuf)
        } else if is("application/json") {
            Ok(Self::Json)
        } else {
            let message = "Content-Type must be application/x-protobuf or application/json";
            Err(Fault::new(415, "unsupported_media_type", message))
        }
    }

    /// Gives every span (or record) of a body to the visitor, in order, with where it comes from, or says why one is
    /// none. An error means that the body as a whole is not OTLP; what was visited before is then void.
    pub(crate) fn visit<T: Item>(
        self,
        body: &Bytes,
        room: &mut Room<impl FnMut(usize) -> bool>,
        mut visitor: impl FnMut(&Arc<Source>, Result<T, EventFault>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::Protobuf => protobuf::visit(body, room, &mut visitor),
            Self::Json => json::visit(body, room, &mut visitor),
        }
    }
}

/// What is read as one: a span or a log record, and what stands before many of them.
pub(crate) trait Item: prost::Message + DeserializeOwned + Default {
    /// Where its lists are.
    const SHAPE: Shape;
}

impl Item for Span {
    const SHAPE: Shape = Shape::Span;
}

impl Item for LogRecord {
    const SHAPE: Shape = Shape::Record;
}

impl Item for Resource {
    const SHAPE: Shape = Shape::Resource;
}

impl Item for InstrumentationScope {
    const SHAPE: Shape = Shape::Scope;
}

/// What is not OTLP.
fn malformed(why: impl std::fmt::Display) -> Fault {
    Fault::bad_request("invalid_body", format!("the body is not OTLP: {why}"))
}

/// A span that is none: the others are still good.
fn unreadable(why: impl std::fmt::Display) -> EventFault {
    EventFault {
        code: "invalid_value",
        message: format!("cannot be read: {why}"),
    }
}

/// Refuses an item before it is read, where it is too large.
fn within_bound(bytes: usize) -> Result<(), EventFault> {
    if bytes <= ITEM_BYTES {
        return Ok(());
    }
    Err(EventFault {
        code: "event_too_large",
        message: format!("is {bytes} bytes; the limit is {ITEM_BYTES}"),
    })
}
