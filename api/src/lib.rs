//! The HTTP edge that every tier shares, so that one condition has one answer in all of them.
//!
//! [`ErrorResponse`] turns an [`ApiError`](schemas::api_error::ApiError) into a response, [`AuthHeader`] reads the
//! credential of a request, [`request_body`] reads JSON bodies within their bounds, and [`errors`] declares the error
//! responses of the API document. What needs no HTTP, such as the error itself, `limit` and cursors, is in `schemas`.
//!
//! This crate knows no route, no state and no store. Start reading at [`ErrorResponse`].

mod auth_header;
mod error_response;
pub mod errors;
pub mod request_body;

pub use auth_header::{AuthHeader, OWN_SECRET_BYTES, SECRET_BYTES};
pub use error_response::{ErrorResponse, with_headers};
