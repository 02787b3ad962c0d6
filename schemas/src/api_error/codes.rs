//! Every error code of the API. `docs/reference/errors.md` is generated from these declarations.

use std::fmt;

use serde::{Serialize, Serializer};

/// Declares [`ErrorCode`]: status, variant, text, condition (continues after a colon, without a period), and the remedy
/// of the client or operator.
macro_rules! error_codes {
    ($($status:literal $variant:ident = $text:literal: $meaning:literal, $remedy:literal;)+) => {
        /// The `error` of an answer: a stable name for one condition, always with the same status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($variant,)+
            /// The operation reports an event itself, such as feedback, and the event was rejected.
            Event(EventCode),
        }

        impl ErrorCode {
            /// All codes except events', by status and text.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Event(code) => code.as_str(),
                }
            }

            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)+
                    Self::Event(_) => 400,
                }
            }

            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                    Self::Event(code) => code.meaning(),
                }
            }

            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$variant => $remedy,)+
                    Self::Event(_) => "Correct the event.",
                }
            }
        }
    };
}

/// Declares [`EventCode`]: variant, text, condition.
macro_rules! event_codes {
    ($($variant:ident = $text:literal: $meaning:literal;)+) => {
        /// Why one event was rejected, in the answer of `POST /api/report`, whose status is 200.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventCode {
            $($variant,)+
        }

        impl EventCode {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                }
            }
        }
    };
}

macro_rules! as_text {
    ($($code:ident),+) => {$(
        impl fmt::Display for $code {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl Serialize for $code {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )+};
}

as_text!(ErrorCode, EventCode);

error_codes! {
    400 IncompleteBody = "incomplete_body":
        "the request body ended early",
        "Send the request again.";
    400 InvalidBody = "invalid_body":
        "the body is JSON of another shape than the operation takes; the message names the place",
        "Correct the body.";
    400 InvalidCaches = "invalid_caches":
        "a name is not the name of a cache; no cache was cleared",
        "Use the names that `GET /api/internal/cache/` lists.";
    400 InvalidCursor = "invalid_cursor":
        "the cursor is damaged, of another version, or belongs to another list, filter or sort",
        "Repeat the request with the filter of the page before, or start without `cursor`.";
    400 InvalidEncoding = "invalid_encoding":
        "the body ended early or does not match its `Content-Encoding`",
        "Send the body in the encoding that the header names.";
    400 InvalidHeader = "invalid_header":
        "a required header is missing or has a value that is not allowed; `details.header` names it",
        "Correct the header.";
    400 InvalidJson = "invalid_json":
        "the body is not JSON in UTF-8",
        "Send valid JSON.";
    400 InvalidParameter = "invalid_parameter":
        "a parameter has a value that is not allowed; `details` has the parameter, the value and what is allowed",
        "Correct the value.";
    400 InvalidValue = "invalid_value":
        "a field of the body has a value that is not allowed; the message names it",
        "Correct the value.";
    400 MissingField = "missing_field":
        "a required field of the body is missing",
        "Add the field that the message names.";
    400 MissingParameter = "missing_parameter":
        "a parameter is needed beside the others",
        "Add the parameter that the message names.";
    400 TooManyBuilds = "too_many_builds":
        "the application has as many builds as it may have",
        "Delete builds, or register into one that exists.";
    400 UnknownApp = "unknown_app":
        "no run of this app is stored",
        "Check `app_id`.";
    400 UnknownModel = "unknown_model":
        "no call of this model is stored and no price is set for it",
        "Check `model`.";
    400 UnknownParameter = "unknown_parameter":
        "the operation does not take a parameter of the query string; `details.parameters` lists them",
        "Remove or correct the parameter.";
    401 Unauthorized = "unauthorized":
        "there is no credential, or it is unknown, revoked or expired",
        "Send a valid API key or token as `Authorization: Bearer <secret>`.";
    403 CrossSite = "cross_site":
        "a request with a session cookie came from a page of another site",
        "Send a token instead of the cookie, or use the pages of this server.";
    403 Forbidden = "forbidden":
        "the credential lacks a scope or role, or does not reach the project",
        "Use a credential with the scope, role or project that the message names.";
    404 NotFound = "not_found":
        "the resource does not exist, or the credential does not reach it",
        "Check the path and the project of the credential.";
    405 MethodNotAllowed = "method_not_allowed":
        "the path does not take this method",
        "Use a method that the API document lists for the path.";
    408 RequestTimeout = "request_timeout":
        "the request body arrived too slowly",
        "Send the request again; send smaller bodies over a slow connection.";
    409 AmbiguousProject = "ambiguous_project":
        "the credential reaches several projects with this resource; `details.projects` lists them",
        "Add `project_id`.";
    409 Conflict = "conflict":
        "the change contradicts what is stored; the message names it",
        "Resolve what the message names, then repeat the request.";
    413 BatchOverRate = "batch_over_rate":
        "one batch has more events than the rate of its key allows at once",
        "Send smaller batches.";
    413 BodyTooLarge = "body_too_large":
        "the body exceeds its limit, counted decompressed",
        "Send smaller bodies.";
    415 UnsupportedEncoding = "unsupported_encoding":
        "`Content-Encoding` is unknown, or there is more than one",
        "Use one of gzip, deflate, br, zstd, identity.";
    415 UnsupportedMediaType = "unsupported_media_type":
        "`Content-Type` is not one that the operation takes",
        "Send JSON in UTF-8 as `application/json`; OTLP also takes protobuf.";
    422 IdempotencyKeyReused = "idempotency_key_reused":
        "the `Idempotency-Key` was used with another body",
        "Use a new key for another start.";
    422 SchemaRefused = "schema_refused":
        "the registered schema of the process is not accepted by this version",
        "Register the build again with a schema that is accepted.";
    422 SchemaTooExpensive = "schema_too_expensive":
        "validating the body against its schema takes too many steps",
        "Simplify the schema, or send a smaller body.";
    422 SchemaViolation = "schema_violation":
        "the body violates the schema of the process; `details.violations` lists each place",
        "Correct the body.";
    429 OverShare = "over_share":
        "the credential or its project uses its share of concurrent requests",
        "Wait for `Retry-After` and send fewer requests at once.";
    429 RateLimited = "rate_limited":
        "the key or project exceeds its rate of events",
        "Wait for `Retry-After`.";
    429 TooManyChecks = "too_many_checks":
        "the project has its share of schema validations under way",
        "Wait for `Retry-After`.";
    429 TooManyFailures = "too_many_failures":
        "too many unknown credentials came from this address",
        "Wait for `Retry-After`, and check the credential.";
    429 TooManyJobs = "too_many_jobs":
        "too many jobs are queued",
        "Wait until a queued job has started, or cancel one.";
    429 TooManySignIns = "too_many_sign_ins":
        "one token or person opened too many sessions",
        "Wait for `Retry-After`.";
    500 InternalError = "internal_error":
        "the server failed",
        "See the log of the server; report a defect.";
    500 ScanFailed = "scan_failed":
        "the platform scan could not be done; `details` has the reason",
        "Correct what `details` names, then scan again.";
    503 NotReady = "not_ready":
        "a part of the process does not work; `details` names each",
        "Wait; see the log if it does not become ready.";
    503 QueryTooExpensive = "query_too_expensive":
        "the query exceeded its limits of time or memory",
        "Narrow the filter, for example with `from` and `to`.";
    503 SchemaCheckTimeout = "schema_check_timeout":
        "validating against the schema took too long",
        "Wait for `Retry-After`; simplify the schema.";
    503 Unavailable = "unavailable":
        "the database, the event log or memory for requests is away or full; nothing was accepted",
        "Wait for `Retry-After`, then send the request again.";
}

event_codes! {
    AppNotAllowed = "app_not_allowed": "the API key or the keyless request may not report into this app";
    EventTooLarge = "event_too_large": "the event exceeds 1 MiB";
    InvalidValue = "invalid_value": "a field has a value that is not allowed";
    MissingField = "missing_field": "a required field is missing";
    NotAnObject = "not_an_object": "the element of `events` is not an object";
    TimestampOutOfRange = "timestamp_out_of_range": "the timestamp is before the year 2000 or more than a day in the future";
    TimestampTooOld = "timestamp_too_old": "the timestamp is older than `ingest.max_event_age`";
    TooDeep = "too_deep": "values are nested too deeply, or there are too many fields";
    TooLong = "too_long": "a string exceeds its bound";
    TooManyDays = "too_many_days": "the batch holds events of more than 31 days";
    WrongType = "wrong_type": "a field has another JSON type than it must have";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_the_order_of_their_status() {
        let is_sorted = ErrorCode::ALL.is_sorted_by(|one, next| {
            (one.status(), one.as_str()) < (next.status(), next.as_str())
        });
        assert!(is_sorted);
        for code in ErrorCode::ALL {
            assert!(code.remedy().ends_with('.') && !code.meaning().ends_with('.'));
        }
        assert!(EventCode::ALL.is_sorted_by_key(|code| code.as_str()));
    }
}
