//! `POST /api/report`, and the same under lunary's path: from a request to an answer.

use std::time::Instant;

use api::request_body::MediaType;
use api::{ErrorResponse, errors};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemas::api_error::{ApiError, ErrorCode};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::body::{self, Bounds, Received};
use crate::intake::{self, Events, Format};
use crate::outcome::Report;
use crate::state::IngestState;

/// A batch of events.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"events": [{
    "name": "agent_start", "app_id": "support", "run_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2", "parent_run_id": null,
    "timestamp": "2026-11-20T10:00:00.000Z", "type": "agent", "metadata": {"user_email": "ann@example.com", "agent": "triage"},
    "input": {"question": "Where is my order?"}, "output": null
}]}))]
pub struct ReportBody {
    /// Each element is an event (or a list of them, which is flattened) and is judged by itself: `name`, `run_id` and
    /// `timestamp` are required, of a `chat` event only `name` and `timestamp` with its `role` and `content`; `app_id`, `parent_run_id`, `type`, `metadata`, `input`, `output`, `model`,
    /// `prompt_tokens`, `completion_tokens`, `total_tokens`, `thread_id`, `role`, `content`, `rating`, `comment`,
    /// `event_id`, `status`, `error`, `duration_ms`, `tags`, `user_email`, `agent`, `cached_tokens`,
    /// `reasoning_tokens` and `cost` are known; other fields are kept. The dialect of the llmonitor and lunary
    /// clients is accepted too.
    pub events: Vec<serde_json::Value>,
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
        errors::EventBatch,
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
        errors::EventBatch,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn runs(State(state): State<IngestState>, request: Request) -> Response {
    answer(&state, request).await
}

/// `{"events": [...]}`.
struct ReportFormat;

impl Format for ReportFormat {
    type Content = Events;

    async fn receive(
        &self,
        headers: &HeaderMap,
        body: &mut Body,
        bounds: Bounds,
    ) -> Result<(Received, Events), ApiError> {
        let is_text = MediaType::JsonOrNone.check(headers).is_err();
        if is_text {
            MediaType::JsonTextOrNone.check(headers)?;
        }
        let received = body::read(body, body::encoding(headers)?, bounds).await?;
        Ok((received, Events { is_text }))
    }
}

async fn answer(state: &IngestState, request: Request) -> Response {
    let started = Instant::now();
    let metrics = &state.0.metrics;
    let (head, mut body) = request.into_parts();
    let response = match intake::accept(&state.0, &head, &mut body, &ReportFormat).await {
        Ok(taken) => Json(taken.report).into_response(),
        Err(fault) => {
            // After 408 nothing more is read.
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, state.0.config.body_bytes).await;
            }
            ErrorResponse(fault).into_response()
        }
    };
    metrics.answered(response.status(), started.elapsed());
    response
}

/// 405 for any other method.
pub(crate) async fn method_not_allowed() -> Response {
    ErrorResponse(ApiError::new(
        ErrorCode::MethodNotAllowed,
        "events are reported with POST",
    ))
    .into_response()
}
