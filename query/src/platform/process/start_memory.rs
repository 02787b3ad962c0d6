//! Bound on the memory of running starts.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use schemas::api_error::ApiError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a start's body: an event of a run has at most 1 MiB, and contains more than the body.
pub(super) const BODY_BYTES: usize = 512 << 10;
/// Bytes of running starts, by the sizes of their bodies: 64 MiB (X1).
const TOTAL_BYTES: usize = 64 << 20;
/// Least share of a start, which bounds their number at 4,096.
const START_BYTES: usize = 16 << 10;
/// Seconds after which a client can retry.
const RETRY_S: u32 = 1;

pub(super) struct StartMemory(Arc<Semaphore>);

impl StartMemory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(TOTAL_BYTES)))
    }

    /// Reserves memory for a start before its body is read.
    ///
    /// # Errors
    /// 503 when too many starts are running.
    pub(super) fn reserve(&self, request: &Request) -> Result<OwnedSemaphorePermit, ApiError> {
        let length = request.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.or_else(|| request.body().size_hint().exact());
        // A compressed or chunked body may have any size.
        let bytes = length.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.unwrap_or(BODY_BYTES).clamp(START_BYTES, BODY_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let reserved = self.0.clone().try_acquire_many_owned(bytes);
        reserved.map_err(|_| {
            ApiError::unavailable(
                "too many processes are starting at once; try again",
                RETRY_S,
            )
        })
    }
}
