//! Errors: at start a [`QueryError`], in requests an [`ApiError`].

use schemas::api_error::{ApiError, ErrorCode};
use store::shares::Full;

/// Why the state could not be built.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A metric is registered twice.
    #[error("metrics of query: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The client of the identity provider could not be built.
    #[error("client of the identity provider: {0}")]
    Identity(String),
}

/// The error without a free permit: 429 if the caller's share is used up, 503 if all are. `what` names the operations in
/// the plural.
pub(crate) fn no_permit(full: Full, what: &str, retry_after_s: u32) -> ApiError {
    let (whose, count) = match full {
        Full::Credential(count) => ("this credential", count),
        Full::Tenant(count) => ("its project", count),
        Full::Total(count) => {
            let message =
                format!("{count} {what} are running, which is the limit of the server; try again");
            return ApiError::unavailable(message, retry_after_s);
        }
    };
    let message = format!(
        "{count} {what} of {whose} are running, which is its share; try again when one has ended"
    );
    ApiError::new(ErrorCode::OverShare, message).with_retry_after(retry_after_s)
}
