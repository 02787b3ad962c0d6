//! What can go wrong: at start a [`QueryError`], at a request a [`Fault`].

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use store::StoreError;
use store::shares::Full;
use utoipa::ToSchema;

/// Seconds after which a client may ask again when the database is away: about as long as the engine takes to restart.
const AWAY_RETRY_S: u32 = 2;
/// Seconds after which a client may ask again when the database has too much to do.
const BUSY_RETRY_S: u32 = 5;

/// Why the tier could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A metric of the same name is already registered.
    #[error("metrics of query: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No client for the identity provider could be made.
    #[error("client of the identity provider: {0}")]
    Identity(String),
}

/// A [`Fault`] on its way out.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Fault);

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self(fault_of(&error))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(fault) = self;
        let status =
            StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        with_headers((status, Json(&fault)).into_response(), &fault)
    }
}

/// The headers that belong to a fault: when to ask again, and with what.
pub(crate) fn with_headers(mut response: Response, fault: &Fault) -> Response {
    if let Some(seconds) = fault.retry_after_s {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// What the caller is told of a failure of the store. It is logged here, once; nothing of it is told.
fn fault_of(error: &StoreError) -> Fault {
    match error {
        StoreError::TimedOut(_) | StoreError::TooExpensive { .. } => {
            tracing::warn!(error.message = %error, "a query went over its bounds");
            let message =
                "the question took too long; narrow the filter, for example with `from` and `to`";
            Fault {
                retry_after_s: Some(BUSY_RETRY_S),
                ..Fault::new(503, "query_too_expensive", message)
            }
        }
        StoreError::OverShare(waiting) => {
            let message = format!(
                "{waiting} reads of this credential wait already; send fewer at once and try again"
            );
            Fault {
                retry_after_s: Some(BUSY_RETRY_S),
                ..Fault::new(429, "over_share", message)
            }
        }
        StoreError::Overloaded { .. } => {
            tracing::warn!(error.message = %error, "the database is overloaded");
            Fault::unavailable("the database has too much to do; try again", BUSY_RETRY_S)
        }
        error if error.is_retryable() => {
            tracing::warn!(error.message = %error, "the database is away");
            Fault::unavailable("the database is away; try again", AWAY_RETRY_S)
        }
        error => {
            tracing::error!(error.message = %error, "a query failed");
            Fault::internal()
        }
    }
}

/// The answer where there is no permit now: 429 where the caller's own share is used up, 503 where all are held. `what`
/// is what permits are for, in the plural.
pub(crate) fn no_permit(full: Full, what: &str, retry_after_s: u32) -> Fault {
    let (whose, count) = match full {
        Full::Credential(count) => ("this credential", count),
        Full::Tenant(count) => ("its project", count),
        Full::Total(count) => {
            let message =
                format!("{count} {what} are open, which is the most there may be; try again");
            return Fault::unavailable(message, retry_after_s);
        }
    };
    let message = format!(
        "{count} {what} of {whose} are open, which is the share of one; try again when one has ended"
    );
    Fault {
        retry_after_s: Some(retry_after_s),
        ..Fault::new(429, "over_share", message)
    }
}

/// The body of every error.
#[derive(ToSchema)]
#[allow(
    dead_code,
    reason = "documents schemas::fault::Fault, which knows nothing of OpenAPI"
)]
pub(crate) struct FaultBody {
    /// Stable code, for programs.
    #[schema(example = "unauthorized")]
    error: String,
    /// For a person.
    message: String,
    /// The HTTP status.
    #[schema(example = 401)]
    status: u16,
    /// Particulars, where there are any.
    #[schema(required = false)]
    details: Option<serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_database_that_is_away_or_busy_is_a_503_with_retry_after() {
        for error in [
            StoreError::Unavailable("connection refused at 127.0.0.1:8123".to_owned()),
            StoreError::Overloaded {
                code: 241,
                message: "Memory limit".to_owned(),
            },
            StoreError::TimedOut(Duration::from_secs(1)),
            StoreError::TooExpensive {
                code: 159,
                message: "Timeout".to_owned(),
            },
        ] {
            let response = Refusal::from(error).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(RETRY_AFTER));
        }
    }

    #[test]
    fn a_failure_tells_nothing_of_the_inside() {
        let inside = "Code: 47. Unknown identifier in table runs";
        let Refusal(fault) = StoreError::Refused {
            code: 47,
            message: inside.to_owned(),
        }
        .into();
        assert_eq!((fault.status, fault.code), (500, "internal_error"));
        assert!(!fault.message.contains("runs") && fault.details.is_none());
    }
}
