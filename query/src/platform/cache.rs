//! Emptying caches, and what they hold. Every answer of the clearing has a shape of its own, also where it says no.

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{CORE_CACHE, Cleared, ClearedHere};
use crate::access::Caller;
use crate::error::{Refusal, with_headers};
use crate::params::{Pairs, check_json, read_body};
use crate::state::{QueryState, now_ms};

mod list;

pub(crate) use list::{__path_list, list};

/// Where caches are cleared.
const CLEAR_PATH: &str = "/api/internal/cache/clear";
/// Names in one request: there is one (X1).
const NAMES_MAX: usize = 100;
/// Invalid names that the message repeats; all of them are in the answer.
const NAMES_TOLD: usize = 10;
/// Bytes of the body: as many names of the longest kind, with room to spare.
const BODY_BYTES: usize = 64 << 10;
/// Seconds after which a client may ask again when nothing could be cleared.
const RETRY_S: u32 = 2;

/// Caches to empty.
#[derive(Deserialize, ToSchema)]
#[allow(
    dead_code,
    reason = "documents what `names_in` reads, which says more of what is wrong than a parser would"
)]
pub(crate) struct ClearCaches {
    /// Their names. One that is there twice is emptied once.
    #[serde(rename = "cacheNames")]
    #[schema(value_type = Vec<CacheName>, min_items = 1, max_items = 100)]
    cache_names: Vec<String>,
}

/// The caches there are.
#[derive(ToSchema)]
#[allow(dead_code, reason = "documents CORE_CACHE for the OpenAPI document")]
pub(crate) enum CacheName {
    /// All that the processes keep in memory of the tables and of others: keys, tokens, projects, prices, builds, keys
    /// of the identity provider, runs that were touched lately.
    #[schema(rename = "svc:core:cache")]
    Core,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClearAnswer {
    /// `success` or `error`.
    status: Outcome,
    /// For a person.
    message: String,
    /// What was emptied; only with `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    cleared_caches: Option<Vec<String>>,
    /// Names that no cache has; only where there are some. Nothing was emptied then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    invalid_caches: Option<Vec<String>>,
    /// When it was over.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Instant,
}

/// How it ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// They were emptied.
    Success,
    /// They were not, or not all.
    Error,
}

/// Why nothing, or not everything, was emptied.
#[derive(Debug)]
struct Refused {
    fault: Fault,
    invalid: Option<Vec<String>>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            invalid: None,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { fault, invalid } = self;
        let status =
            StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let what = match status {
            StatusCode::UNAUTHORIZED => "authentication is required: ",
            StatusCode::FORBIDDEN => "permissions are insufficient: ",
            _ => "",
        };
        let answer = ClearAnswer {
            status: Outcome::Error,
            message: format!("{what}{}", fault.message),
            cleared_caches: None,
            invalid_caches: invalid,
            timestamp: Instant(now_ms()),
        };
        with_headers((status, Json(answer)).into_response(), &fault)
    }
}

/// Clear caches
///
/// Has every process of the deployment empty what it keeps in memory and read it again. Answers when all that are there
/// said that they did, or after a second at most; the message says how many of how many.
#[utoipa::path(post, path = "/api/internal/cache/clear", operation_id = "clear_caches", tag = "administration",
    request_body = ClearCaches,
    responses(
        (status = 200, description = "They are empty", body = ClearAnswer),
        (status = 400, description = "A name that no cache has, or a body that does not fit; nothing is emptied", body = ClearAnswer),
        (status = 401, description = "No credential, or one that is not known", body = ClearAnswer),
        (status = 403, description = "Not a token with the role `admin`, or one limited to projects", body = ClearAnswer),
        (status = 413, description = "The body is too large", body = ClearAnswer),
        (status = 415, description = "The body is not `Content-Type: application/json`", body = ClearAnswer),
        (status = 503, description = "The credential cannot be checked, or the process that was asked did not empty its caches in time, or it is not certain that the others were told; the message says what was done", body = ClearAnswer, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn clear(State(state): State<QueryState>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match asked(&state, &mut parts, body).await {
        Ok(answer) => answer.into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// The answer to any other method.
pub(crate) async fn other_method(request: Request) -> Response {
    let message = format!("this does not take {}", request.method());
    Refused::from(Fault::new(405, "method_not_allowed", message)).into_response()
}

async fn asked(
    state: &QueryState,
    parts: &mut Parts,
    body: Body,
) -> Result<Json<ClearAnswer>, Refused> {
    let fault = |Refusal(fault)| Refused::from(fault);
    let caller = Caller::from_request_parts(parts, state)
        .await
        .map_err(fault)?;
    caller.administers_all()?;
    let pairs = Pairs::from_request_parts(parts, state).await;
    pairs.map_err(fault)?.only([])?;
    check_json(&parts.headers)?;
    let body = read_body(body, BODY_BYTES).await?;
    let names = known(names_in(&body)?)?;
    // Nobody is asked where there is nobody to ask.
    state.processes()?;
    let (state, by, ordered) = (state.clone(), caller.who(), names.clone());
    // A client that goes away stops neither the order nor the line that says who gave it.
    let order = tokio::spawn(async move {
        let cleared = state.processes().map_err(|fault| fault.message);
        let cleared = match cleared {
            Ok(processes) => processes.clear(&ordered).await,
            Err(reason) => Err(reason),
        };
        tell(&by, &ordered, &cleared);
        cleared
    });
    let cleared = order.await.unwrap_or_else(|error| {
        tracing::error!(error.message = %error, "an order to empty caches ended without a result");
        Err("what became of the order is not known; give it again".to_owned())
    });
    answered(names, cleared)
}

/// A fault before there is anybody to ask, in the shape of the clearing where the request is for it, else given back.
///
/// # Errors
/// The fault, for any other path.
pub fn in_shape_of_clearing(path: &str, fault: Fault) -> Result<Response, Fault> {
    match path {
        CLEAR_PATH => Ok(Refused::from(fault).into_response()),
        _ => Err(fault),
    }
}

/// The names in a body, in order.
fn names_in(body: &[u8]) -> Result<Vec<String>, Fault> {
    let wrong = |message: String| Fault::bad_request("invalid_body", message);
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("the body is not JSON: {error}")))?;
    let Value::Object(mut fields) = value else {
        return Err(wrong("the body has to be an object".to_owned()));
    };
    let names = match fields.remove("cacheNames") {
        Some(Value::Array(names)) => names,
        Some(_) => return Err(wrong("`cacheNames` has to be an array of text".to_owned())),
        None => return Err(wrong("`cacheNames` is required".to_owned())),
    };
    if names.is_empty() {
        return Err(wrong("`cacheNames` has to name a cache".to_owned()));
    }
    if names.len() > NAMES_MAX {
        return Err(wrong(format!("`cacheNames` names at most {NAMES_MAX}")));
    }
    let text = |(at, name)| match name {
        Value::String(name) if name.len() <= ID_BYTES => Ok(name),
        Value::String(_) => Err(wrong(format!(
            "`cacheNames[{at}]` has more than {ID_BYTES} bytes"
        ))),
        _ => Err(wrong(format!("`cacheNames[{at}]` has to be text"))),
    };
    names.into_iter().enumerate().map(text).collect()
}

/// The names, each once, if all of them are names of caches.
fn known(names: Vec<String>) -> Result<Vec<String>, Refused> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    let (known, invalid): (Vec<String>, Vec<String>) =
        once.into_iter().partition(|name| name == CORE_CACHE);
    if invalid.is_empty() {
        return Ok(known);
    }
    let told = invalid.iter().take(NAMES_TOLD);
    let told: Vec<String> = told.map(|name| format!("`{name}`")).collect();
    let message = format!(
        "not names of caches: {}; nothing was emptied",
        told.join(", ")
    );
    Err(Refused {
        fault: Fault::bad_request("invalid_caches", message),
        invalid: Some(invalid),
    })
}

fn answered(
    names: Vec<String>,
    cleared: Result<Cleared, String>,
) -> Result<Json<ClearAnswer>, Refused> {
    let cleared = cleared.map_err(|reason| Fault::unavailable(reason, RETRY_S))?;
    let Cleared { confirmed, of, .. } = cleared;
    let is_known_everywhere = confirmed == of && of > 1;
    if cleared.here != ClearedHere::Done || !(cleared.is_told || is_known_everywhere) {
        return Err(Fault::unavailable(not_cleared(&cleared), RETRY_S).into());
    }
    let processes = if of == 1 { "process" } else { "processes" };
    let message = if confirmed < of {
        format!("cleared in {confirmed} of {of} {processes}; the others have not confirmed it")
    } else {
        format!("cleared in {confirmed} of {of} {processes}")
    };
    Ok(Json(ClearAnswer {
        status: Outcome::Success,
        message,
        cleared_caches: Some(names),
        invalid_caches: None,
        timestamp: Instant(now_ms()),
    }))
}

/// What was done and what was not, where it is too little to be called cleared.
fn not_cleared(cleared: &Cleared) -> String {
    let Cleared { confirmed, of, .. } = *cleared;
    let (is_here, here) = match cleared.here {
        ClearedHere::Done => (1, "this process emptied its caches"),
        ClearedHere::Failed => (
            0,
            "this process could not read its caches again and does so as soon as the database answers",
        ),
        ClearedHere::UnderWay => (0, "this process has not finished emptying its caches yet"),
    };
    let (confirmed, others) = (
        confirmed.saturating_sub(is_here),
        of.saturating_sub(1).max(confirmed.saturating_sub(is_here)),
    );
    let there = match (cleared.is_told, others) {
        (false, _) => {
            format!(
                "it is not certain that the others were told; {confirmed} of {others} confirmed it"
            )
        }
        (true, 0) => return here.to_owned(),
        (true, _) => format!("{confirmed} of {others} others confirmed it"),
    };
    format!("{here}; {there}")
}

/// Says who did it. When is said by the line itself.
fn tell(by: &str, names: &[String], cleared: &Result<Cleared, String>) {
    let names = names.join(",");
    match cleared {
        Ok(cleared) => tracing::info!(
            audit.action = "cache_clear",
            audit.by = by,
            audit.order = cleared.order,
            audit.names = names,
            audit.here = ?cleared.here,
            audit.told = cleared.is_told,
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
    use ClearedHere::{Done, Failed, UnderWay};
    use serde_json::json;

    use super::*;

    fn names(body: &str) -> Result<Vec<String>, String> {
        names_in(body.as_bytes()).map_err(|fault| {
            assert_eq!(fault.status, 400);
            fault.message
        })
    }

    #[test]
    fn names_are_read_and_what_is_wrong_is_said_with_its_place() {
        let body = r#"{"cacheNames":["a","svc:core:cache","a"],"more":{"x":[1]}}"#;
        assert_eq!(names(body).unwrap(), ["a", "svc:core:cache", "a"]);
        let many = json!({ "cacheNames": vec!["a"; NAMES_MAX + 1] }).to_string();
        let long = json!({ "cacheNames": ["a", "é".repeat(129)] }).to_string();
        for (body, said) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("\"\\ud800\"", "not JSON"),
            ("null", "has to be an object"),
            ("[\"svc:core:cache\"]", "has to be an object"),
            ("{}", "`cacheNames` is required"),
            ("{\"cachenames\":[]}", "`cacheNames` is required"),
            ("{\"cacheNames\":null}", "array of text"),
            ("{\"cacheNames\":\"svc:core:cache\"}", "array of text"),
            ("{\"cacheNames\":[]}", "has to name a cache"),
            ("{\"cacheNames\":[\"a\",1]}", "`cacheNames[1]`"),
            ("{\"cacheNames\":[null]}", "`cacheNames[0]`"),
            (&many, "at most 100"),
            (&long, "`cacheNames[1]` has more than 256 bytes"),
        ] {
            let message = names(body).unwrap_err();
            assert!(message.contains(said), "{body}: {message}");
        }
    }

    #[tokio::test]
    async fn a_fault_of_the_clearing_has_its_shape_and_any_other_has_not() {
        let early = || Fault::unavailable("the server is starting", 1);
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
    fn a_name_that_no_cache_has_keeps_all_of_them_full() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let core = known(list(&[CORE_CACHE, CORE_CACHE])).unwrap();
        assert_eq!(core, [CORE_CACHE]);
        let refused = known(list(&["b", CORE_CACHE, "", "b"])).unwrap_err();
        assert_eq!(refused.fault.status, 400);
        assert_eq!(refused.invalid.unwrap(), ["b", ""]);
    }

    #[test]
    fn the_answer_says_how_many_did_it() {
        let cleared = |here, is_told, confirmed, of| {
            let order = "o".to_owned();
            let cleared = Cleared {
                order,
                here,
                is_told,
                confirmed,
                of,
            };
            answered(vec![CORE_CACHE.to_owned()], Ok(cleared))
        };
        let said = |told, confirmed, of| cleared(Done, told, confirmed, of).unwrap().0.message;
        assert_eq!(said(true, 1, 1), "cleared in 1 of 1 process");
        assert_eq!(said(false, 2, 2), "cleared in 2 of 2 processes");
        assert_eq!(
            said(true, 2, 3),
            "cleared in 2 of 3 processes; the others have not confirmed it"
        );
        for (here, is_told, confirmed, of, said) in [
            (Failed, true, 0, 1, "as soon as the database answers"),
            (Failed, true, 2, 3, "; 2 of 2 others confirmed it"),
            (
                UnderWay,
                true,
                0,
                1,
                "has not finished emptying its caches yet",
            ),
            (UnderWay, true, 1, 3, "; 1 of 2 others confirmed it"),
            (
                Done,
                false,
                1,
                1,
                "not certain that the others were told; 0 of 0 confirmed it",
            ),
            (
                Done,
                false,
                2,
                3,
                "not certain that the others were told; 1 of 2 confirmed it",
            ),
            (Failed, false, 0, 3, "told; 0 of 2 confirmed it"),
        ] {
            let Err(not) = cleared(here, is_told, confirmed, of) else {
                panic!("not cleared: {said}")
            };
            assert_eq!((not.fault.status, not.fault.retry_after_s), (503, Some(2)));
            let message = not.fault.message;
            assert!(message.ends_with(said), "{message}");
        }
        let Err(untold) = answered(Vec::new(), Err("deaf".to_owned())) else {
            panic!("the others were not told")
        };
        assert_eq!(untold.fault.message, "deaf");
    }
}
