//! `POST /v1/traces` and `POST /v1/logs`: what OpenTelemetry exports, as events.
//!
//! A body is translated to `{"events": [...]}` and goes on exactly as if it had been reported so: same keys, bounds,
//! rates, checks and log. What a span means is read by one module for each convention; nothing here knows a run.
//!
//! Start reading at `translation.rs`, then `span.rs`.

mod answer;
mod attributes;
mod context;
mod draft;
mod facts;
mod flattened;
mod gen_ai;
pub(crate) mod grpc;
mod log_record;
mod message_event;
mod messages;
mod metadata;
mod openinference;
mod source;
mod span;
mod traceloop;
mod translation;
mod usage;
mod value;
mod wire;

use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;

pub(crate) use translation::Signal;
pub(crate) use wire::{Room, Wire};

use crate::body;
use crate::intake::{self, Format};
use crate::state::IngestState;

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
        (status = 400, description = "Not OTLP, or a query parameter", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 401, description = "No API key, or one that is not known", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 403, description = "The credential may not report", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 413, description = "The body is over the limit, decompressed or as events", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 415, description = "Neither protobuf nor JSON, or an unknown encoding", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 429, description = "The key is over its rate", content((answer::StatusBody = "application/json"), ("application/x-protobuf")),
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 503, description = "The event log is full or away, too much is being received at once, or the body did not arrive in time", content((answer::StatusBody = "application/json"), ("application/x-protobuf")),
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn traces(State(state): State<IngestState>, request: Request) -> Response {
    take(&state, request, Signal::Traces).await
}

/// Export log records with OpenTelemetry
///
/// OTLP over HTTP, for instrumentations that put the messages of a model call into log records beside its span. Only
/// GenAI events that name a span are taken; other records are counted in `partialSuccess`.
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
        (status = 400, description = "Not OTLP, or a query parameter", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 401, description = "No API key, or one that is not known", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 403, description = "The credential may not report", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 413, description = "The body is over the limit, decompressed or as events", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 415, description = "Neither protobuf nor JSON, or an unknown encoding", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 429, description = "The key is over its rate", content((answer::StatusBody = "application/json"), ("application/x-protobuf")),
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", content((answer::StatusBody = "application/json"), ("application/x-protobuf"))),
        (status = 503, description = "The event log is full or away, too much is being received at once, or the body did not arrive in time", content((answer::StatusBody = "application/json"), ("application/x-protobuf")),
            headers(("Retry-After" = u32, description = "Seconds"))),
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
    // Who sends neither form is told so in the one that people read.
    let wire = Wire::of(&head.headers).unwrap_or(Wire::Json);
    let response = match intake::accept(parts, &head, &mut body, Format::Otlp(signal)).await {
        Ok(taken) => answer::taken(signal, wire, &taken),
        Err(fault) => {
            // After 408 nothing more is waited for.
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, parts.config.body_bytes).await;
            }
            answer::refused(wire, fault)
        }
    };
    parts.metrics.answered(response.status(), started.elapsed());
    response
}
