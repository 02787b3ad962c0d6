//! `POST /api/run/{run_id}/feedback`: a rating of a run, or of a message of a thread.

use api::{ErrorResponse, errors};
use axum::extract::State;
use schemas::event::Rating;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::user_event::{Answer, Reported, UserEvent, UserEventState, invalid};
use crate::access::Caller;
use crate::params::{AppParams, JsonBody, Pairs, RunPath};

/// Feedback on a run or message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rating": "positive", "comment": "exactly what I asked for"}))]
pub(crate) struct FeedbackBody {
    #[schema(value_type = String, pattern = "^(positive|negative)$")]
    rating: serde_json::Value,
    #[serde(default)]
    comment: Option<String>,
    /// Identity of the event, required to be sent with `timestamp`: repeating the request changes nothing.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    event_id: Option<String>,
    /// ISO 8601; default now.
    #[serde(default)]
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

/// Rate a run
///
/// Reports a `feedback` event on a run or a message of a thread. All feedback is stored; the newest applies. The event is
/// durable when the answer is sent; the run has it within about a second.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/feedback",
    operation_id = "give_feedback",
    tag = "runs",
    request_body = FeedbackBody,
    params(RunPath, AppParams),
    responses(
        (status = 202, description = "The durable event", body = Reported),
        errors::UserEvent,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn feedback(
    State(state): State<UserEventState>,
    caller: Caller,
    run: RunPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<FeedbackBody>,
) -> Result<Answer, ErrorResponse> {
    let rating = [Rating::Positive, Rating::Negative]
        .into_iter()
        .find(|rating| body.rating == rating.as_str());
    let Some(rating) = rating else {
        let given = body.rating.to_string();
        return Err(invalid("rating", &given, "`positive` or `negative`").into());
    };
    let event = UserEvent {
        name: "feedback",
        may_be_message: true,
        fields: json!({"rating": rating.as_str(), "comment": body.comment}),
        event_id: body.event_id,
        timestamp: body.timestamp,
    };
    let params = AppParams::read(&pairs)?;
    event.report(&state, &caller, run.run_id, params).await
}
