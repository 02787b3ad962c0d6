//! An [`ApiError`] as a response.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemas::api_error::ApiError;

/// The response of an [`ApiError`]: its status, its body, and the headers that belong to it.
///
/// `?` makes one of every error that becomes an [`ApiError`].
#[derive(Debug)]
pub struct ErrorResponse(pub ApiError);

impl<E> From<E> for ErrorResponse
where
    ApiError: From<E>,
{
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Self(error) = self;
        with_headers(Json(&error).into_response(), &error)
    }
}

/// Gives a response the status and the headers of an error, for errors whose body has a shape of its own:
/// `WWW-Authenticate` on every 401, `Retry-After` where the error says when to try again.
#[must_use]
pub fn with_headers(mut response: Response, error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(error: ApiError, name: axum::http::HeaderName) -> Option<String> {
        let response = ErrorResponse(error).into_response();
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    }

    #[test]
    fn every_401_says_how_to_authenticate_and_no_other_status_does() {
        let unauthorized = ApiError::unauthorized("no credential");
        assert_eq!(
            header(unauthorized, WWW_AUTHENTICATE).as_deref(),
            Some("Bearer")
        );
        let forbidden = ApiError::forbidden("no scope");
        assert_eq!(header(forbidden, WWW_AUTHENTICATE), None);
    }

    #[test]
    fn retry_after_is_sent_where_the_error_has_one() {
        let away = ApiError::unavailable("the log is away", 3);
        assert_eq!(header(away, RETRY_AFTER).as_deref(), Some("3"));
        assert_eq!(header(ApiError::internal(), RETRY_AFTER), None);
    }

    #[test]
    fn a_body_of_another_shape_gets_the_same_status_and_headers() {
        let error = ApiError::unauthorized("no credential");
        let response = with_headers("mine".into_response(), &error);
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.headers().contains_key(WWW_AUTHENTICATE));
    }
}
