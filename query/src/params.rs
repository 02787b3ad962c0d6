//! Extractors for query strings, path parameters and JSON bodies. Their errors have the shape of the API.

use api::ErrorResponse;
use api::request_body::{MediaType, check_decompressed, parse_json, read_body};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::invalid_parameter;
use schemas::limits::ID_BYTES;
use serde::de::DeserializeOwned;
use serde_json::json;

mod declared;
mod run_filter;

pub(crate) use declared::{
    AppParams, Flag, IdPath, Limit, Param, ProjectParams, RunPath, Text, Time, any_text,
    choice_param, invalid_path, path_parameter, path_params, path_values, query_parameter,
    query_params,
};
pub(crate) use run_filter::{
    PageParams, RunFilterParams, filter_parameters, filter_schema, schema_of,
};

/// Pairs in a query string: more than a filter has (X1).
const PAIRS: usize = 300;
/// Default bound on a body in bytes: a thousand app ids fit.
const BODY_BYTES: usize = 512 << 10;
/// Bound on a build in bytes: some dozens of processes with large schemas fit.
pub(crate) const LARGE_BODY_BYTES: usize = 4 << 20;
/// Bound on an unauthenticated body in bytes: a token of 8 KiB fits.
pub(crate) const SMALL_BODY_BYTES: usize = 16 << 10;
/// Paths with unauthenticated bodies.
const SMALL_BODIES: [&str; 1] = ["/api/session"];

/// Bound on the decompressed body of this path in bytes; extractors lower it for some operations.
pub fn body_limit(path: &str) -> usize {
    match SMALL_BODIES.contains(&path) {
        true => SMALL_BODY_BYTES,
        false => LARGE_BODY_BYTES,
    }
}

/// The decoded pairs of the query string, in order.
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    pub(crate) fn read(query: &str) -> Result<Self, ApiError> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        if pairs.clone().count() > PAIRS {
            return Err(ApiError::new(
                ErrorCode::InvalidParameter,
                format!("a query string must have at most {PAIRS} parameters"),
            ));
        }
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            let decoded = percent_decode_str(&spaced)
                .decode_utf8()
                .map(|text| text.into_owned());
            decoded.map_err(|_| {
                ApiError::new(ErrorCode::InvalidParameter, "the query string is not UTF-8")
            })
        };
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        };
        pairs.map(read).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The pairs with these names, and the others.
    pub(crate) fn partition(&self, names: &[&str]) -> (Self, Self) {
        let pairs = self.0.iter().cloned();
        let (own, others) = pairs.partition(|(name, _)| names.contains(&name.as_str()));
        (Self(own), Self(others))
    }

    /// The values of these parameters, in this order. Other parameters are an error.
    pub(crate) fn only<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<&str>; N], ApiError> {
        let unknown: Vec<&str> = self
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !names.contains(name))
            .collect();
        if !unknown.is_empty() {
            let message = format!("unknown query parameter: `{}`", unknown.join("`, `"));
            return Err(ApiError::new(ErrorCode::UnknownParameter, message)
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
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
        Ok(Self::read(parts.uri.query().unwrap_or_default())?)
    }
}

/// A JSON object of at most `LIMIT` bytes; no body reads as `null`.
pub(crate) struct JsonBody<T, const LIMIT: usize = BODY_BYTES>(pub(crate) T);

impl<S, T, const LIMIT: usize> FromRequest<S> for JsonBody<T, LIMIT>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ErrorResponse;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, ErrorResponse> {
        let (parts, body) = request.into_parts();
        MediaType::JsonOrNone.check(&parts.headers)?;
        check_decompressed(&parts.headers)?;
        let bytes = read_body(body, LIMIT).await?;
        Ok(Self(match bytes.is_empty() {
            true => parse_json(b"null")?,
            false => parse_object(&bytes)?,
        }))
    }
}

/// Parses a JSON object, or `null`. serde would read an array as a struct, with its items as the fields in order.
pub(crate) fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        let message = "request body must be an object, not an array";
        return Err(ApiError::new(ErrorCode::InvalidBody, message));
    }
    parse_json(bytes)
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
    fn a_query_string_that_is_too_long_or_not_utf_8_is_rejected() {
        assert!(Pairs::read("a=%FF").is_err());
        assert!(Pairs::read(&"a=1&".repeat(PAIRS + 1)).is_err());
    }

    #[test]
    fn unknown_and_repeated_parameters_are_rejected() {
        let pairs = Pairs::read("app_id=a").unwrap();
        assert_eq!(pairs.only(["app_id", "project_id"]), Ok([Some("a"), None]));
        for rejected in ["x=1", "app_id=", "app_id=a&app_id=b"] {
            let error = Pairs::read(rejected).unwrap().only(["app_id"]).unwrap_err();
            assert_eq!(error.status, 400, "{rejected}");
        }
    }
}
