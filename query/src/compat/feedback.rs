//! `GET /v1/runs/{run_id}/feedback`: the newest feedback in the shape of lunary's clients.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use store::Store;
use store::reads::feedback::FeedbackRecord;
use utoipa::ToSchema;

use super::{Subject, Subjects, not_found, subjects};
use crate::access::Caller;
use crate::params::{Pairs, ProjectParams, RunPath};

/// Feedback in the shape of lunary's clients; empty without feedback.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LunaryFeedback {
    /// The newest rating.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^(up|down)$")]
    thumb: Option<&'static str>,
    /// The same, under the name that older clients read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^(up|down)$")]
    thumbs: Option<&'static str>,
    /// The newest comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    comment: Option<String>,
}

/// Read the feedback of a run (lunary)
///
/// The newest rating and the newest comment of a run or message.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/feedback",
    operation_id = "get_run_feedback",
    tag = "older clients",
    params(RunPath, ProjectParams),
    responses(
        (status = 200, description = "The feedback, or an empty object", body = LunaryFeedback),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn newest_feedback(
    State(store): State<Store>,
    caller: Caller,
    RunPath { run_id }: RunPath,
    pairs: Pairs,
) -> Result<Json<LunaryFeedback>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.readable(project_id.as_deref())?;
    let history = async |subject: &Subject| {
        let at = (subject.project.as_str(), subject.app.as_str());
        store.feedback_history(at, &subject.run_id).await
    };
    let subjects = match subjects(&store, &caller, &projects, run_id).await? {
        Subjects::Stored(subject) => return Ok(Json(newest(history(&subject).await?))),
        Subjects::Possible(subjects) => subjects,
    };
    // Feedback may be stored before its run.
    for subject in &subjects {
        let history = history(subject).await?;
        if !history.is_empty() {
            return Ok(Json(newest(history)));
        }
    }
    Err(not_found().into())
}

/// The newest rating and comment of a history, oldest first. A comment without a rating does not remove the rating.
fn newest(history: Vec<FeedbackRecord>) -> LunaryFeedback {
    let mut newest_first = history.iter().rev();
    let thumb = newest_first.find_map(|feedback| match feedback.rating.as_str() {
        "positive" => Some("up"),
        "negative" => Some("down"),
        _ => None,
    });
    let comments = history.into_iter().rev().map(|feedback| feedback.comment);
    LunaryFeedback {
        thumb,
        thumbs: thumb,
        comment: comments.into_iter().find(|comment| !comment.is_empty()),
    }
}
