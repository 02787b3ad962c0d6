//! `POST /api/report`, and the same under lunary's path: from a request to an answer.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts as Head;
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use schemas::start::Start;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{self, Presented, Reporter};
use crate::body::{self, Bounds, Received};
use crate::error::Refusal;
use crate::named_keys::NamedKeys;
use crate::plan::{self, Apps, Plan, Rejection};
use crate::rate::Rates;
use crate::state::{IngestState, Parts};

/// Bodies up to this size are read on the thread that serves connections: about a millisecond of work. Larger ones
/// go to a thread of their own, which costs some 20 µs, so that they hold up nobody else.
const INLINE_BODY_BYTES: usize = 1 << 20;

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
    tag = "older clients",
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
    let response = match accept(&state.0, &head, &mut body).await {
        Ok(report) => Json(report).into_response(),
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

async fn accept(parts: &Arc<Parts>, head: &Head, body: &mut Body) -> Result<Report, Fault> {
    match auth::presented(&head.headers) {
        Presented::Secrets(secrets) => {
            let credential = auth::authenticate(&*parts.auth, &secrets).await?;
            let reporter = auth::reporter(&credential)?;
            let received = receive(parts, head, body, parts.config.body_bytes).await?;
            let keys = NamedKeys::look_up(&*parts.auth, &received.bytes, &reporter).await?;
            let apps = Apps::AnyOr(reporter.default_app.clone(), keys);
            let batch = Batch::read(received, apps).await?;
            batch
                .append(parts, reporter, parts.key_rates.as_ref())
                .await
        }
        Presented::Nothing if !parts.auth.keyless_possible() => Err(auth::missing()),
        Presented::Nothing => {
            let received = receive(parts, head, body, parts.config.keyless_body_bytes).await?;
            let batch = Batch::read(received, Apps::OnlyFirst).await?;
            let app = batch
                .plan
                .payloads
                .first()
                .map(|payload| payload.app.clone())
                .ok_or_else(auth::missing)?;
            let credential = parts
                .auth
                .keyless(app.as_str())
                .await
                .map_err(auth::unavailable)?;
            let reporter = auth::reporter(&*credential.ok_or_else(auth::missing)?)?;
            // The rate of what comes without a key is the app's own: nobody uses up that of the project's keys.
            let reporter = Reporter {
                key_id: format!("{}/{app}", reporter.project),
                ..reporter
            };
            batch
                .append(parts, reporter, parts.keyless_rates.as_ref())
                .await
        }
    }
}

async fn receive(
    parts: &Parts,
    head: &Head,
    body: &mut Body,
    limit: usize,
) -> Result<Received, Fault> {
    without_parameters(head.uri.query())?;
    let encoding = body::encoding(&head.headers)?;
    let bounds = Bounds {
        bytes: limit,
        timeout: parts.config.body_timeout,
        in_flight: Arc::clone(&parts.in_flight),
    };
    let received = body::read(body, encoding, bounds).await?;
    parts.metrics.body_bytes.inc_by(received.bytes.len() as u64);
    Ok(received)
}

/// There are no query parameters here, so each one is a misunderstanding.
fn without_parameters(query: Option<&str>) -> Result<(), Fault> {
    let names: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.split('=').next())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!("unknown query parameter: `{}`", names.join("`, `"));
    Err(Fault::bad_request("unknown_parameter", message)
        .with_details(serde_json::json!({"parameters": names})))
}

/// A body that was read, with the moment it was.
pub(crate) struct Batch {
    plan: Plan,
    now_ms: i64,
    /// Held until the events are in the log: so long the body is in memory.
    reservation: crate::in_flight::Reservation,
}

impl Batch {
    pub(crate) async fn read(received: Received, apps: Apps) -> Result<Self, Fault> {
        let Received { bytes, reservation } = received;
        let now_ms = chrono::Utc::now().timestamp_millis();
        let plan = plan_where_it_fits(bytes, apps, now_ms).await?;
        Ok(Self {
            plan,
            now_ms,
            reservation,
        })
    }

    /// The first record carries this start as well.
    pub(crate) fn carry(&mut self, start: Start) {
        if let Some(payload) = self.plan.payloads.first_mut() {
            payload.start = Some(Box::new(start));
        }
    }

    pub(crate) async fn append(
        self,
        parts: &Arc<Parts>,
        reporter: Reporter,
        rates: Option<&Rates>,
    ) -> Result<Report, Fault> {
        let Self {
            plan,
            now_ms,
            reservation,
        } = self;
        let Plan {
            payloads,
            accepted,
            rejections,
        } = plan;
        if let Some(rates) = rates {
            rates.take(&reporter.key_id, accepted + rejections.count)?;
        }
        let project = reporter.project.clone();
        let by_project: Vec<_> = payloads
            .iter()
            .map(|payload| {
                let project = payload.project.as_ref().unwrap_or(&project).clone();
                (project, u64::from(payload.events))
            })
            .collect();
        if !payloads.is_empty() {
            // A task of its own: a client that leaves now does not stop an append half-way, uncounted.
            let appender = Arc::clone(&parts.appender);
            let append = tokio::spawn(async move {
                let result = appender.append(&reporter.project, payloads, now_ms).await;
                drop(reservation);
                result
            });
            append.await.map_err(|error| broken_off(&error))??;
        }
        for (project, events) in by_project {
            parts.metrics.accepted.add(&project, events);
        }
        for (code, count) in &rejections.by_code {
            parts.metrics.rejected(code, *count);
        }
        Ok(Report {
            accepted,
            rejected: rejections.count,
            errors: rejections.reported,
        })
    }
}

async fn plan_where_it_fits(body: Bytes, apps: Apps, now_ms: i64) -> Result<Plan, Fault> {
    if body.len() <= INLINE_BODY_BYTES {
        return plan::plan(body, &apps, now_ms);
    }
    match tokio::task::spawn_blocking(move || plan::plan(body, &apps, now_ms)).await {
        Ok(plan) => plan,
        Err(error) => Err(broken_off(&error)),
    }
}

/// A task that panicked, or that was ended with the process.
fn broken_off(error: &tokio::task::JoinError) -> Fault {
    if error.is_panic() {
        tracing::error!("a report could not be worked on; this is a fault in the program");
        return Fault::internal();
    }
    Fault::unavailable("the server is going down; send the batch again", 1)
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
