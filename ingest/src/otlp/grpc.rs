//! OTLP over gRPC, on the same listener. OTLP needs one message each way, so the framing is parsed here instead of
//! adding a second server.
//!
//! Five bytes precede a message: whether it is compressed, and its length. The outcome is in the trailers, or in the
//! headers if there is no response message.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Full};
use schemas::api_error::{ApiError, ErrorCode};
use std::fmt::Write as _;
use std::time::Instant;

use super::answer;
use super::export::GrpcExport;
use super::translation::Signal;
use crate::body::{self, Encoding};
use crate::intake;
use crate::state::IngestState;

/// Path of traces.
pub(crate) const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Path of log records.
pub(crate) const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

const MEDIA_TYPE: &str = "application/grpc";
/// Bytes before a message.
pub(crate) const HEAD_BYTES: usize = 5;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

pub(crate) async fn traces(state: State<IngestState>, request: Request) -> Response {
    take(state, request, Signal::Traces).await
}

pub(crate) async fn logs(state: State<IngestState>, request: Request) -> Response {
    take(state, request, Signal::Logs).await
}

async fn take(State(state): State<IngestState>, request: Request, signal: Signal) -> Response {
    let started = Instant::now();
    let parts = &state.0;
    let (head, mut body) = request.into_parts();
    let taken = intake::accept(
        parts,
        &head,
        &mut body,
        &GrpcExport(signal, parts.config.client_cost),
    )
    .await;
    let (status, response) = match taken {
        Ok(taken) => (200, exported(answer::exported(signal, &taken))),
        Err(fault) => {
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, parts.config.body_bytes).await;
            }
            (fault.status, refused(&fault))
        }
    };
    // Every response of gRPC is a 200; the metric counts its status.
    let status = axum::http::StatusCode::from_u16(status).unwrap_or_default();
    parts.metrics.answered(status, started.elapsed());
    response
}

/// Rejects requests that are not gRPC.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    match content_type.and_then(|value| value.strip_prefix(MEDIA_TYPE.as_bytes())) {
        Some(b"" | b"+proto") => Ok(()),
        _ => {
            let message = "this is gRPC; over HTTP traces go to /v1/traces and logs to /v1/logs";
            Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
        }
    }
}

/// The one message of a body, and its compression.
pub(crate) fn message(mut body: Bytes, headers: &HeaderMap) -> Result<(Bytes, Encoding), ApiError> {
    let malformed = || {
        ApiError::new(
            ErrorCode::InvalidBody,
            "the body is not one message of gRPC",
        )
    };
    if body.len() < HEAD_BYTES {
        return Err(malformed());
    }
    let head = body.split_to(HEAD_BYTES);
    let [is_compressed, length @ ..] = [head[0], head[1], head[2], head[3], head[4]];
    if usize::try_from(u32::from_be_bytes(length)) != Ok(body.len()) {
        return Err(malformed());
    }
    let name = match headers.get("grpc-encoding") {
        Some(name) if is_compressed == 1 => name.as_bytes(),
        _ => b"identity",
    };
    match (is_compressed, name) {
        (0, _) | (1, b"identity") => Ok((body, Encoding::Identity)),
        (1, b"gzip") => Ok((body, Encoding::Gzip)),
        (1, b"deflate") => Ok((body, Encoding::Deflate)),
        (1, b"zstd") => Ok((body, Encoding::Zstd)),
        (1, _) => {
            let message = "grpc-encoding must be one of gzip, deflate, zstd, identity";
            Err(ApiError::new(ErrorCode::UnsupportedEncoding, message))
        }
        _ => Err(malformed()),
    }
}

fn exported(message: Vec<u8>) -> Response {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(HEAD_BYTES + message.len());
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(&message);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let body = Full::from(framed).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(CONTENT_TYPE, MEDIA_TYPE)], Body::new(body)).into_response()
}

fn refused(fault: &ApiError) -> Response {
    let code = match fault.status {
        // Clients retry after "unavailable"; after "resource exhausted" only if the response names a delay.
        429 => 14,
        // gRPC has no such status.
        415 => 12,
        status => answer::rpc_code(status),
    };
    let mut response = [(CONTENT_TYPE, MEDIA_TYPE)].into_response();
    let headers = response.headers_mut();
    headers.insert(STATUS, HeaderValue::from(code));
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(&fault.message)) {
        headers.insert(MESSAGE, message);
    }
    response
}

/// gRPC's encoding: everything except printable ASCII, and the percent sign, as bytes.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn one_whole_message_is_taken_and_nothing_else() {
        let gzip = headers(&[("grpc-encoding", "gzip")]);
        let snappy = headers(&[("grpc-encoding", "snappy")]);
        for (body, headers, expected) in [
            (
                &b"\0\0\0\0\x02ab"[..],
                &gzip,
                Ok(("ab", Encoding::Identity)),
            ),
            (b"\x01\0\0\0\x02ab", &gzip, Ok(("ab", Encoding::Gzip))),
            (b"\x01\0\0\0\x02ab", &snappy, Err("unsupported_encoding")),
            (b"\0\0\0\0\0", &gzip, Ok(("", Encoding::Identity))),
            (b"\0\0\0\0", &gzip, Err("invalid_body")),
            (b"\0\0\0\0\x03ab", &gzip, Err("invalid_body")),
            (b"\0\0\0\0\x01ab", &gzip, Err("invalid_body")),
            (b"\x02\0\0\0\x02ab", &gzip, Err("invalid_body")),
        ] {
            let taken = message(Bytes::from_static(body), headers);
            let taken = taken
                .as_ref()
                .map(|(bytes, encoding)| (&bytes[..], *encoding));
            let expected = expected.map(|(text, encoding)| (text.as_bytes(), encoding));
            assert_eq!(
                taken.map_err(|fault| fault.code.as_str()),
                expected,
                "{body:?}"
            );
        }
    }

    #[test]
    fn the_message_of_an_error_is_ascii() {
        assert_eq!(percent_encoded("100% é\n"), "100%25 %C3%A9%0A");
    }
}
