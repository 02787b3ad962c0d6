//! The error every endpoint answers with: `{"error", "message", "status", "details"?}`.

use std::error::Error;
use std::io;

use serde::Serialize;
use utoipa::ToSchema;

mod codes;

pub use codes::{ErrorCode, EventCode};

/// Bytes of a message: a sentence with a field, a value and a rule. Some messages quote the request, such as the name
/// of an unknown field, which may be as long as the body.
pub const MESSAGE_BYTES: usize = 2048;
/// Marks the end of a message that was cut.
pub const CUT: &str = "...";

/// The body of every error.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ApiError {
    /// Stable code, for programs.
    #[serde(rename = "error")]
    #[schema(value_type = String, example = "unauthorized")]
    pub code: ErrorCode,
    /// For a person: names the field, the value and the rule for 4xx, and nothing of the inside for 5xx.
    pub message: String,
    /// The HTTP status.
    #[schema(example = 401)]
    pub status: u16,
    /// Particulars, where there are any.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// Whole seconds for the `Retry-After` header (429 and 503). Not in the body.
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
}

impl ApiError {
    /// The status is the code's; the message is cut at [`MESSAGE_BYTES`].
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
            message.push_str(CUT);
        }
        Self {
            code,
            message,
            status: code.status(),
            details: None,
            retry_after_s: None,
        }
    }

    /// 401, for a missing or unknown credential.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthorized, message)
    }

    /// 403, for a known credential without the scope or role.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    /// 404, for a resource that does not exist or is out of the credential's reach.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// 503 with `Retry-After`: a part is away or full for a while; nothing was accepted.
    pub fn unavailable(message: impl Into<String>, retry_after_s: u32) -> Self {
        Self::new(ErrorCode::Unavailable, message).with_retry_after(retry_after_s)
    }

    /// 500, without internals.
    pub fn internal() -> Self {
        Self::new(
            ErrorCode::InternalError,
            "the server failed; the failure is in its log",
        )
    }

    /// In seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// The I/O kind behind an error, however deeply it is wrapped. Request bodies use it to say why they ended early:
/// [`io::ErrorKind::TimedOut`] for a client that sends too slowly, [`io::ErrorKind::OutOfMemory`] for a full budget of
/// bodies, and [`io::ErrorKind::FileTooLarge`] for more compressed bytes than an honest encoder makes.
pub fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        next = match error.downcast_ref::<io::Error>() {
            Some(error) => match error.get_ref() {
                // An I/O error is not among its own sources, so the error that it wraps comes first.
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
        let fault = ApiError::new(
            ErrorCode::InvalidBody,
            format!("x{}", "é".repeat(MESSAGE_BYTES)),
        );
        assert_eq!(fault.message.len(), MESSAGE_BYTES - 1 + CUT.len());
        assert!(fault.message.ends_with("é..."));
        let whole = "x".repeat(MESSAGE_BYTES);
        assert_eq!(ApiError::not_found(&whole).message, whole);
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
