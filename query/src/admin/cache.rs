//! `/api/internal/cache`: list caches and clear them. Every answer of the clear operation, errors included, has the
//! shape [`ClearAnswer`].

mod answer;
mod list;

use std::collections::HashSet;

use api::request_body::{MediaType, check_decompressed, read_body};
use api::{ErrorResponse, with_headers};
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRef, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemas::api_error::{ApiError, ErrorCode};
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::{Authenticator, Caller};
use crate::clock::now_ms;
use crate::params::{Pairs, parse_object};
use crate::ports::Port;
use crate::ports::processes::{CORE_CACHE, Cleared, Processes};
use answer::{ClearAnswer, Outcome, cleared_answer};

pub(crate) use list::{__path_list, list};

/// The handler reads the credential itself, so that a 401 has the shape of the clear operation too.
#[derive(Clone)]
pub(crate) struct CacheState {
    pub(crate) authenticator: Authenticator,
    pub(crate) processes: Port<dyn Processes>,
}

impl FromRef<CacheState> for Authenticator {
    fn from_ref(state: &CacheState) -> Self {
        state.authenticator.clone()
    }
}

const CLEAR_PATH: &str = "/api/internal/cache/clear";
/// Unknown names in an error message; the answer lists all of them.
const NAMES_IN_MESSAGE: usize = 10;
/// Bytes of an unknown name in the answer; a longer one is cut and ends with `…`.
const NAME_SHOWN_BYTES: usize = ID_BYTES;
/// Bytes of the body, which bound the number of names (X1): only one name exists.
const BODY_BYTES: usize = 64 << 10;

/// Caches to clear.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ClearCaches {
    /// Names of caches; duplicates are ignored.
    #[serde(rename = "cacheNames", default)]
    #[schema(value_type = Vec<CacheName>, required, min_items = 1)]
    cache_names: Value,
}

/// The caches that can be cleared.
#[derive(ToSchema)]
#[allow(dead_code, reason = "documents CORE_CACHE for the OpenAPI document")]
pub(crate) enum CacheName {
    /// Everything that processes cache of tables and other systems: keys, tokens, projects, prices, builds, keys of the
    /// identity provider, and recently used runs.
    #[schema(rename = "svc:core:cache")]
    Core,
}

/// An error in the shape of the clear operation.
#[derive(Debug)]
struct ClearError {
    error: ApiError,
    invalid: Option<Vec<String>>,
}

impl From<ApiError> for ClearError {
    fn from(error: ApiError) -> Self {
        Self {
            error,
            invalid: None,
        }
    }
}

impl From<ErrorResponse> for ClearError {
    fn from(ErrorResponse(error): ErrorResponse) -> Self {
        error.into()
    }
}

impl IntoResponse for ClearError {
    fn into_response(self) -> Response {
        let Self { error, invalid } = self;
        let prefix = match error.status {
            401 => "authentication is required: ",
            403 => "permissions are insufficient: ",
            _ => "",
        };
        let answer = ClearAnswer {
            status: Outcome::Error,
            message: format!("{prefix}{}", error.message),
            cleared_caches: None,
            invalid_caches: invalid,
            timestamp: Instant(now_ms()),
        };
        with_headers(Json(answer).into_response(), &error)
    }
}

/// Clear caches
///
/// All processes of the deployment clear their caches and load them again. The answer is sent when all live processes
/// have confirmed it, or after one second; the message contains their number.
#[utoipa::path(post, path = "/api/internal/cache/clear", operation_id = "clear_caches", tag = "administration",
    request_body = ClearCaches,
    responses(
        (status = 200, description = "The caches are cleared", body = ClearAnswer),
        (status = 400, description = "Unknown cache name or invalid body; nothing is cleared", body = ClearAnswer),
        (status = 401, description = "No credential, or an unknown one", body = ClearAnswer),
        (status = 403, description = "Not a token with the role `admin` for all projects", body = ClearAnswer),
        (status = 413, description = "The body is too large", body = ClearAnswer),
        (status = 415, description = "The body is not `Content-Type: application/json`", body = ClearAnswer),
        (status = 503, description = "The credential cannot be checked, this process did not clear its caches in time, or the control message may not have reached the others; the message names what was done", body = ClearAnswer, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn clear(State(state): State<CacheState>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match authorized_clear(&state, &mut parts, body).await {
        Ok(answer) => answer.into_response(),
        Err(error) => error.into_response(),
    }
}

/// The 405 for other methods.
pub(crate) async fn other_method(request: Request) -> Response {
    let message = format!("{} is not allowed; use POST", request.method());
    ClearError::from(ApiError::new(ErrorCode::MethodNotAllowed, message)).into_response()
}

async fn authorized_clear(
    state: &CacheState,
    parts: &mut Parts,
    body: Body,
) -> Result<Json<ClearAnswer>, ClearError> {
    let caller = Caller::from_request_parts(parts, state).await?;
    caller.administers_all()?;
    let pairs = Pairs::from_request_parts(parts, state).await?;
    pairs.only([])?;
    MediaType::Json.check(&parts.headers)?;
    check_decompressed(&parts.headers)?;
    let body = read_body(body, BODY_BYTES).await?;
    let names = known(parse_names(&body)?)?;
    state.processes.required()?;
    let (processes, by, ordered) = (state.processes.clone(), caller.audit_name(), names.clone());
    // In a task of its own: a client that disconnects cancels neither the order nor its audit line.
    let order = tokio::spawn(async move {
        let cleared = match processes.required() {
            Ok(processes) => processes.clear(&ordered).await,
            Err(error) => Err(error.message),
        };
        audit(&by, &ordered, &cleared);
        cleared
    });
    let cleared = order.await.unwrap_or_else(|error| {
        tracing::error!(error.message = %error, "clearing caches ended without a result");
        Err("the result is unknown; send the request again".to_owned())
    });
    Ok(cleared_answer(names, cleared)?)
}

/// An error that occurs before this router, in the shape of the clear operation if the request is for it.
///
/// # Errors
/// The same error, for any other path.
pub fn in_shape_of_clearing(path: &str, error: ApiError) -> Result<Response, ApiError> {
    match path {
        CLEAR_PATH => Ok(ClearError::from(error).into_response()),
        _ => Err(error),
    }
}

fn parse_names(body: &[u8]) -> Result<Vec<String>, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidBody, message);
    let names = match parse_object::<ClearCaches>(body)?.cache_names {
        Value::Array(names) => names,
        Value::Null => return Err(invalid("`cacheNames` is required".to_owned())),
        _ => {
            return Err(invalid(
                "`cacheNames` must be an array of strings".to_owned(),
            ));
        }
    };
    if names.is_empty() {
        return Err(invalid("`cacheNames` must name a cache".to_owned()));
    }
    let text = |(at, name)| match name {
        Value::String(name) => Ok(name),
        _ => Err(invalid(format!("`cacheNames[{at}]` must be a string"))),
    };
    names.into_iter().enumerate().map(text).collect()
}

/// The names without duplicates, if all of them exist.
fn known(names: Vec<String>) -> Result<Vec<String>, ClearError> {
    let mut seen = HashSet::new();
    let distinct = names.into_iter().filter(|name| seen.insert(name.clone()));
    let (known, invalid): (Vec<String>, Vec<String>) =
        distinct.partition(|name| name == CORE_CACHE);
    if invalid.is_empty() {
        return Ok(known);
    }
    let invalid: Vec<String> = invalid.into_iter().map(shortened).collect();
    let named = invalid.iter().take(NAMES_IN_MESSAGE);
    let named: Vec<String> = named.map(|name| format!("`{name}`")).collect();
    let message = format!(
        "unknown cache names: {}; the only cache is `{CORE_CACHE}`; nothing was cleared",
        named.join(", ")
    );
    Err(ClearError {
        error: ApiError::new(ErrorCode::InvalidCaches, message),
        invalid: Some(invalid),
    })
}

fn shortened(mut name: String) -> String {
    if name.len() > NAME_SHOWN_BYTES {
        name.truncate(name.floor_char_boundary(NAME_SHOWN_BYTES));
        name.push('…');
    }
    name
}

fn audit(by: &str, names: &[String], cleared: &Result<Cleared, String>) {
    let names = names.join(",");
    match cleared {
        Ok(cleared) => tracing::info!(
            audit.action = "cache_clear",
            audit.by = by,
            audit.order = cleared.order,
            audit.names = names,
            audit.here = ?cleared.here,
            audit.published = cleared.is_published,
            audit.confirmed = cleared.confirmed,
            audit.processes = cleared.of,
            "caches were ordered to be cleared"
        ),
        Err(reason) => tracing::info!(
            audit.action = "cache_clear",
            audit.by = by,
            audit.names = names,
            audit.failure = reason,
            "caches were not cleared"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(body: &str) -> Result<Vec<String>, String> {
        parse_names(body.as_bytes()).map_err(|error| {
            assert_eq!(error.status, 400);
            error.message
        })
    }

    #[test]
    fn names_are_read_and_an_error_names_the_position() {
        let body = r#"{"cacheNames":["a","svc:core:cache","a"],"more":{"x":[1]}}"#;
        assert_eq!(names(body).unwrap(), ["a", "svc:core:cache", "a"]);
        for (body, part) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("\"\\ud800\"", "not JSON"),
            ("null", "wrong shape"),
            ("[\"svc:core:cache\"]", "must be an object"),
            ("{}", "`cacheNames` is required"),
            ("{\"cachenames\":[]}", "`cacheNames` is required"),
            ("{\"cacheNames\":null}", "`cacheNames` is required"),
            ("{\"cacheNames\":\"svc:core:cache\"}", "array of strings"),
            ("{\"cacheNames\":[]}", "must name a cache"),
            ("{\"cacheNames\":[\"a\",1]}", "`cacheNames[1]`"),
            ("{\"cacheNames\":[null]}", "`cacheNames[0]`"),
        ] {
            let message = names(body).unwrap_err();
            assert!(message.contains(part), "{body}: {message}");
        }
    }

    #[tokio::test]
    async fn only_errors_of_the_clear_operation_have_its_shape() {
        let early = || ApiError::unavailable("the server is starting", 1);
        let response = in_shape_of_clearing(CLEAR_PATH, early()).unwrap();
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        let body = read_body(response.into_body(), BODY_BYTES).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&body["status"], &body["message"]),
            (&json!("error"), &json!("the server is starting"))
        );
        assert!(body["timestamp"].is_string());
        assert!(in_shape_of_clearing("/api/runs", early()).is_err());
    }

    #[test]
    fn one_unknown_name_prevents_the_clear() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let core = known(list(&[CORE_CACHE, CORE_CACHE])).unwrap();
        assert_eq!(core, [CORE_CACHE]);
        let rejected = known(list(&["b", CORE_CACHE, "", "b"])).unwrap_err();
        assert_eq!(rejected.error.status, 400);
        assert_eq!(rejected.invalid.unwrap(), ["b", ""]);
    }

    #[test]
    fn unknown_names_are_listed_whatever_their_number_and_length() {
        let mut names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        names.push("é".repeat(200));
        let rejected = known(names.clone()).unwrap_err();
        let invalid = rejected.invalid.unwrap();
        assert_eq!(invalid[..300], names[..300]);
        assert_eq!(invalid[300], format!("{}…", "é".repeat(128)));
    }
}
