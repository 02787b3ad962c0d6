//! `POST /api/report`, and the same under lunary's path: from a request to an answer.

use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body;
use crate::error::Refusal;
use crate::intake::{self, Format};
use crate::plan::Rejection;
use crate::state::IngestState;

/// What became of a batch. Given only when all accepted events are durable in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Report {
    /// Events that were kept.
    #[schema(example = 98)]
    pub accepted: usize,
    /// Events that were not.
    #[schema(example = 2)]
    pub rejected: usize,
    /// Why, for the first 100 of those.
    pub errors: Vec<Rejection>,
}

/// A batch of events.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"events": [{
    "name": "agent_start", "app_id": "support", "run_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2", "parent_run_id": null,
    "timestamp": "2026-11-20T10:00:00.000Z", "type": "agent", "metadata": {"user_email": "ann@example.com", "agent": "triage"},
    "input": {"question": "Where is my order?"}, "output": null
}]}))]
pub struct ReportBody {
    /// Each element is an event (or a list of them, which is flattened) and is judged by itself: `name`, `run_id` and
    /// `timestamp` are required; `app_id`, `parent_run_id`, `type`, `metadata`, `input`, `output`, `model`,
    /// `prompt_tokens`, `completion_tokens`, `total_tokens`, `thread_id`, `role`, `content`, `rating`, `comment`,
    /// `event_id`, `status`, `error`, `duration_ms`, `tags`, `user_email`, `agent`, `cached_tokens`,
    /// `reasoning_tokens` and `cost` are known; other fields are kept. The dialect of the llmonitor and lunary
    /// clients is accepted too.
    pub events: Vec<serde_json::Value>,
}

/// The shape of every error.
#[derive(Serialize, ToSchema)]
#[schema(as = Fault)]
#[allow(
    dead_code,
    reason = "documents schemas::fault::Fault, which knows nothing of OpenAPI"
)]
pub(crate) struct FaultBody {
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

/// Report events
///
/// Each event stands alone: a bad one is rejected with its index and reason, the good ones are kept.
/// The answer is given once all of them are durable. Sending a batch again changes nothing.
#[utoipa::path(
    post,
    path = "/api/report",
    operation_id = "report_events",
    tag = "events",
    request_body(
        content = ReportBody,
        description = "May be compressed with gzip, deflate, br or zstd; at most 10 MiB decompressed unless configured otherwise, one event at most 1 MiB."
    ),
    responses(
        (status = 200, description = "The accepted events are durable; the others are listed", body = Report),
        (status = 400, description = "Not JSON, not `{\"events\": [...]}`, or a query parameter", body = FaultBody),
        (status = 401, description = "No API key, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not report", body = FaultBody),
        (status = 408, description = "The body did not arrive in time", body = FaultBody),
        (status = 413, description = "The body is over the limit, decompressed", body = FaultBody),
        (status = 415, description = "Not JSON in UTF-8, or an unknown encoding", body = FaultBody),
        (status = 429, description = "The key is over its rate", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The event log is full or away, or too much is being received at once", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn report(State(state): State<IngestState>, request: Request) -> Response {
    answer(&state, request).await
}

/// Report events, for lunary
///
/// `/api/report` under the path to which later lunary clients post: the same events, checks and answer. Where an event
/// names an API key as its `appId`, as these clients do, that key says whose the event is, and is not kept.
#[utoipa::path(
    post,
    path = "/v1/runs/ingest",
    operation_id = "ingest_runs",
    tag = "events",
    request_body(
        content = ReportBody,
        description = "As of `/api/report`: at most 10 MiB decompressed unless configured otherwise, one event at most 1 MiB."
    ),
    responses(
        (status = 200, description = "The accepted events are durable; the others are listed", body = Report),
        (status = 400, description = "Not JSON, not `{\"events\": [...]}`, or a query parameter", body = FaultBody),
        (status = 401, description = "No API key, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not report", body = FaultBody),
        (status = 408, description = "The body did not arrive in time", body = FaultBody),
        (status = 413, description = "The body is over the limit, decompressed", body = FaultBody),
        (status = 415, description = "Not JSON in UTF-8, or an unknown encoding", body = FaultBody),
        (status = 429, description = "The key is over its rate", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The event log is full or away, or too much is being received at once", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn runs(State(state): State<IngestState>, request: Request) -> Response {
    answer(&state, request).await
}

async fn answer(state: &IngestState, request: Request) -> Response {
    let started = Instant::now();
    let metrics = &state.0.metrics;
    let (head, mut body) = request.into_parts();
    let response = match intake::accept(&state.0, &head, &mut body, Format::Report).await {
        Ok(taken) => Json(taken.report).into_response(),
        Err(fault) => {
            // After 408 nothing more is waited for.
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, state.0.config.body_bytes).await;
            }
            Refusal(fault).into_response()
        }
    };
    metrics.answered(response.status(), started.elapsed());
    response
}

/// The answer to any other method.
pub(crate) async fn method_not_allowed() -> Response {
    Refusal(Fault::new(
        405,
        "method_not_allowed",
        "events are reported with POST",
    ))
    .into_response()
}
