//! The memory of a parsed item: two bytes of an empty attribute become a hundred.

use api::request_body;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use schemas::api_error::{ApiError, EventCode};
use schemas::event::EventFault;

/// Upper bound on the bytes of a list's element, as a message and as JSON: a link, twice while its list grows.
const ELEMENT_BYTES: usize = 256;
/// The maximum nesting depth of messages: prost's own bound.
const DEPTH: usize = 100;

/// The reservation for the item that is being parsed: one at a time is in memory, so the largest counts.
pub(crate) struct Room<R> {
    reserve: R,
    most: usize,
    taken: usize,
}

impl<R: FnMut(usize) -> bool> Room<R> {
    /// `reserve` takes memory, or returns `false` while there is none. An item that needs more than `most` is rejected.
    pub(crate) fn new(reserve: R, most: usize) -> Self {
        Self {
            reserve,
            most,
            taken: 0,
        }
    }

    /// Reserves memory for an item of so many bytes and elements. The inner error rejects the item for good.
    ///
    /// # Errors
    /// 503 when there is no memory for it now.
    pub(super) fn take(
        &mut self,
        bytes: usize,
        elements: usize,
    ) -> Result<Result<(), EventFault>, ApiError> {
        let needed = bytes.saturating_add(elements.saturating_mul(ELEMENT_BYTES));
        if needed > self.most {
            return Ok(Err(EventFault {
                code: EventCode::EventTooLarge,
                message: format!(
                    "has {elements} attributes, events and links and needs up to {needed} bytes of memory, more than {}; split it",
                    self.most
                ),
            }));
        }
        let more = needed.saturating_sub(self.taken);
        if more > 0 && !(self.reserve)(more) {
            return Err(request_body::no_memory());
        }
        self.taken += more;
        Ok(Ok(()))
    }
}

/// A message that has lists, or is an element of one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Span,
    Record,
    Resource,
    Scope,
    Event,
    Link,
    Pair,
    Value,
    List,
    Pairs,
}

impl Shape {
    /// The message under a number; field numbers come from opentelemetry-proto.
    fn child(self, number: u32) -> Option<Self> {
        Some(match (self, number) {
            (Self::Span, 9) | (Self::Record, 6) | (Self::Resource, 1) => Self::Pair,
            (Self::Scope | Self::Event, 3) | (Self::Link, 4) | (Self::Pairs, 1) => Self::Pair,
            (Self::Span, 11) => Self::Event,
            (Self::Span, 13) => Self::Link,
            (Self::Record, 5) | (Self::Pair, 2) | (Self::List, 1) => Self::Value,
            (Self::Value, 5) => Self::List,
            (Self::Value, 6) => Self::Pairs,
            _ => return None,
        })
    }
}

/// The number of elements in a message, at any depth; of a broken one, the elements before the break.
pub(super) fn elements(shape: Shape, bytes: &[u8]) -> usize {
    let mut count = 0;
    count_elements(shape, bytes, DEPTH, &mut count);
    count
}

fn count_elements(shape: Shape, mut rest: &[u8], depth: usize, count: &mut usize) {
    while !rest.is_empty() {
        let Ok((number, wire_type)) = decode_key(&mut rest) else {
            return;
        };
        let child = shape
            .child(number)
            .filter(|_| depth > 0 && wire_type == WireType::LengthDelimited);
        let Some(child) = child else {
            match skip_field(wire_type, number, &mut rest, DecodeContext::default()) {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let length = decode_varint(&mut rest).ok();
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some((inner, behind)) = length.and_then(|length| rest.split_at_checked(length)) else {
            return;
        };
        *count += 1;
        count_elements(child, inner, depth - 1, count);
        rest = behind;
    }
}
