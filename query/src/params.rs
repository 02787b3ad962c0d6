//! The parameters of a request: pairs of a query string, and a JSON body, with every fault in the API's own shape.

use std::io::ErrorKind;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use schemas::fault::{self, Fault};
use schemas::filter::invalid_parameter;
use schemas::limits::ID_BYTES;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::Refusal;

mod run_filter;

pub(crate) use run_filter::RunFilterParams;

/// Pairs in a query string: more than a filter can have, and few enough to look at one by one.
const PAIRS: usize = 300;
/// Bytes of an administrator's request body: a thousand app ids fit.
const BODY_BYTES: usize = 512 << 10;
/// Bytes of a build with its processes: some dozens of them with large schemas fit.
const LARGE_BODY_BYTES: usize = 4 << 20;
/// Bytes of a body that is read before its sender is known: a token of 8 KiB fits.
const SMALL_BODY_BYTES: usize = 16 << 10;
/// Paths with such bodies.
const SMALL_BODIES: [&str; 1] = ["/api/session"];
/// Seconds after which a client may ask again when memory for bodies is taken: it frees as requests end.
const IN_FLIGHT_RETRY_S: u32 = 1;

/// Decompressed bytes that a body at this path may have at most; extractors bound some further.
pub fn body_limit(path: &str) -> usize {
    match SMALL_BODIES.contains(&path) {
        true => SMALL_BODY_BYTES,
        false => LARGE_BODY_BYTES,
    }
}

/// The decoded pairs of the query string, in order.
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    pub(crate) fn read(query: &str) -> Result<Self, Fault> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        if pairs.clone().count() > PAIRS {
            return Err(Fault::bad_request(
                "invalid_parameter",
                format!("at most {PAIRS} query parameters are taken"),
            ));
        }
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            let decoded = percent_decode_str(&spaced)
                .decode_utf8()
                .map(|text| text.into_owned());
            decoded.map_err(|_| {
                Fault::bad_request("invalid_parameter", "the query string is not UTF-8")
            })
        };
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        };
        pairs.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The values of these parameters, in this order; any other one is refused.
    pub(crate) fn only<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<&str>; N], Fault> {
        let unknown: Vec<&str> = self
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !names.contains(name))
            .collect();
        if !unknown.is_empty() {
            let message = format!("unknown query parameter: `{}`", unknown.join("`, `"));
            return Err(Fault::bad_request("unknown_parameter", message)
                .with_details(json!({"parameters": unknown})));
        }
        let mut values = [None; N];
        for (name, value) in self.iter() {
            let Some(at) = names.iter().position(|known| *known == name) else {
                continue;
            };
            if value.is_empty() || value.chars().count() > ID_BYTES {
                return Err(invalid_parameter(
                    name,
                    value,
                    &format!("text of 1 to {ID_BYTES} characters"),
                ));
            }
            if values[at].replace(value).is_some() {
                return Err(invalid_parameter(name, value, "given once"));
            }
        }
        Ok(values)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Ok(Self::read(parts.uri.query().unwrap_or_default())?)
    }
}

/// The one id in the path.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let invalid = || Fault::bad_request("invalid_parameter", "the id in the path is not UTF-8");
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| invalid())?;
        match params.iter().next() {
            Some((_, id)) => Ok(Self(id.to_owned())),
            None => Err(invalid().into()),
        }
    }
}

/// The ids in the path, in order.
pub(crate) struct PathIds<const N: usize>(pub(crate) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for PathIds<N> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let invalid = || Fault::bad_request("invalid_parameter", "a part of the path is not UTF-8");
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| invalid())?;
        let ids: Vec<String> = params.iter().map(|(_, id)| id.to_owned()).collect();
        Ok(Self(ids.try_into().map_err(|_| invalid())?))
    }
}

/// A JSON body of an administrator's request.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// The same where it may be larger.
pub(crate) struct LargeJsonBody<T>(pub(crate) T);

/// The same where its sender is not known yet.
pub(crate) struct SmallJsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Refusal> {
        Ok(Self(json_of(request, BODY_BYTES).await?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for LargeJsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Refusal> {
        Ok(Self(json_of(request, LARGE_BODY_BYTES).await?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for SmallJsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Refusal> {
        Ok(Self(json_of(request, SMALL_BODY_BYTES).await?))
    }
}

/// Whether a body may be read, where its `Content-Type` is required.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(CONTENT_TYPE) {
        Some(kind) if is_json(kind) => check_encoding(headers),
        _ => Err(not_json()),
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn not_json() -> Fault {
    let message = "the body has to be `Content-Type: application/json`";
    Fault::new(415, "unsupported_media_type", message)
}

/// Reads a body of at most so many bytes.
///
/// # Errors
/// 408 when it arrives too slowly, 413 when it is larger or ends early, 503 when memory for bodies is taken.
pub(crate) async fn read_body(body: Body, most_bytes: usize) -> Result<Bytes, Fault> {
    let read = axum::body::to_bytes(body, most_bytes).await;
    read.map_err(|error| match fault::io_kind(&error) {
        Some(ErrorKind::TimedOut) => {
            Fault::new(408, "request_timeout", "the body arrives too slowly")
        }
        Some(ErrorKind::OutOfMemory) => {
            let message = "too much is being received at once; try again";
            Fault::unavailable(message, IN_FLIGHT_RETRY_S)
        }
        _ => too_large(most_bytes),
    })
}

/// The 413 of a body that has more bytes than this, or ends too early.
fn too_large(most_bytes: usize) -> Fault {
    let message = format!("the body is cut off or has more than {most_bytes} bytes");
    Fault::new(413, "body_too_large", message)
}

/// Bodies that are packed in a way that is known are unpacked before they come here.
fn check_encoding(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let message = "the body may be packed with gzip, deflate, br or zstd, once";
            Err(Fault::new(415, "unsupported_encoding", message))
        }
        _ => Ok(()),
    }
}

async fn json_of<T: DeserializeOwned>(
    request: Request<Body>,
    most_bytes: usize,
) -> Result<T, Refusal> {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE);
    if kind.is_some_and(|kind| !is_json(kind)) {
        return Err(not_json().into());
    }
    check_encoding(&parts.headers)?;
    let bytes = read_body(body, most_bytes).await?;
    // No body at all is the value that is none, where there may be none.
    let bytes = if bytes.is_empty() {
        "null".into()
    } else {
        bytes
    };
    // Read as a struct, a list would be its fields in order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let message = "the body does not fit: it has to be an object, not a list";
        return Err(Fault::bad_request("invalid_body", message).into());
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        Fault::bad_request("invalid_body", format!("the body does not fit: {error}"))
    })?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_keep_their_order() {
        let pairs = Pairs::read("a=1&b=x%20y+z&&c&a=%C3%A4&tags[]=p").unwrap();
        let read: Vec<_> = pairs.iter().collect();
        assert_eq!(
            read,
            [
                ("a", "1"),
                ("b", "x y z"),
                ("c", ""),
                ("a", "ä"),
                ("tags[]", "p")
            ]
        );
    }

    #[test]
    fn what_is_not_utf_8_or_too_much_is_refused() {
        assert!(Pairs::read("a=%FF").is_err());
        assert!(Pairs::read(&"a=1&".repeat(PAIRS + 1)).is_err());
    }

    #[test]
    fn only_the_named_parameters_are_taken_and_each_once() {
        let pairs = Pairs::read("app_id=a").unwrap();
        assert_eq!(pairs.only(["app_id", "project_id"]), Ok([Some("a"), None]));
        for refused in ["x=1", "app_id=", "app_id=a&app_id=b"] {
            let fault = Pairs::read(refused).unwrap().only(["app_id"]).unwrap_err();
            assert_eq!(fault.status, 400, "{refused}");
        }
    }
}
