//! `GET /v1/runs/{run_id}/feedback`: the newest feedback, in the words of lunary's clients.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use store::feedback_read::Judged;
use utoipa::ToSchema;

use super::{nothing_there, subjects};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathId};
use crate::state::QueryState;

/// Feedback in the words of lunary's clients. Without any, there is nothing in it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LunaryFeedback {
    /// `up` or `down`: the newest rating.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^(up|down)$")]
    thumb: Option<&'static str>,
    /// The same, under the name that older ones give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^(up|down)$")]
    thumbs: Option<&'static str>,
    /// The newest words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    comment: Option<String>,
}

/// Read the feedback of a run, for lunary
///
/// The newest rating and the newest words on a run or message.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/feedback",
    operation_id = "get_run_feedback",
    tag = "older clients",
    params(
        ("run_id" = String, Path, description = "The run or message, as the client calls it"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The feedback, or an empty object", body = LunaryFeedback),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There is no such run or message, or none that the credential reaches", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn newest_feedback(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
) -> Result<Json<LunaryFeedback>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.readable(project_id)?;
    let (subjects, are_known) = subjects(&state, (&caller, &projects), run_id).await?;
    // Feedback may be there before its run is.
    for subject in &subjects {
        let at = (subject.project.as_str(), subject.app.as_str());
        let history = state.store().feedback_history(at, &subject.run_id).await?;
        if !history.is_empty() {
            return Ok(Json(shown(history)));
        }
    }
    match are_known {
        true => Ok(Json(LunaryFeedback::default())),
        false => Err(nothing_there().into()),
    }
}

/// Of a history, oldest first: words alone do not take a rating back.
fn shown(history: Vec<Judged>) -> LunaryFeedback {
    let mut newest_first = history.iter().rev();
    let thumb = newest_first.find_map(|judged| match judged.rating.as_str() {
        "positive" => Some("up"),
        "negative" => Some("down"),
        _ => None,
    });
    let comments = history.into_iter().rev().map(|judged| judged.comment);
    LunaryFeedback {
        thumb,
        thumbs: thumb,
        comment: comments.into_iter().find(|comment| !comment.is_empty()),
    }
}
