//! `POST /v1/traces` and `POST /v1/logs`: what OpenTelemetry exports, as events.
//!
//! A body is translated to `{"events": [...]}` and then treated like a report: same keys, bounds, rates, checks and
//! log. Each convention has a module that interprets its attributes; nothing here knows a run.
//!
//! Start reading at `translation.rs`, then `span.rs`.

pub(crate) mod answer;
mod attributes;
mod coding_agent;
mod context;
pub(crate) mod draft;
mod export;
mod facts;
mod fingerprint;
mod flattened;
mod gemini_content;
mod gen_ai;
pub(crate) mod grpc;
mod log_record;
mod message_event;
pub(crate) mod messages;
pub(crate) mod metadata;
mod openinference;
mod response_id;
mod source;
mod span;
mod terms;
mod traceloop;
mod translation;
pub(crate) mod usage;
pub(crate) mod value;
mod vocabulary;
mod wire;

use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::body;
use crate::intake;
use crate::state::IngestState;

use export::HttpExport;
use translation::Signal;
use wire::Wire;

/// Export traces with OpenTelemetry
///
/// OTLP over HTTP. Each span becomes a run with the span's id, below the run of its parent. The conventions of
/// OpenTelemetry for GenAI, OpenInference and OpenLLMetry are understood under their current and former names; what
/// they do not cover is kept as metadata. A span that cannot be taken is counted in `partialSuccess` and the others
/// are kept. The answer is given once all of them are durable, in the encoding of the request. Sending a span again
/// changes nothing.
#[utoipa::path(
    post,
    path = "/v1/traces",
    operation_id = "export_traces",
    tag = "events",
    request_body(
        content((answer::TracesBody = "application/json"), ("application/x-protobuf")),
        description = "An ExportTraceServiceRequest. May be compressed with gzip, deflate, br or zstd; bounds as for `/api/report`."
    ),
    responses(
        (status = 200, description = "The accepted spans are durable", content((answer::TracesAnswer = "application/json"), ("application/x-protobuf"))),
        answer::Errors,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn traces(State(state): State<IngestState>, request: Request) -> Response {
    take(&state, request, Signal::Traces).await
}

/// Export spans with Langfuse's SDKs
///
/// The same as `/v1/traces`, where Langfuse's SDKs send their spans, with a key pair in HTTP Basic authentication: the
/// secret key is an API key with the scope `report`, the public key is anything.
#[utoipa::path(
    post,
    path = "/api/public/otel/v1/traces",
    operation_id = "export_langfuse_spans",
    tag = "events",
    request_body(
        content((answer::TracesBody = "application/json"), ("application/x-protobuf")),
        description = "An ExportTraceServiceRequest. May be compressed with gzip, deflate, br or zstd; bounds as for `/api/report`."
    ),
    responses(
        (status = 200, description = "The accepted spans are durable", content((answer::TracesAnswer = "application/json"), ("application/x-protobuf"))),
        answer::Errors,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn langfuse_traces(
    State(state): State<IngestState>,
    request: Request,
) -> Response {
    take(&state, request, Signal::Traces).await
}

/// Export log records with OpenTelemetry
///
/// OTLP over HTTP, for instrumentations that put the messages of a model call into log records beside its span. Only
/// GenAI events that name a span, and records of Claude Code, Codex and Gemini CLI, which are runs by themselves, are
/// taken; other records are counted in `partialSuccess`.
#[utoipa::path(
    post,
    path = "/v1/logs",
    operation_id = "export_logs",
    tag = "events",
    request_body(
        content((answer::LogsBody = "application/json"), ("application/x-protobuf")),
        description = "An ExportLogsServiceRequest. May be compressed with gzip, deflate, br or zstd; bounds as for `/api/report`."
    ),
    responses(
        (status = 200, description = "The accepted records are durable", content((answer::LogsAnswer = "application/json"), ("application/x-protobuf"))),
        answer::Errors,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn logs(State(state): State<IngestState>, request: Request) -> Response {
    take(&state, request, Signal::Logs).await
}

async fn take(state: &IngestState, request: Request, signal: Signal) -> Response {
    let started = Instant::now();
    let parts = &state.0;
    let (head, mut body) = request.into_parts();
    // A request in neither encoding gets its error as JSON.
    let wire = Wire::of(&head.headers).unwrap_or(Wire::Json);
    let response = match intake::accept(
        parts,
        &head,
        &mut body,
        &HttpExport(signal, parts.config.client_cost),
    )
    .await
    {
        Ok(taken) => answer::taken(signal, wire, &taken),
        Err(fault) => {
            // After 408 nothing more is read.
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, parts.config.body_bytes).await;
            }
            answer::refused(wire, fault)
        }
    };
    parts.metrics.answered(response.status(), started.elapsed());
    response
}
