//! `PATCH /v1/runs/{run_id}/score`: reports a score as a feedback event.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::event::{Rating, thumb_of_score};
use schemas::ids::{AppId, ProjectId};
use schemas::limits::NAME_BYTES;
use schemas::timestamp::to_text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Subject, Subjects, subjects};
use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{JsonBody, Pairs, ProjectParams, RunPath};
use crate::runs::user_event::UserEventState;
use crate::views::run_detail;

/// A score.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"label": "accuracy", "value": 1, "comment": "as in the book"}))]
pub(crate) struct ScoreBody {
    /// The rated property.
    #[schema(min_length = 1, max_length = 512)]
    label: String,
    /// The score: a number, a string or a boolean.
    #[schema(value_type = Score)]
    value: Value,
    #[serde(default)]
    comment: Option<String>,
}

/// A number, a string or a boolean.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "documents a value that is kept as it was written")]
pub(crate) enum Score {
    /// Good or bad.
    Boolean(bool),
    /// On an unknown scale.
    Number(f64),
    Text(String),
}

/// The feedback of a score. It is durable; the run has it after processing, within about a second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Scored {
    /// `null` if the value has no rating and the feedback is only a comment.
    #[schema(value_type = Option<String>, pattern = "^(positive|negative)$")]
    rating: Option<Rating>,
    /// Label, value and comment.
    #[schema(example = "accuracy = 1: as in the book")]
    comment: String,
    /// Id of the run; for an unknown run, both ids under which a lunary client may report it.
    run_ids: Vec<String>,
}

/// Score a run (lunary)
///
/// Reports feedback on the run or message, with label and value in the comment. `true`, 1 and words such as `good` are a
/// positive rating; `false`, 0, -1 and words such as `bad` a negative one. Other numbers have an unknown scale and give
/// no rating. Feedback on an unknown run waits for the run.
#[utoipa::path(
    patch,
    path = "/v1/runs/{run_id}/score",
    operation_id = "score_run",
    tag = "older clients",
    request_body = ScoreBody,
    params(RunPath, ProjectParams),
    responses(
        (status = 200, description = "The durable feedback", body = Scored),
        errors::AnyOf<(errors::Common, errors::Shared, errors::RequestBody, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn score(
    State(UserEventState { store, reporter }): State<UserEventState>,
    caller: Caller,
    RunPath { run_id }: RunPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<ScoreBody>,
) -> Result<Json<Scored>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.ratable(project_id.as_deref())?;
    if !(1..=NAME_BYTES).contains(&body.label.len()) {
        let message = format!(
            "`label` must have 1 to {NAME_BYTES} bytes, got {}",
            body.label.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidValue, message).into());
    }
    if !(body.value.is_boolean() || body.value.is_number() || body.value.is_string()) {
        let message = "`value` must be a number, a string or a boolean";
        return Err(ApiError::new(ErrorCode::InvalidValue, message).into());
    }
    let comment = comment(&body);
    let subjects = match subjects(&store, &caller, &projects, run_id).await? {
        Subjects::Stored(subject) => vec![subject],
        Subjects::Possible(subjects) => subjects.into(),
    };
    let reporter = reporter.required()?;
    let (mut rating, mut run_ids) = (None, Vec::new());
    for subject in subjects {
        let event = event(&body, &comment, &subject);
        // The rating that the processor will read.
        rating = run_detail::read(event.as_bytes())
            .and_then(|event| event.feedback)
            .and_then(|feedback| feedback.rating);
        let (project, app) = (ProjectId::new(subject.project), AppId::new(subject.app));
        reporter.report(&project, &app, event).await?;
        run_ids.push(subject.run_id);
    }
    Ok(Json(Scored {
        rating,
        comment,
        run_ids,
    }))
}

/// A feedback event in the dialect of these clients.
fn event(body: &ScoreBody, comment: &str, subject: &Subject) -> String {
    json!({
        "event": "feedback",
        "runId": subject.run_id,
        "timestamp": to_text(now_ms()),
        "event_id": format!("{:032x}", rand::random::<u128>()),
        "feedback": {"thumb": thumb_of_score(&body.value), "comment": comment, "label": body.label, "value": body.value},
    })
    .to_string()
}

fn comment(body: &ScoreBody) -> String {
    let value = match &body.value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let comment = body
        .comment
        .as_deref()
        .filter(|comment| !comment.is_empty());
    let rest = comment.map_or(String::new(), |comment| format!(": {comment}"));
    format!("{} = {value}{rest}", body.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(value: &str, text: Option<&str>) -> (Option<Rating>, String) {
        let body = ScoreBody {
            label: "tone".to_owned(),
            value: serde_json::from_str(value).unwrap(),
            comment: text.map(str::to_owned),
        };
        let subject = Subject {
            run_id: "r".to_owned(),
            project: "p".to_owned(),
            app: "a".to_owned(),
        };
        let event = event(&body, &comment(&body), &subject);
        let feedback = run_detail::read(event.as_bytes())
            .unwrap()
            .feedback
            .unwrap();
        (feedback.rating, feedback.comment.unwrap().into_owned())
    }

    #[test]
    fn a_score_is_always_a_comment_and_a_rating_if_its_value_has_one() {
        let (good, bad) = (Some(Rating::Positive), Some(Rating::Negative));
        for (value, rating, comment) in [
            ("true", good, "tone = true"),
            ("1", good, "tone = 1"),
            ("\"great\"", good, "tone = great"),
            ("false", bad, "tone = false"),
            ("0", bad, "tone = 0"),
            ("-1.0", bad, "tone = -1.0"),
            ("1e-300", None, "tone = 1e-300"),
            ("\"bad\"", bad, "tone = bad"),
            ("0.2", None, "tone = 0.2"),
            ("3", None, "tone = 3"),
            ("\"3\"", None, "tone = 3"),
            ("\"formal\"", None, "tone = formal"),
        ] {
            assert_eq!(
                feedback(value, None),
                (rating, comment.to_owned()),
                "{value}"
            );
        }
        let commented = feedback("1", Some("as asked"));
        assert_eq!(commented, (good, "tone = 1: as asked".to_owned()));
    }
}
