//! The error every endpoint answers with: `{"error", "message", "status", "details"?}`.

use std::error::Error;
use std::io;

use serde::Serialize;

/// Bytes of a message: a sentence with a field, a value and a rule. Some messages repeat what a request holds, such as
/// the name of an unknown field, and that may be as long as the body.
pub const MESSAGE_BYTES: usize = 2048;
/// What stands at the end of a message that was cut.
pub const CUT: &str = "...";

/// An error as the API shows it. `message` is for a person and says what is wrong and where for 4xx; for 5xx it
/// says nothing of the inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Stable code, for programs: `invalid_parameter`, `unauthorized`, ...
    #[serde(rename = "error")]
    pub code: &'static str,
    /// What a person should read.
    pub message: String,
    /// The HTTP status, repeated in the body.
    pub status: u16,
    /// Machine-readable particulars, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// Whole seconds for the `Retry-After` header (429 and 503). Not in the body.
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
}

impl Fault {
    /// An error with a status, a stable code and a message, which is cut at [`MESSAGE_BYTES`].
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
            message.push_str(CUT);
        }
        Self {
            code,
            message,
            status,
            details: None,
            retry_after_s: None,
        }
    }

    /// 400: something in the request is wrong; the message names it.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// 401: no credential, or one nobody knows.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(401, "unauthorized", message)
    }

    /// 403: a known credential that may not do this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "forbidden", message)
    }

    /// 404: there is no such thing, or none that the caller may see.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "not_found", message)
    }

    /// 503 with `Retry-After`: something is away or full for a while; nothing was accepted.
    pub fn unavailable(message: impl Into<String>, retry_after_s: u32) -> Self {
        Self {
            retry_after_s: Some(retry_after_s),
            ..Self::new(503, "unavailable", message)
        }
    }

    /// 500 that tells nothing of the inside.
    pub fn internal() -> Self {
        Self::new(
            500,
            "internal_error",
            "the server failed; the failure is in its log",
        )
    }

    /// Adds particulars.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// The I/O kind behind an error, however deep it is wrapped: how a request body says why it ended early.
/// [`io::ErrorKind::TimedOut`] is a client that sends too slowly, [`io::ErrorKind::OutOfMemory`] a full budget for bodies,
/// and [`io::ErrorKind::FileTooLarge`] more compressed bytes than an honest encoder makes.
pub fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        next = match error.downcast_ref::<io::Error>() {
            Some(error) => match error.get_ref() {
                // An I/O error is no source of itself: what it wraps is asked first.
                Some(inner) if io_kind(inner).is_some() => return io_kind(inner),
                _ => return Some(error.kind()),
            },
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_between_two_characters() {
        let fault = Fault::new(
            400,
            "invalid_body",
            format!("x{}", "é".repeat(MESSAGE_BYTES)),
        );
        assert_eq!(fault.message.len(), MESSAGE_BYTES - 1 + CUT.len());
        assert!(fault.message.ends_with("é..."));
        let whole = "x".repeat(MESSAGE_BYTES);
        assert_eq!(Fault::not_found(&whole).message, whole);
    }

    #[test]
    fn the_innermost_kind_is_found_however_it_is_wrapped() {
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "slow");
        assert_eq!(io_kind(&slow()), Some(io::ErrorKind::TimedOut));
        let wrapped = io::Error::other(io::Error::other(slow()));
        assert_eq!(io_kind(&wrapped), Some(io::ErrorKind::TimedOut));
        let plain = io::Error::new(io::ErrorKind::OutOfMemory, "text alone");
        assert_eq!(io_kind(&plain), Some(io::ErrorKind::OutOfMemory));
        assert_eq!(io_kind(&std::fmt::Error), None);
    }
}
