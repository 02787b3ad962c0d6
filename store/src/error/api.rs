//! Store errors as errors of the API.

use schemas::api_error::{ApiError, ErrorCode};

use super::StoreError;

/// `Retry-After` when the database is away, in seconds: about as long as the engine takes to restart.
const AWAY_RETRY_S: u32 = 2;
/// `Retry-After` when the database is overloaded, in seconds.
const BUSY_RETRY_S: u32 = 5;

/// The failure is logged here, once; the client only learns whether and when to retry.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TimedOut(_) | StoreError::TooExpensive { .. } => {
                tracing::warn!(error.message = %error, "a query exceeded its limits");
                let message =
                    "the query took too long; narrow the filter, for example with `from` and `to`";
                Self::new(ErrorCode::QueryTooExpensive, message).with_retry_after(BUSY_RETRY_S)
            }
            StoreError::OverShare(waiting) => {
                let message = format!(
                    "{waiting} reads of this credential are waiting already; send fewer at once and try again"
                );
                Self::new(ErrorCode::OverShare, message).with_retry_after(BUSY_RETRY_S)
            }
            StoreError::Overloaded { .. } => {
                tracing::warn!(error.message = %error, "the database is overloaded");
                Self::unavailable("the database is overloaded; try again", BUSY_RETRY_S)
            }
            error if error.is_retryable() => {
                tracing::warn!(error.message = %error, "the database is away");
                Self::unavailable("the database is away; try again", AWAY_RETRY_S)
            }
            error => {
                tracing::error!(error.message = %error, "a query failed");
                Self::internal()
            }
        }
    }
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
            let error = ApiError::from(error);
            assert_eq!(error.status, 503);
            assert!(error.retry_after_s.is_some());
        }
    }

    #[test]
    fn a_failure_tells_nothing_of_the_inside() {
        let inside = "Code: 47. Unknown identifier in table runs";
        let error = ApiError::from(StoreError::Refused {
            code: 47,
            message: inside.to_owned(),
        });
        assert_eq!((error.status, error.code.as_str()), (500, "internal_error"));
        assert!(!error.message.contains("runs") && error.details.is_none());
    }
}
