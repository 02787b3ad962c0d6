//! `PATCH /v1/runs/{run_id}/score`: a score becomes feedback, through the same log as that of clients.

use axum::Json;
use axum::extract::State;
use schemas::event::Rating;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::limits::NAME_BYTES;
use schemas::timestamp::to_text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Subject, subjects};
use crate::access::Caller;
use crate::detail;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::{QueryState, now_ms};

/// A score.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"label": "accuracy", "value": 1, "comment": "as in the book"}))]
pub(crate) struct ScoreBody {
    /// What was looked at.
    #[schema(min_length = 1, max_length = 512)]
    label: String,
    /// What it was found to be: a number, a text or a truth.
    #[schema(value_type = Score)]
    value: Value,
    /// In words.
    #[serde(default)]
    comment: Option<String>,
}

/// A number, a text or a truth.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "documents a value that is kept as it was written")]
pub(crate) enum Score {
    /// Good or not.
    Truth(bool),
    /// On a scale that is not told.
    Number(f64),
    /// A word.
    Text(String),
}

/// The feedback that a score became. Durable; the run shows it once it was processed, a moment later.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Scored {
    /// `positive` or `negative` where the value says so; `null` where the feedback is words alone.
    #[schema(value_type = Option<String>, pattern = "^(positive|negative)$")]
    rating: Option<Rating>,
    /// Label, value and comment.
    #[schema(example = "accuracy = 1: as in the book")]
    comment: String,
    /// The run; while it is not known, every id under which a lunary client may report it.
    run_ids: Vec<String>,
}

/// Score a run, for lunary
///
/// The score is kept as feedback on the run or message, its label and value in the comment. `true`, 1 and words of
/// praise count as positive; `false`, 0, -1 and words of blame as negative; any other number has a scale that is not
/// told, and rates nothing. A run that is not known yet gets it when it comes.
#[utoipa::path(
    patch,
    path = "/v1/runs/{run_id}/score",
    operation_id = "score_run",
    tag = "older clients",
    request_body = ScoreBody,
    params(
        ("run_id" = String, Path, description = "The run or message, as the client calls it"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "Durable, and soon to be seen", body = Scored),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The key lacks the scope `report`, the token the role `viewer`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such run or message in what the token reaches", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database or the event log is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn score(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
    JsonBody(body): JsonBody<ScoreBody>,
) -> Result<Json<Scored>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.judging(project_id)?;
    if !(1..=NAME_BYTES).contains(&body.label.len()) {
        let message = format!("`label` must be text of 1 to {NAME_BYTES} bytes");
        return Err(Fault::bad_request("invalid_value", message).into());
    }
    if !(body.value.is_boolean() || body.value.is_number() || body.value.is_string()) {
        let message = "`value` must be a number, a text, `true` or `false`";
        return Err(Fault::bad_request("invalid_value", message).into());
    }
    let comment = comment(&body);
    let (subjects, _) = subjects(&state, (&caller, &projects), run_id).await?;
    let reporter = state.reporter()?;
    let (mut rating, mut run_ids) = (None, Vec::new());
    for subject in subjects {
        let event = event(&body, &comment, &subject);
        // What will be read of it, by whoever reads events.
        rating = detail::read(event.as_bytes())
            .and_then(|event| event.judgement)
            .and_then(|judgement| judgement.rating);
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

/// Feedback in the dialect of these clients, which may be words alone.
fn event(body: &ScoreBody, comment: &str, subject: &Subject) -> String {
    json!({
        "event": "feedback",
        "runId": subject.run_id,
        "timestamp": to_text(now_ms()),
        "event_id": format!("{:032x}", rand::random::<u128>()),
        "feedback": {"thumb": thumb(&body.value), "comment": comment, "label": body.label, "value": body.value},
    })
    .to_string()
}

/// What says by itself whether it is good.
fn thumb(value: &Value) -> Value {
    match value {
        Value::Bool(true) => "up".into(),
        Value::Bool(false) => "down".into(),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => "up".into(),
            Some(0.0 | -1.0) => "down".into(),
            _ => Value::Null,
        },
        // A number in a text has no scale either.
        Value::String(text) if text.trim().parse::<f64>().is_err() => value.clone(),
        _ => Value::Null,
    }
}

fn comment(body: &ScoreBody) -> String {
    let value = match &body.value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let words = body.comment.as_deref().filter(|words| !words.is_empty());
    let rest = words.map_or(String::new(), |words| format!(": {words}"));
    format!("{} = {value}{rest}", body.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(value: &str, words: Option<&str>) -> (Option<Rating>, String) {
        let body = ScoreBody {
            label: "tone".to_owned(),
            value: serde_json::from_str(value).unwrap(),
            comment: words.map(str::to_owned),
        };
        let subject = Subject {
            run_id: "r".to_owned(),
            project: "p".to_owned(),
            app: "a".to_owned(),
        };
        let event = event(&body, &comment(&body), &subject);
        let judgement = detail::read(event.as_bytes()).unwrap().judgement.unwrap();
        (judgement.rating, judgement.comment.unwrap().into_owned())
    }

    #[test]
    fn a_score_rates_where_the_value_says_so_and_is_kept_in_words_always() {
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
            assert_eq!(judged(value, None), (rating, comment.to_owned()), "{value}");
        }
        let told = judged("1", Some("as asked"));
        assert_eq!(told, (good, "tone = 1: as asked".to_owned()));
    }
}
