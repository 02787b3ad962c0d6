//! What every request body has to meet, and the one reader of JSON bodies.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use http_body_util::LengthLimitError;
use schemas::api_error::{self, ApiError, ErrorCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Seconds after which a client may ask again when memory for bodies is taken: requests free it as they end.
const IN_FLIGHT_RETRY_S: u32 = 1;

/// The `Content-Type` that a route asks for. A charset other than UTF-8 is an error in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`.
    Json,
    /// The same, or no `Content-Type`.
    JsonOrNone,
    /// The same, or `text/plain`, which clients in browsers send to avoid a preflight (`sendBeacon`).
    JsonTextOrNone,
}

impl MediaType {
    /// Checks `Content-Type`.
    ///
    /// # Errors
    /// 415 `unsupported_media_type`.
    pub fn check(self, headers: &HeaderMap) -> Result<(), ApiError> {
        let is_allowed = match headers.get(CONTENT_TYPE) {
            None => self != Self::Json,
            Some(value) => self.allows(value),
        };
        match is_allowed {
            true => Ok(()),
            false => Err(unsupported_media_type()),
        }
    }

    fn allows(self, value: &HeaderValue) -> bool {
        let mut parts = value.to_str().unwrap_or_default().split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let is_text = self == Self::JsonTextOrNone && essence.eq_ignore_ascii_case("text/plain");
        let mut charsets = parts.filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("charset")
                .then(|| value.trim().trim_matches('"'))
        });
        (is_text || essence.eq_ignore_ascii_case("application/json"))
            && charsets.all(|charset| {
                charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
            })
    }
}

/// 415: the body is not declared as JSON.
pub fn unsupported_media_type() -> ApiError {
    ApiError::new(
        ErrorCode::UnsupportedMediaType,
        "the body must be JSON in UTF-8, sent as `Content-Type: application/json`",
    )
}

/// Checks that a body is not compressed any more: a layer before the handler undoes the encodings it knows.
///
/// # Errors
/// 415 `unsupported_encoding`.
pub fn check_decompressed(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(unsupported_encoding()),
        _ => Ok(()),
    }
}

/// Reads a body of at most `limit_bytes`.
///
/// # Errors
/// 400 when it ends early or does not decompress, 408 when it arrives too slowly, 413 when it is larger, 503 when memory
/// for bodies is taken.
pub async fn read_body(body: Body, limit_bytes: usize) -> Result<Bytes, ApiError> {
    let read = axum::body::to_bytes(body, limit_bytes).await;
    read.map_err(|error| unreadable(&error, limit_bytes))
}

/// The same within `timeout`.
///
/// # Errors
/// As [`read_body`].
pub async fn read_body_within(
    body: Body,
    limit_bytes: usize,
    timeout: Duration,
) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(timeout, read_body(body, limit_bytes)).await {
        Ok(read) => read,
        Err(_) => Err(late(timeout)),
    }
}

/// Reads JSON of a known shape.
///
/// # Errors
/// 400 `invalid_json` where the text is not JSON, `invalid_body` where the JSON has another shape.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => {
            let message = format!("request body has the wrong shape: {error}");
            ApiError::new(ErrorCode::InvalidBody, message)
        }
        Category::Syntax | Category::Eof | Category::Io => {
            let message = format!("request body is not JSON: {error}");
            ApiError::new(ErrorCode::InvalidJson, message)
        }
    })
}

/// Why a body could not be read, from what the transport, the decompression or a bound says.
pub fn unreadable(error: &(dyn Error + 'static), limit_bytes: usize) -> ApiError {
    if is_over_limit(error) {
        return too_large(limit_bytes);
    }
    match api_error::io_kind(error) {
        Some(ErrorKind::FileTooLarge) => too_large(limit_bytes),
        Some(ErrorKind::TimedOut) => slow(),
        Some(ErrorKind::OutOfMemory) => no_memory(),
        Some(
            ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted,
        ) => incomplete(),
        // The decoder also fails with plain text, such as for bytes behind the end of what it decompressed.
        _ => undecodable(),
    }
}

fn is_over_limit(error: &(dyn Error + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_over_limit)
}

/// 413: more bytes than the limit, counted decompressed.
pub fn too_large(limit_bytes: usize) -> ApiError {
    let message = format!("request body exceeds {limit_bytes} bytes, counted decompressed");
    ApiError::new(ErrorCode::BodyTooLarge, message)
}

/// 408: the client sends slower than the server waits.
pub fn slow() -> ApiError {
    ApiError::new(ErrorCode::RequestTimeout, "request body arrives too slowly")
}

/// 408: the whole body took longer than this.
pub fn late(timeout: Duration) -> ApiError {
    let message = format!(
        "request body did not arrive within {} s",
        timeout.as_secs_f32()
    );
    ApiError::new(ErrorCode::RequestTimeout, message)
}

/// 400: the connection ended before the body did.
pub fn incomplete() -> ApiError {
    ApiError::new(ErrorCode::IncompleteBody, "request body ended early")
}

/// 400: the body is not what its `Content-Encoding` says.
pub fn undecodable() -> ApiError {
    ApiError::new(
        ErrorCode::InvalidEncoding,
        "request body ended early or does not match its Content-Encoding",
    )
}

/// 415: an encoding that the server does not know, or more than one.
pub fn unsupported_encoding() -> ApiError {
    let message = "Content-Encoding must be one of gzip, deflate, br, zstd, identity";
    ApiError::new(ErrorCode::UnsupportedEncoding, message)
}

/// 503: the memory for request bodies is taken.
pub fn no_memory() -> ApiError {
    let message = "the server receives too many bytes at once; send the request again";
    ApiError::unavailable(message, IN_FLIGHT_RETRY_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_type(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn json_in_utf_8_is_read_and_text_only_where_the_route_says_so() {
        let all = [
            MediaType::Json,
            MediaType::JsonOrNone,
            MediaType::JsonTextOrNone,
        ];
        for value in [
            "application/json",
            "Application/JSON; Charset=\"UTF-8\"",
            "application/json;",
        ] {
            assert!(
                all.iter()
                    .all(|kind| kind.check(&content_type(value)).is_ok()),
                "{value}"
            );
        }
        for value in [
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/jsonx",
            "",
        ] {
            for kind in all {
                let error = kind.check(&content_type(value)).unwrap_err();
                assert_eq!(error.code.as_str(), "unsupported_media_type", "{value}");
            }
        }
        let text = content_type("text/plain;charset=UTF-8");
        assert!(MediaType::JsonTextOrNone.check(&text).is_ok());
        assert!(MediaType::JsonOrNone.check(&text).is_err());
        assert!(MediaType::JsonOrNone.check(&HeaderMap::new()).is_ok());
        assert!(MediaType::Json.check(&HeaderMap::new()).is_err());
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_a_413_and_one_that_ends_early_a_400() {
        let whole = read_body(Body::from("12345"), 5).await;
        assert_eq!(whole.unwrap(), "12345");
        let large = read_body(Body::from("123456"), 5).await.unwrap_err();
        assert_eq!((large.status, large.code.as_str()), (413, "body_too_large"));
        for (kind, status, code) in [
            (ErrorKind::UnexpectedEof, 400, "incomplete_body"),
            (ErrorKind::InvalidData, 400, "invalid_encoding"),
            (ErrorKind::Other, 400, "invalid_encoding"),
            (ErrorKind::TimedOut, 408, "request_timeout"),
            (ErrorKind::FileTooLarge, 413, "body_too_large"),
            (ErrorKind::OutOfMemory, 503, "unavailable"),
        ] {
            let error = unreadable(&std::io::Error::new(kind, "why"), 5);
            assert_eq!((error.status, error.code.as_str()), (status, code));
        }
        let text = unreadable(&axum::Error::new("extra bytes behind the body"), 5);
        assert_eq!((text.status, text.code.as_str()), (400, "invalid_encoding"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_a_408() {
        let frames = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let read = read_body_within(Body::from_stream(frames), 5, Duration::from_secs(2));
        let error = read.await.unwrap_err();
        assert_eq!(
            (error.status, error.code.as_str()),
            (408, "request_timeout")
        );
    }

    #[test]
    fn text_that_is_not_json_has_another_code_than_json_of_another_shape() {
        let code = |text: &str| {
            parse_json::<Vec<u32>>(text.as_bytes())
                .unwrap_err()
                .code
                .as_str()
        };
        assert_eq!(code("[1"), "invalid_json");
        assert_eq!(code("x"), "invalid_json");
        assert_eq!(code("{}"), "invalid_body");
        assert_eq!(code("[\"1\"]"), "invalid_body");
    }
}
