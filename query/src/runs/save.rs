//! `POST /api/run/{run_id}/save` and `/unsave`.

use api::{ErrorResponse, errors};
use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::user_event::{Answer, Reported, UserEvent, UserEventState};
use crate::access::Caller;
use crate::params::{AppParams, JsonBody, Pairs, RunPath};

/// Identity and time of the event.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveBody {
    /// Identity of the event, required to be sent with `timestamp`: repeating the request changes nothing.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    event_id: Option<String>,
    /// ISO 8601; default now.
    #[serde(default)]
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

/// Save a run
///
/// Reports a `saved` event: retention does not drop the run and its descendants, and the dataset contains the run.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/save",
    operation_id = "save_run",
    tag = "runs",
    request_body(content = Option<SaveBody>, description = "Optional"),
    params(RunPath, AppParams),
    responses(
        (status = 202, description = "The durable event", body = Reported),
        errors::UserEvent,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn save(
    State(state): State<UserEventState>,
    caller: Caller,
    run: RunPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<SaveBody>>,
) -> Result<Answer, ErrorResponse> {
    let params = AppParams::read(&pairs)?;
    let event = UserEvent::save("saved", body);
    event.report(&state, &caller, run.run_id, params).await
}

/// Unsave a run
///
/// Reports an `unsaved` event: retention applies to the run again, unless an ancestor or descendant is saved.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/unsave",
    operation_id = "unsave_run",
    tag = "runs",
    request_body(content = Option<SaveBody>, description = "Optional"),
    params(RunPath, AppParams),
    responses(
        (status = 202, description = "The durable event", body = Reported),
        errors::UserEvent,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn unsave(
    State(state): State<UserEventState>,
    caller: Caller,
    run: RunPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<SaveBody>>,
) -> Result<Answer, ErrorResponse> {
    let params = AppParams::read(&pairs)?;
    let event = UserEvent::save("unsaved", body);
    event.report(&state, &caller, run.run_id, params).await
}

impl UserEvent {
    fn save(name: &'static str, body: Option<SaveBody>) -> Self {
        let SaveBody {
            event_id,
            timestamp,
        } = body.unwrap_or_default();
        Self {
            name,
            may_be_message: false,
            fields: json!({}),
            event_id,
            timestamp,
        }
    }
}
