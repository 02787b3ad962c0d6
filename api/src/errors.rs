//! The errors of families of operations, as the OpenAPI document shows them: each declared once, with its codes.
//!
//! A type stands for some error codes. An operation lists one type, or [`AnyOf`] several, beside its success, and the
//! document gets one response for each status, with the codes and their meaning.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemas::api_error::{ApiError, ErrorCode};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{Ref, RefOr, Response, ResponseBuilder, Schema};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema};

type Responses = BTreeMap<String, RefOr<Response>>;

/// Error codes that belong together.
pub trait Family {
    fn codes() -> Vec<ErrorCode>;
}

/// The errors of all families of a tuple. Listed one by one, the last family with a status would replace the codes of
/// the others.
pub struct AnyOf<F>(PhantomData<F>);

impl<F: Family> IntoResponses for AnyOf<F> {
    fn responses() -> Responses {
        responses(&F::codes())
    }
}

macro_rules! tuple {
    ($($name:ident),+) => {
        impl<$($name: Family),+> Family for ($($name),+) {
            fn codes() -> Vec<ErrorCode> {
                [$($name::codes()),+].concat()
            }
        }
    };
}

tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);

macro_rules! errors {
    ($($(#[doc = $doc:literal])* $name:ident: $($code:ident),+;)+) => {$(
        $(#[doc = $doc])*
        pub struct $name;

        impl Family for $name {
            fn codes() -> Vec<ErrorCode> {
                vec![$(ErrorCode::$code),+]
            }
        }

        impl IntoResponses for $name {
            fn responses() -> Responses {
                responses(&[$(ErrorCode::$code),+])
            }
        }
    )+
    };
}

errors! {
    /// Every operation that takes a credential and answers without the tables.
    Checked: InvalidParameter, UnknownParameter, Unauthorized, CrossSite, Forbidden, TooManyFailures,
        Unavailable;
    /// Every operation that takes a credential and reads or writes tables.
    Common: InvalidParameter, UnknownParameter, Unauthorized, CrossSite, Forbidden, TooManyFailures,
        InternalError, QueryTooExpensive, Unavailable;
    /// Reads and user events, which count against the share of the credential.
    Shared: OverShare;
    /// Lists with pages.
    Paged: InvalidCursor;
    /// Exports, which continue after a row.
    Export: MissingParameter;
    /// A JSON body.
    RequestBody: IncompleteBody, InvalidBody, InvalidEncoding, InvalidJson, InvalidValue,
        MissingField, RequestTimeout, BodyTooLarge, UnsupportedEncoding, UnsupportedMediaType;
    /// A resource named by the path or the body.
    NotFound: NotFound;
    /// A change that contradicts what is stored.
    Conflict: Conflict;
    /// A resource in one of several projects.
    Ambiguous: AmbiguousProject;
    /// A request for a job.
    JobQueue: TooManyJobs;
    /// The app and the model of a job.
    JobFilter: UnknownApp, UnknownModel;
    /// A session that begins.
    SignIn: TooManySignIns;
    /// The registration of a build.
    Registration: MissingParameter, TooManyBuilds, TooManyChecks, SchemaCheckTimeout;
    /// The start of a process.
    Start: InvalidHeader, IdempotencyKeyReused, SchemaRefused, SchemaTooExpensive, SchemaViolation,
        TooManyChecks, SchemaCheckTimeout;
    /// A scan of the platform.
    Scan: ScanFailed;
    /// The end of a session, which needs no valid credential.
    SignOut: InvalidParameter, UnknownParameter, CrossSite, InternalError, Unavailable;
    /// A CORS preflight.
    Preflight: InvalidParameter, UnknownParameter;
    /// A batch of events.
    EventBatch: IncompleteBody, InvalidBody, InvalidEncoding, InvalidJson, UnknownParameter,
        Unauthorized, Forbidden, RequestTimeout, BatchOverRate, BodyTooLarge, UnsupportedEncoding,
        UnsupportedMediaType, RateLimited, TooManyFailures, InternalError, Unavailable;
}

/// Feedback and saves of users.
pub type UserEvent = AnyOf<(Common, Shared, RequestBody, NotFound)>;

/// One response for each status among these codes.
fn responses(codes: &[ErrorCode]) -> Responses {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in ErrorCode::ALL.iter().filter(|code| codes.contains(code)) {
        by_status.entry(code.status()).or_default().push(*code);
    }
    let response = |(status, codes): (u16, Vec<ErrorCode>)| {
        (status.to_string(), RefOr::T(response(status, &codes)))
    };
    by_status.into_iter().map(response).collect()
}

fn response(status: u16, codes: &[ErrorCode]) -> Response {
    let codes: Vec<String> = codes
        .iter()
        .map(|code| format!("`{code}`: {}", code.meaning()))
        .collect();
    let body = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(ApiError::name())))
        .build();
    let mut response = ResponseBuilder::new()
        .description(codes.join(". "))
        .content("application/json", body);
    let header = |schema, what| {
        let header = HeaderBuilder::new().schema(Some::<RefOr<Schema>>(schema));
        header.description(Some(what)).build()
    };
    match status {
        401 => response = response.header("WWW-Authenticate", header(String::schema(), "`Bearer`")),
        429 | 503 => response = response.header("Retry-After", header(u32::schema(), "Seconds")),
        _ => {}
    }
    response.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_one_response_for_each_status() {
        let all = Common::responses();
        let statuses: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(statuses, ["400", "401", "403", "429", "500", "503"]);
        let Some(RefOr::T(unauthorized)) = all.get("401") else {
            panic!("401 is a response of its own");
        };
        assert!(unauthorized.headers.contains_key("WWW-Authenticate"));
        assert!(unauthorized.description.starts_with("`unauthorized`: "));
    }

    #[test]
    fn families_that_share_a_status_keep_the_codes_of_all() {
        let all = AnyOf::<(Common, Shared, RequestBody)>::responses();
        for (status, names) in [
            ("400", ["unknown_parameter", "invalid_json"]),
            ("429", ["too_many_failures", "over_share"]),
        ] {
            let Some(RefOr::T(response)) = all.get(status) else {
                panic!("{status} is a response of its own");
            };
            for name in names {
                let name = format!("`{name}`: ");
                assert!(response.description.contains(&name), "{status} {name}");
            }
            assert_eq!(
                response.headers.contains_key("Retry-After"),
                status == "429"
            );
        }
    }
}
