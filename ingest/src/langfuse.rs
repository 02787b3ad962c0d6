//! What Langfuse's SDKs send and ask for besides spans: scores, the batches of their older versions, and the look-ups by
//! which they check a key.
//!
//! A body is translated to `{"events": [...]}` and then treated like a report: same keys, bounds, rates, checks and log.
//! Each item of a batch stands alone. What Spindle does not keep of Langfuse (prompts, datasets, annotation queues) gets
//! a 404 that says so.
//!
//! Start reading at `batch.rs`, then `observation.rs` and `score.rs`.

pub(crate) mod answer;
mod batch;
mod observation;
mod score;

use std::sync::Arc;
use std::time::Instant;

use api::{AuthHeader, ErrorResponse, errors};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use schemas::api_error::{ApiError, ErrorCode};

use crate::auth;
use crate::body;
use crate::intake;
use crate::state::IngestState;

use answer::{Health, KeyProject, KeyProjects};
use batch::{BatchFormat, Kind};

/// Every other path under which Langfuse's SDKs ask for something.
pub(crate) const OTHERS: &str = "/api/public/{*path}";

/// Send a batch with Langfuse's older SDKs
///
/// Traces, spans, generations, events and scores, as versions 2 of Langfuse's SDKs send them and as later ones send
/// scores. A trace becomes a run with its id, above the observations that name no parent; an observation becomes a run
/// with its id; scores become feedback. The key pair is sent in HTTP Basic authentication: the secret key is an API key
/// with the scope `report`, the public key is anything. Each item stands alone, and the answer lists all of them.
#[utoipa::path(
    post,
    path = "/api/public/ingestion",
    operation_id = "ingest_langfuse_batch",
    tag = "events",
    request_body(
        content = answer::IngestionBody,
        description = "May be compressed with gzip, deflate, br or zstd; bounds as for `/api/report`."
    ),
    responses(
        (status = 207, description = "The items among `successes` are durable", body = answer::Ingested),
        errors::EventBatch,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn ingestion(State(state): State<IngestState>, request: Request) -> Response {
    take(&state, request, Kind::Ingestion).await
}

/// Score a trace or an observation with Langfuse's SDKs
///
/// A score becomes feedback on the run with the id of the observation, else on the root run of the trace. 0 and 1, and
/// words such as `thumbs_up` or `bad`, are a rating; any other value is kept as a comment. The body is one score or a
/// list of them.
#[utoipa::path(
    post,
    path = "/api/public/scores",
    operation_id = "create_langfuse_scores",
    tag = "events",
    request_body(
        content = answer::ScoresBody,
        description = "May be compressed with gzip, deflate, br or zstd; bounds as for `/api/report`."
    ),
    responses(
        (status = 200, description = "The score is durable", body = answer::Created),
        (status = 202, description = "All scores of the list are durable", body = answer::Accepted),
        (status = 207, description = "Scores of the list were rejected", body = answer::PartlyAccepted),
        errors::EventBatch,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn scores(State(state): State<IngestState>, request: Request) -> Response {
    take(&state, request, Kind::Scores).await
}

async fn take(state: &IngestState, request: Request, kind: Kind) -> Response {
    let started = Instant::now();
    let parts = &state.0;
    let (head, mut body) = request.into_parts();
    let format = BatchFormat::new(kind, parts.config.client_cost);
    let response = match intake::accept(parts, &head, &mut body, &format).await {
        Ok(taken) => answer::taken(kind, format.items(), &taken),
        Err(fault) => {
            // After 408 nothing more is read.
            if fault.status != 408 {
                body::discard(&mut body, &head.headers, parts.config.body_bytes).await;
            }
            ErrorResponse(fault).into_response()
        }
    };
    parts.metrics.answered(response.status(), started.elapsed());
    response
}

/// Check a key with Langfuse's SDKs
///
/// The project of the key, as `auth_check` of Langfuse's SDKs asks for it. The key may report.
#[utoipa::path(
    get,
    path = "/api/public/projects",
    operation_id = "list_langfuse_projects",
    tag = "events",
    responses(
        (status = 200, description = "The project of the key", body = KeyProjects),
        errors::Checked,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn projects(State(state): State<IngestState>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let reporter = async {
        let header = AuthHeader::read(&head.headers).ok_or_else(auth::missing)?;
        let client = auth::client(&head);
        let auth = Arc::clone(&state.0.auth);
        let (credential, _) = auth::authenticate(&*auth, header.secrets(), client).await?;
        intake::without_parameters(head.uri.query())?;
        auth::reporter(&credential)
    };
    match reporter.await {
        Ok(reporter) => Json(KeyProjects {
            data: vec![KeyProject::of(&reporter.project)],
        })
        .into_response(),
        Err(fault) => ErrorResponse(fault).into_response(),
    }
}

/// Check the server with Langfuse's SDKs
///
/// Whether the process answers. `/health/ready` says whether it can take events.
#[utoipa::path(
    get,
    path = "/api/public/health",
    operation_id = "langfuse_health",
    tag = "events",
    responses((status = 200, description = "The process answers", body = Health)),
)]
pub(crate) async fn health() -> Json<Health> {
    Json(Health::default())
}

/// 405 for another method of a path that Spindle serves for Langfuse's SDKs: what they read there is not kept.
pub(crate) async fn other_method(uri: Uri) -> Response {
    let message = not_kept_message(uri.path());
    ErrorResponse(ApiError::new(ErrorCode::MethodNotAllowed, message)).into_response()
}

/// 404 for what Spindle does not keep of Langfuse. Its SDKs show the message, or use the fallback of a prompt.
pub(crate) async fn not_kept(uri: Uri) -> Response {
    ErrorResponse(ApiError::not_found(not_kept_message(uri.path()))).into_response()
}

fn not_kept_message(path: &str) -> String {
    let what = path
        .strip_prefix("/api/public/")
        .map(|rest| rest.strip_prefix("v2/").unwrap_or(rest))
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default();
    let way_out = match what {
        "prompts" => "keep prompts in the code, or pass `fallback` to get_prompt",
        "datasets" | "dataset-items" | "dataset-run-items" => {
            "a dataset of Spindle is the saved runs: GET /api/dataset/"
        }
        "traces" | "observations" | "sessions" | "scores" => "read runs with GET /api/run/",
        _ => "see docs/guide/otlp.md for what is taken of Langfuse",
    };
    format!(
        "{path} is not served: Spindle takes spans, batches and scores of Langfuse's SDKs, and keeps no {what} of theirs; {way_out}"
    )
}

/// 400 for the only item of a request.
fn invalid(message: String) -> Response {
    ErrorResponse(ApiError::new(ErrorCode::InvalidValue, message)).into_response()
}
