//! Responses in the encoding of the request: what was accepted, or a status.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::{ErrorResponse, errors};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use prost::Message;
use schemas::api_error::{ApiError, ErrorCode};
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::{self, Ref, RefOr};
use utoipa::{IntoResponses, ToSchema};

use super::translation::Signal;
use super::wire::Wire;
use crate::intake::Taken;
use crate::outcome::Rejection;

/// `Retry-After` for a body that did not arrive in time, in seconds.
const LATE_RETRY_S: u32 = 1;
/// Maximum number of reasons in a response about rejected spans.
const REASONS: usize = 3;

/// `google.rpc.Status`, the body of OTLP errors.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// `ExportTracePartialSuccess` and its equivalent for logs, which has the same numbers.
#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `ExportTraceServiceResponse` and its equivalent for logs.
#[derive(Clone, PartialEq, Message)]
struct Exported {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `None` if there is nothing to report: clients take any partial success for a warning.
fn partial_success(signal: Signal, taken: &Taken) -> Option<PartialSuccess> {
    let report = &taken.report;
    let events = report.rejected.saturating_sub(taken.refused);
    let rejected = taken.refused + events.div_ceil(signal.events_of_item());
    (rejected > 0).then(|| PartialSuccess {
        rejected: i64::try_from(rejected).unwrap_or(i64::MAX),
        error_message: reasons(signal, &report.errors),
    })
}

/// The message in protobuf.
pub(crate) fn exported(signal: Signal, taken: &Taken) -> Vec<u8> {
    let exported = Exported {
        partial_success: partial_success(signal, taken),
    };
    exported.encode_to_vec()
}

pub(crate) fn taken(signal: Signal, wire: Wire, taken: &Taken) -> Response {
    let body = match wire {
        Wire::Protobuf => exported(signal, taken),
        Wire::Json => {
            let partial = partial_success(signal, taken).map(|partial| {
                // Protobuf's JSON has integers of 64 bits as text.
                let rejected = partial.rejected.to_string();
                match signal {
                    Signal::Traces => json!({"rejectedSpans": rejected, "errorMessage": partial.error_message}),
                    Signal::Logs => json!({"rejectedLogRecords": rejected, "errorMessage": partial.error_message}),
                }
            });
            let body =
                partial.map_or_else(|| json!({}), |partial| json!({"partialSuccess": partial}));
            body.to_string().into_bytes()
        }
    };
    ([(CONTENT_TYPE, wire.media_type())], body).into_response()
}

fn reasons(signal: Signal, rejections: &[Rejection]) -> String {
    let item = match signal {
        Signal::Traces => "a span",
        Signal::Logs => "a log record",
    };
    let messages = rejections.iter().map(|rejection| {
        // The client does not know the events that its span became.
        let of_event = rejection.message.strip_prefix("events[");
        match of_event.and_then(|rest| rest.split_once("] ")) {
            Some((_, reason)) => Cow::from(format!("{item} {reason}")),
            None => rejection.message.as_str().into(),
        }
    });
    let mut messages: Vec<Cow<'_, str>> = messages.collect();
    messages.dedup();
    let first = &messages[..messages.len().min(REASONS)];
    let more = if messages.len() > REASONS {
        "; ..."
    } else {
        ""
    };
    format!("{}{more}", first.join("; "))
}

/// The same statuses as `/api/report`; of these, OTLP clients retry only 429 and 503.
pub(crate) fn refused(wire: Wire, fault: ApiError) -> Response {
    let fault = match fault.status {
        // Clients drop what was answered with 408.
        408 => ApiError::unavailable(fault.message, LATE_RETRY_S),
        _ => fault,
    };
    let code = rpc_code(fault.status);
    let (content_type, body) = match wire {
        Wire::Protobuf => {
            let status = Status {
                code,
                message: fault.message.clone(),
            };
            (wire.media_type(), status.encode_to_vec())
        }
        Wire::Json => {
            let body = serde_json::to_vec(&StatusJson {
                code,
                fault: &fault,
            });
            (wire.media_type(), body.unwrap_or_default())
        }
    };
    // For the status and `Retry-After`, which are the same in both formats.
    let mut response = ErrorResponse(fault).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
        .headers_mut()
        .remove(axum::http::header::CONTENT_LENGTH);
    *response.body_mut() = body.into();
    response
}

/// The errors of an export: the errors of a batch, with the exception in [`refused`].
pub(super) struct Errors;

impl IntoResponses for Errors {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let mut responses = errors::EventBatch::responses();
        responses.remove("408");
        let schema = Ref::from_schema_name(StatusBody::name());
        let json = ContentBuilder::new().schema(Some(schema)).build();
        let contents = [
            ("application/json", json),
            ("application/x-protobuf", ContentBuilder::new().build()),
        ]
        .map(|(kind, content)| (kind.to_owned(), RefOr::T(content)));
        for (status, response) in &mut responses {
            if let RefOr::T(response) = response {
                response.content = contents.clone().into_iter().collect();
                if status == "503" {
                    let late = ErrorCode::RequestTimeout.meaning();
                    response.description.push_str(&format!(". Or: {late}"));
                }
            }
        }
        responses
    }
}

/// Our error, with OTLP's `code` beside `message`.
#[derive(Serialize)]
struct StatusJson<'a> {
    code: i32,
    #[serde(flatten)]
    fault: &'a ApiError,
}

/// The number of the status in gRPC (google/rpc/code.proto).
pub(crate) fn rpc_code(status: u16) -> i32 {
    match StatusCode::from_u16(status) {
        Ok(StatusCode::UNAUTHORIZED) => 16,
        Ok(StatusCode::FORBIDDEN) => 7,
        Ok(StatusCode::REQUEST_TIMEOUT) => 4,
        Ok(StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS) => 8,
        Ok(StatusCode::SERVICE_UNAVAILABLE) => 14,
        Ok(status) if status.is_client_error() => 3,
        _ => 13,
    }
}

/// An error of an export.
#[derive(Serialize, ToSchema)]
#[schema(as = OtlpStatus)]
#[allow(dead_code, reason = "documents what is written above")]
pub(crate) struct StatusBody {
    /// The number of the status in gRPC.
    #[schema(example = 16)]
    code: i32,
    /// Stable code, for programs.
    #[schema(example = "unauthorized")]
    error: String,
    /// For a person.
    message: String,
    /// The HTTP status.
    #[schema(example = 401)]
    status: u16,
    /// Particulars, where there are any.
    #[schema(required = false)]
    details: Option<serde_json::Value>,
}

/// An ExportTraceServiceRequest as JSON: names in camelCase, ids in hexadecimal digits, enumerations as numbers.
#[derive(Serialize, ToSchema)]
#[schema(as = OtlpTraces)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what opentelemetry-proto has")]
pub(crate) struct TracesBody {
    /// Each with `resource` and `scopeSpans`.
    #[schema(required = false)]
    resource_spans: Option<Vec<serde_json::Map<String, serde_json::Value>>>,
}

/// An ExportLogsServiceRequest as JSON.
#[derive(Serialize, ToSchema)]
#[schema(as = OtlpLogs)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what opentelemetry-proto has")]
pub(crate) struct LogsBody {
    /// Each with `resource` and `scopeLogs`.
    #[schema(required = false)]
    resource_logs: Option<Vec<serde_json::Map<String, serde_json::Value>>>,
}

/// What became of spans.
#[derive(Serialize, ToSchema)]
#[schema(as = OtlpTracesAnswer)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is written above")]
pub(crate) struct TracesAnswer {
    /// Absent when all were taken.
    #[schema(required = false)]
    partial_success: Option<RejectedSpans>,
}

/// Spans that were not taken.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is written above")]
struct RejectedSpans {
    /// How many, as text.
    #[schema(example = "2")]
    rejected_spans: String,
    /// Why, for the first of them.
    error_message: String,
}

/// What became of log records.
#[derive(Serialize, ToSchema)]
#[schema(as = OtlpLogsAnswer)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is written above")]
pub(crate) struct LogsAnswer {
    /// Absent when all were taken.
    #[schema(required = false)]
    partial_success: Option<RejectedLogRecords>,
}

/// Log records that were not taken.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is written above")]
struct RejectedLogRecords {
    /// How many, as text.
    #[schema(example = "2")]
    rejected_log_records: String,
    /// Why, for the first of them.
    error_message: String,
}
