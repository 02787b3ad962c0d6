//! Reads a request's body within the bounds on type, encoding, decompressed size, time and memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::request_body::{self, no_memory, too_large};
use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use schemas::api_error::{self, ApiError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use crate::compressed::Compressed;
use crate::in_flight::{InFlight, Reservation};

/// First allocation for a body of known length: announcing more costs nothing until it arrives.
const FIRST_ALLOCATION_BYTES: usize = 1 << 20;
/// Step in which decompressed bytes are read: the decoders' own buffers are of this order.
const DECODE_STEP_BYTES: usize = 64 << 10;
/// Time spent on reading the rest of a rejected body; see [`discard`].
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read of a rejected body, as a multiple of the limit of an accepted one.
const DISCARD_LIMITS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
    pub(crate) in_flight: Arc<InFlight>,
}

/// A complete body, decompressed, with its reservation of memory.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) reservation: Reservation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// # Errors
/// 415 for an unknown encoding.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (values.next(), values.next()) {
        (None, _) => Some(Encoding::Identity),
        (Some(value), None) => match value
            .to_str()
            .unwrap_or("?")
            .trim()
            .to_ascii_lowercase()
            .as_str()
        {
            "" | "identity" => Some(Encoding::Identity),
            "gzip" | "x-gzip" => Some(Encoding::Gzip),
            "deflate" => Some(Encoding::Deflate),
            "br" => Some(Encoding::Brotli),
            "zstd" => Some(Encoding::Zstd),
            _ => None,
        },
        (Some(_), Some(_)) => None,
    };
    encoding.ok_or_else(request_body::unsupported_encoding)
}

/// After an error the rest of the body is unread.
pub(crate) async fn read(
    body: &mut Body,
    encoding: Encoding,
    bounds: Bounds,
) -> Result<Received, ApiError> {
    let timeout = bounds.timeout;
    match tokio::time::timeout(timeout, read_untimed(body, encoding, bounds)).await {
        Ok(result) => result,
        Err(_) => Err(request_body::late(timeout)),
    }
}

async fn read_untimed(
    body: &mut Body,
    encoding: Encoding,
    bounds: Bounds,
) -> Result<Received, ApiError> {
    let announced = HttpBody::size_hint(body).exact();
    if encoding == Encoding::Identity {
        if announced.is_some_and(|bytes| bytes > bounds.bytes as u64) {
            return Err(too_large(bounds.bytes));
        }
        return read_plain(body, bounds).await;
    }
    let stream = StreamReader::new(Compressed::new(body, bounds.bytes));
    match encoding {
        // Gzip allows several members in a row; log shippers that append make use of it.
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(stream);
            decoder.multiple_members(true);
            read_decoded(decoder, bounds).await
        }
        Encoding::Deflate => read_decoded(ZlibDecoder::new(stream), bounds).await,
        Encoding::Brotli => read_decoded(BrotliDecoder::new(stream), bounds).await,
        Encoding::Zstd => read_decoded(ZstdDecoder::new(stream), bounds).await,
        Encoding::Identity => read_decoded(stream, bounds).await,
    }
}

/// Collects frames. A body of one frame is returned as it came from the connection, without a copy.
async fn read_plain(body: &mut Body, bounds: Bounds) -> Result<Received, ApiError> {
    let announced = HttpBody::size_hint(body)
        .exact()
        .and_then(|bytes| usize::try_from(bytes).ok());
    let mut reservation = bounds.in_flight.begin();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame
            .map_err(|error| unread(&error, request_body::incomplete))?
            .into_data()
        else {
            continue;
        };
        if first.len() + rest.len() + data.len() > bounds.bytes {
            return Err(too_large(bounds.bytes));
        }
        if !reservation.grow(data.len()) {
            return Err(no_memory());
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(
                announced
                    .unwrap_or(0)
                    .min(FIRST_ALLOCATION_BYTES)
                    .max(first.len() + data.len()),
            );
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    let bytes = if rest.is_empty() {
        first
    } else {
        rest.freeze()
    };
    Ok(Received { bytes, reservation })
}

/// Reads decompressed bytes up to the limit and not one step further, so that a decompression bomb stops there.
async fn read_decoded(
    decoder: impl AsyncRead + Unpin,
    bounds: Bounds,
) -> Result<Received, ApiError> {
    let mut decoder = decoder.take(bounds.bytes as u64 + 1);
    let mut reservation = bounds.in_flight.begin();
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(DECODE_STEP_BYTES);
        // A few compressed bytes can keep the decoder busy for long: other tasks run in between.
        tokio::task::consume_budget().await;
        let read = decoder
            .read_buf(&mut bytes)
            .await
            .map_err(|error| match api_error::io_kind(&error) {
                Some(io::ErrorKind::FileTooLarge) => too_large(bounds.bytes),
                _ => unread(&error, request_body::undecodable),
            })?;
        if read == 0 {
            return Ok(Received {
                bytes: bytes.freeze(),
                reservation,
            });
        }
        if bytes.len() > bounds.bytes {
            return Err(too_large(bounds.bytes));
        }
        if !reservation.grow(read) {
            return Err(no_memory());
        }
    }
}

/// Reads the rest of a rejected body and drops it, within bounds. Otherwise the connection is reset while the client
/// still sends, and the client never sees the error.
pub(crate) async fn discard(body: &mut Body, headers: &HeaderMap, limit: usize) {
    let limit = limit.saturating_mul(DISCARD_LIMITS);
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // A client that waits for `100 Continue` has sent nothing yet.
    if headers.contains_key(EXPECT) || announced.is_some_and(|bytes| bytes > limit) {
        return;
    }
    let read_off = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > limit {
                break;
            }
        }
    };
    // Nothing depends on its completion.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read_off).await;
}

/// The error for an unreadable body: a client that is too slow, or else `otherwise`.
fn unread(error: &(dyn std::error::Error + 'static), otherwise: impl Fn() -> ApiError) -> ApiError {
    match api_error::io_kind(error) {
        Some(io::ErrorKind::TimedOut) => request_body::slow(),
        _ => otherwise(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: axum::http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn one_known_encoding_is_taken_and_no_other() {
        assert_eq!(encoding(&HeaderMap::new()), Ok(Encoding::Identity));
        for (value, expected) in [
            ("gzip", Encoding::Gzip),
            ("X-GZip", Encoding::Gzip),
            ("deflate", Encoding::Deflate),
            ("br", Encoding::Brotli),
            ("zstd", Encoding::Zstd),
            ("identity", Encoding::Identity),
        ] {
            assert_eq!(encoding(&with(CONTENT_ENCODING, value)), Ok(expected));
        }
        for value in ["compress", "gzip, br", "gzip;q=1"] {
            assert_eq!(
                encoding(&with(CONTENT_ENCODING, value))
                    .unwrap_err()
                    .code
                    .as_str(),
                "unsupported_encoding"
            );
        }
        let mut twice = with(CONTENT_ENCODING, "gzip");
        twice.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(encoding(&twice).unwrap_err().status, 415);
    }
}
