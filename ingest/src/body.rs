//! Reads a request's body within its bounds: type, encoding, decompressed size, time, and what all bodies may hold.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use schemas::fault::{self, Fault};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use crate::compressed::Compressed;
use crate::in_flight::{InFlight, Reservation};

/// First allocation for a body whose length is announced: announcing more costs nothing until it arrives.
const FIRST_ALLOCATION_BYTES: usize = 1 << 20;
/// Step in which decompressed bytes are read: the decoders' own buffers are of this order.
const DECODE_STEP_BYTES: usize = 64 << 10;
/// Seconds after which a client may ask again when memory for bodies is taken: it frees within milliseconds.
const IN_FLIGHT_RETRY_S: u32 = 1;
/// Time spent on reading off what is left of a refused body; see [`discard`].
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read off of a refused body, as a multiple of the limit of a good one.
const DISCARD_LIMITS: usize = 4;

/// Bounds on one body.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
    pub(crate) in_flight: Arc<InFlight>,
}

/// A whole body, decompressed, with its share of the memory for bodies.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) reservation: Reservation,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Checks that the body is said to be JSON; a 415.
pub(crate) fn json_type(headers: &HeaderMap) -> Result<(), Fault> {
    if let Some(value) = headers.get(CONTENT_TYPE)
        && !value.to_str().is_ok_and(is_json)
    {
        let message = "the body must be JSON in UTF-8, sent as `Content-Type: application/json`";
        return Err(Fault::new(415, "unsupported_media_type", message));
    }
    Ok(())
}

/// How the body is compressed; a 415.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Fault> {
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
    encoding.ok_or_else(|| {
        let message = "Content-Encoding must be one of gzip, deflate, br, zstd, identity";
        Fault::new(415, "unsupported_encoding", message)
    })
}

/// `application/json`, and `text/plain`, which is what browsers let a page send without a preflight (`sendBeacon`).
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let is_known = ["application/json", "text/plain"]
        .iter()
        .any(|known| media_type.eq_ignore_ascii_case(known));
    is_known
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
                    || value.trim().trim_matches('"').eq_ignore_ascii_case("utf8")
            }
            _ => true,
        })
}

/// Reads the body whole, or says why not. After an error the rest of it is still unread.
pub(crate) async fn read(
    body: &mut Body,
    encoding: Encoding,
    bounds: Bounds,
) -> Result<Received, Fault> {
    let timeout = bounds.timeout;
    match tokio::time::timeout(timeout, read_untimed(body, encoding, bounds)).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("the body did not arrive within {} s", timeout.as_secs_f32());
            Err(timed_out(message))
        }
    }
}

async fn read_untimed(
    body: &mut Body,
    encoding: Encoding,
    bounds: Bounds,
) -> Result<Received, Fault> {
    let announced = HttpBody::size_hint(body).exact();
    if encoding == Encoding::Identity {
        if announced.is_some_and(|bytes| bytes > bounds.bytes as u64) {
            return Err(too_large(bounds.bytes));
        }
        return read_plain(body, bounds).await;
    }
    let stream = StreamReader::new(Compressed::new(body, bounds.bytes));
    match encoding {
        // Gzip allows several members in a row; so do log shippers that append.
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

/// Collects frames. A body of one frame is handed on as it came from the connection, without a copy.
async fn read_plain(body: &mut Body, bounds: Bounds) -> Result<Received, Fault> {
    let announced = HttpBody::size_hint(body)
        .exact()
        .and_then(|bytes| usize::try_from(bytes).ok());
    let mut reservation = bounds.in_flight.begin();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame
            .map_err(|error| unread(&error, interrupted))?
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

/// Reads decompressed bytes up to the limit and not one step further, so that a bomb stops there.
async fn read_decoded(decoder: impl AsyncRead + Unpin, bounds: Bounds) -> Result<Received, Fault> {
    let mut decoder = decoder.take(bounds.bytes as u64 + 1);
    let mut reservation = bounds.in_flight.begin();
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(DECODE_STEP_BYTES);
        // A few compressed bytes can keep the decoder busy for long: others get their turn in between.
        tokio::task::consume_budget().await;
        let read =
            decoder
                .read_buf(&mut bytes)
                .await
                .map_err(|error| match fault::io_kind(&error) {
                    Some(io::ErrorKind::FileTooLarge) => too_large(bounds.bytes),
                    _ => unread(&error, undecodable),
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

/// Reads off what is left of a refused body and forgets it, within bounds. Without that the connection is reset
/// under a client that is still sending, and it never sees why it was refused.
pub(crate) async fn discard(body: &mut Body, headers: &HeaderMap, limit: usize) {
    let limit = limit.saturating_mul(DISCARD_LIMITS);
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // A client that waits to be told to go on has sent nothing yet.
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
    // Nothing depends on whether it came to its end.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read_off).await;
}

pub(crate) fn too_large(limit: usize) -> Fault {
    Fault::new(
        413,
        "body_too_large",
        format!("the body is over the limit of {limit} bytes, counted decompressed"),
    )
}

pub(crate) fn no_memory() -> Fault {
    Fault::unavailable(
        "too much is being received at once; send the batch again",
        IN_FLIGHT_RETRY_S,
    )
}

fn timed_out(message: impl Into<String>) -> Fault {
    Fault::new(408, "request_timeout", message)
}

/// Why a body could not be read: the client's pace, or what else it is.
fn unread(error: &(dyn std::error::Error + 'static), otherwise: impl Fn() -> Fault) -> Fault {
    match fault::io_kind(error) {
        Some(io::ErrorKind::TimedOut) => timed_out("the body arrives too slowly"),
        _ => otherwise(),
    }
}

fn interrupted() -> Fault {
    Fault::bad_request("incomplete_body", "the body ended before its end")
}

fn undecodable() -> Fault {
    Fault::bad_request(
        "invalid_encoding",
        "the body ended before its end, or is not what its Content-Encoding says",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: axum::http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn json_in_utf_8_is_taken_whatever_it_is_called() {
        assert_eq!(json_type(&HeaderMap::new()), Ok(()));
        assert_eq!(encoding(&HeaderMap::new()), Ok(Encoding::Identity));
        for value in [
            "application/json",
            "Application/JSON; Charset=\"UTF-8\"",
            "text/plain;charset=UTF-8",
            "application/json;",
        ] {
            assert_eq!(json_type(&with(CONTENT_TYPE, value)), Ok(()), "{value}");
        }
        for value in [
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/jsonx",
            "",
        ] {
            assert_eq!(
                json_type(&with(CONTENT_TYPE, value)).unwrap_err().code,
                "unsupported_media_type",
                "{value}"
            );
        }
    }

    #[test]
    fn one_known_encoding_is_taken_and_no_other() {
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
                encoding(&with(CONTENT_ENCODING, value)).unwrap_err().code,
                "unsupported_encoding"
            );
        }
        let mut twice = with(CONTENT_ENCODING, "gzip");
        twice.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(encoding(&twice).unwrap_err().status, 415);
    }
}
