//! Parses `{"events": [...]}` in one pass: each event's fields, and the range of its own bytes.
//!
//! serde_json parses every value; this module only steps from one to the next. It needs the exact span of each event,
//! so that bytes can be passed through, and it accepts lists inside of lists as deep as clients were seen to nest them,
//! which serde_json's own bound of 128 levels would reject.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::api_error::{ApiError, ErrorCode, EventCode};
use crate::event::{self, Event, EventFault, Fields};
use crate::limits;
use crate::timestamp::UnixMs;

/// The events of a body, in order, with nested lists flattened.
#[derive(Debug)]
pub struct Batch<'a> {
    /// One for each event, valid or not.
    pub slots: Vec<Slot<'a>>,
}

/// One event of a batch.
#[derive(Debug)]
pub struct Slot<'a> {
    /// Index in the flattened batch, from 0.
    pub index: usize,
    /// The event's own bytes.
    pub raw: &'a str,
    pub event: Result<Event<'a>, EventFault>,
}

/// Parses a body. An error means that the body as a whole is not `{"events": [...]}`; an invalid event among valid ones
/// is in its slot. `now_ms` bounds timestamps in the future.
pub fn read(body: &[u8], now_ms: UnixMs) -> Result<Batch<'_>, ApiError> {
    let mut slots = Vec::new();
    visit(body, now_ms, |slot| slots.push(slot))?;
    Ok(Batch { slots })
}

/// [`read`] without keeping the slots: a small event takes many times its bytes in memory, so the body of an
/// unauthenticated client is better visited event by event. Slots visited before an error are void.
pub fn visit<'a>(
    body: &'a [u8],
    now_ms: UnixMs,
    visitor: impl FnMut(Slot<'a>),
) -> Result<(), ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::new(
            ErrorCode::InvalidJson,
            format!("the body is not UTF-8 at byte {}", error.valid_up_to()),
        )
    })?;
    Reader {
        text,
        at: 0,
        now_ms,
        visitor,
    }
    .body()
}

struct Reader<'a, V> {
    text: &'a str,
    at: usize,
    now_ms: UnixMs,
    visitor: V,
}

impl<'a, V: FnMut(Slot<'a>)> Reader<'a, V> {
    fn body(&mut self) -> Result<(), ApiError> {
        if self.peek() != Some(b'{') {
            // The error depends on whether the body is JSON at all.
            self.value::<IgnoredAny>()?;
            self.end()?;
            return Err(not_a_batch());
        }
        self.at += 1;
        let mut has_events = false;
        let mut is_first = true;
        loop {
            match self.peek() {
                Some(b'}') if is_first => break,
                Some(b'"') if is_first => {}
                Some(b'}') => break,
                Some(b',') if !is_first => {
                    self.at += 1;
                    if self.peek() != Some(b'"') {
                        return Err(self.unexpected());
                    }
                }
                _ => return Err(self.unexpected()),
            }
            is_first = false;
            let key = self.value::<String>()?;
            self.expect(b':')?;
            if key != "events" {
                self.value::<IgnoredAny>()?;
            } else if self.peek() != Some(b'[') {
                self.value::<IgnoredAny>()?;
                return Err(not_a_batch());
            } else if has_events {
                return Err(ApiError::new(
                    ErrorCode::InvalidBody,
                    "`events` stands in the body twice",
                ));
            } else {
                has_events = true;
                self.events()?;
            }
        }
        self.at += 1;
        self.end()?;
        if has_events {
            Ok(())
        } else {
            Err(not_a_batch())
        }
    }

    /// The list of events, with nested lists flattened: a loop with a counter instead of recursion.
    fn events(&mut self) -> Result<(), ApiError> {
        let mut index = 0;
        let mut depth = 0usize;
        // Whether a value (not a comma) must, or may, come next.
        let mut before_value = true;
        let mut may_close = true;
        loop {
            match self.peek() {
                Some(b'[') if before_value => {
                    depth += 1;
                    if depth > limits::EVENT_LIST_DEPTH {
                        let message = format!(
                            "lists of events nest deeper than {}",
                            limits::EVENT_LIST_DEPTH
                        );
                        return Err(ApiError::new(ErrorCode::InvalidBody, message));
                    }
                    self.at += 1;
                    may_close = true;
                }
                Some(b']') if may_close => {
                    self.at += 1;
                    depth -= 1;
                    before_value = false;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Some(b',') if !before_value => {
                    self.at += 1;
                    before_value = true;
                    may_close = false;
                }
                Some(_) if before_value => {
                    let slot = self.event(index)?;
                    (self.visitor)(slot);
                    index += 1;
                    before_value = false;
                    may_close = true;
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn event(&mut self, index: usize) -> Result<Slot<'a>, ApiError> {
        let start = self.at;
        let fields = match self.value::<Fields<'a>>() {
            Ok(fields) => Some(fields),
            // JSON with invalid values (half of a surrogate pair as a key, 1e999) is the fault of this event alone.
            Err(_) => {
                self.at = start;
                self.value::<IgnoredAny>()?;
                None
            }
        };
        let raw = &self.text[start..self.at];
        let refused = |code, rest: String| {
            Err(EventFault {
                code,
                message: format!("events[{index}] {rest}"),
            })
        };
        let event = if raw.len() > limits::EVENT_BYTES {
            refused(
                EventCode::EventTooLarge,
                format!(
                    "is {} bytes; the limit is {}",
                    raw.len(),
                    limits::EVENT_BYTES
                ),
            )
        } else if event::is_too_deep(raw) {
            refused(
                EventCode::TooDeep,
                format!("nests deeper than {} levels", limits::EVENT_VALUE_DEPTH),
            )
        } else if let Some(fields) = fields {
            Event::from_fields(fields, index, self.now_ms)
        } else {
            refused(
                EventCode::InvalidValue,
                "holds text or a number that stands for nothing".to_owned(),
            )
        };
        Ok(Slot { index, raw, event })
    }

    /// Parses one JSON value at the current position and steps behind it.
    fn value<T: Deserialize<'a>>(&mut self) -> Result<T, ApiError> {
        self.peek();
        let rest = &self.text[self.at..];
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<T>();
        match stream.next() {
            Some(Ok(value)) => {
                self.at += stream.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => Err(not_json(self.at + offset_of(rest, &error))),
            None => Err(not_json(self.text.len())),
        }
    }

    /// Skips whitespace and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), ApiError> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ApiError> {
        if self.peek().is_some() {
            Err(self.unexpected())
        } else {
            Ok(())
        }
    }

    fn unexpected(&self) -> ApiError {
        not_json(self.at)
    }
}

fn not_json(at: usize) -> ApiError {
    ApiError::new(
        ErrorCode::InvalidJson,
        format!("the body is not JSON at byte {at}"),
    )
}

fn not_a_batch() -> ApiError {
    ApiError::new(
        ErrorCode::InvalidBody,
        "the body must be {\"events\": [...]}",
    )
}

/// The offset in `text` where serde_json stopped: its lines and columns are of little use for a body.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let line_start = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    (line_start + error.column().saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests;
