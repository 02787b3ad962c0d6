//! `/api/run`: read, follow, compare, export, rate and save runs.

pub(crate) mod calls;
pub(crate) mod compare;
pub(crate) mod detail;
pub(crate) mod export;
pub(crate) mod facets;
pub(crate) mod feedback;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod save;
pub(crate) mod tree;
pub(crate) mod user_event;

use api::ErrorResponse;
use schemas::api_error::ApiError;

fn run_not_found() -> ErrorResponse {
    ApiError::not_found("run not found").into()
}
