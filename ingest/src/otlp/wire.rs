//! The two encodings of a request, parsed one item at a time: what is small in a body can be large in memory, so a
//! whole body is never held as objects.

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
use schemas::api_error::{ApiError, ErrorCode, EventCode};
use schemas::event::EventFault;
use schemas::limits;
use serde::de::DeserializeOwned;

use super::source::Source;
pub(crate) use room::Room;
use room::Shape;

/// Encoded bytes of one span or record; a longer one is not parsed at all.
const ITEM_BYTES: usize = 8 * limits::EVENT_BYTES;

/// The encoding of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Protobuf,
    Json,
}

impl Wire {
    /// The media type of a response.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    /// From the `Content-Type` of a request.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
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
            Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
        }
    }

    /// Calls the visitor with every span (or record) of a body, in order, with its source, or with the reason why it is
    /// unreadable. An error means that the body as a whole is not OTLP; what was visited before is then void.
    pub(crate) fn visit<T: Item>(
        self,
        body: &Bytes,
        room: &mut Room<impl FnMut(usize) -> bool>,
        mut visitor: impl FnMut(&Arc<Source>, Result<T, EventFault>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self {
            Self::Protobuf => protobuf::visit(body, room, &mut visitor),
            Self::Json => json::visit(body, room, &mut visitor),
        }
    }
}

/// A message that is parsed as a unit: a span or a log record, or the resource or scope before them.
pub(crate) trait Item: prost::Message + DeserializeOwned + Default {
    /// The fields that are lists.
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

/// 400 for a body that is not OTLP.
fn malformed(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(
        ErrorCode::InvalidBody,
        format!("the body is not OTLP: {why}"),
    )
}

/// The rejection of an unreadable span; the others are still good.
fn unreadable(why: impl std::fmt::Display) -> EventFault {
    EventFault {
        code: EventCode::InvalidValue,
        message: format!("cannot be read: {why}"),
    }
}

/// Rejects an item that is too large before it is parsed.
fn within_bound(bytes: usize) -> Result<(), EventFault> {
    if bytes <= ITEM_BYTES {
        return Ok(());
    }
    Err(EventFault {
        code: EventCode::EventTooLarge,
        message: format!("is {bytes} bytes; the limit is {ITEM_BYTES}"),
    })
}
