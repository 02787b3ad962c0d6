//! What can go wrong: at start an [`IngestError`], at a request a [`Fault`].

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;

/// Why the tier could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The settings make no sense together; all faults.
    #[error("settings of ingest: {}", .0.join("; "))]
    Config(Vec<String>),
    /// A metric of the same name is already registered.
    #[error("metrics of ingest: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A [`Fault`] on its way out.
pub(crate) struct Refusal(pub(crate) Fault);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(fault) = self;
        let status =
            StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after_s = fault.retry_after_s;
        let mut response = (status, Json(fault)).into_response();
        if let Some(seconds) = retry_after_s {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
