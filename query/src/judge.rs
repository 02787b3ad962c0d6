//! What people do with a run: judge it, save it, take that back. Each is the event a client would report, through the
//! same log; nothing is written beside it.

use axum::Json;
use axum::extract::State;
use schemas::event::Rating;
use schemas::fault::Fault;
use schemas::filter::instant_ms;
use schemas::ids::{AppId, ProjectId};
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use schemas::timestamp::to_text;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::{QueryState, now_ms};

/// A judgement on a run or a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rating": "positive", "comment": "exactly what I asked for"}))]
pub(crate) struct FeedbackBody {
    /// `positive` or `negative`.
    #[schema(value_type = String, pattern = "^(positive|negative)$")]
    rating: serde_json::Value,
    /// In words.
    #[serde(default)]
    comment: Option<String>,
    /// An identity of its own: the same request sent again changes nothing. Together with `timestamp`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    event_id: Option<String>,
    /// When it was given, ISO 8601; now unless given.
    #[serde(default)]
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

/// When and under what identity something was done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkBody {
    /// An identity of its own: the same request sent again changes nothing. Together with `timestamp`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    event_id: Option<String>,
    /// When it was done, ISO 8601; now unless given.
    #[serde(default)]
    #[schema(format = DateTime)]
    timestamp: Option<String>,
}

/// The event that was reported. Durable; the run shows it once it was processed, a moment later.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reported {
    /// Its name: `feedback`, `saved` or `unsaved`.
    event: &'static str,
    /// Its identity: give it with `timestamp` to send the same again.
    event_id: String,
    /// The run, or the message.
    run_id: String,
    /// The app.
    app_id: String,
    /// When it was done.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Instant,
}

/// Judge a run
///
/// Reports a `feedback` event on a run or on a message of a thread. All are kept; the newest counts. The answer means
/// that it is durable; the run shows it a moment later.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/feedback",
    operation_id = "give_feedback",
    tag = "runs",
    request_body = FeedbackBody,
    params(
        ("run_id" = String, Path, description = "The run, or the message"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 202, description = "Durable, and soon to be seen", body = Reported),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The key lacks the scope `report`, the token the role `viewer`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such run or message, or none that the credential reaches", body = FaultBody),
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
pub(crate) async fn feedback(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
    JsonBody(body): JsonBody<FeedbackBody>,
) -> Result<Answer, Refusal> {
    let state = state.on_behalf_of(&caller);
    let rating = [Rating::Positive, Rating::Negative]
        .into_iter()
        .find(|rating| body.rating == rating.as_str());
    let Some(rating) = rating else {
        let given = body.rating.to_string();
        return Err(invalid("rating", &given, "`positive` or `negative`").into());
    };
    let act = Act {
        event: "feedback",
        may_be_message: true,
        rest: json!({"rating": rating.as_str(), "comment": body.comment}),
        event_id: body.event_id,
        timestamp: body.timestamp,
    };
    act.report(&state, &caller, (run_id, &pairs)).await
}

/// Save a run
///
/// Reports a `saved` event: the run, with everything below it, is kept past retention and is part of the dataset.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/save",
    operation_id = "save_run",
    tag = "runs",
    request_body(content = Option<MarkBody>, description = "May be left out"),
    params(
        ("run_id" = String, Path, description = "The run"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 202, description = "Durable, and soon to be seen", body = Reported),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The key lacks the scope `report`, the token the role `viewer`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such run, or none that the credential reaches", body = FaultBody),
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
pub(crate) async fn save(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<MarkBody>>,
) -> Result<Answer, Refusal> {
    let state = state.on_behalf_of(&caller);
    let act = Act::mark("saved", body);
    act.report(&state, &caller, (run_id, &pairs)).await
}

/// Take a save back
///
/// Reports an `unsaved` event: retention applies to the run again, unless it belongs to another saved one.
#[utoipa::path(
    post,
    path = "/api/run/{run_id}/unsave",
    operation_id = "unsave_run",
    tag = "runs",
    request_body(content = Option<MarkBody>, description = "May be left out"),
    params(
        ("run_id" = String, Path, description = "The run"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 202, description = "Durable, and soon to be seen", body = Reported),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The key lacks the scope `report`, the token the role `viewer`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such run, or none that the credential reaches", body = FaultBody),
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
pub(crate) async fn unsave(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(run_id): PathId,
    pairs: Pairs,
    JsonBody(body): JsonBody<Option<MarkBody>>,
) -> Result<Answer, Refusal> {
    let state = state.on_behalf_of(&caller);
    let act = Act::mark("unsaved", body);
    act.report(&state, &caller, (run_id, &pairs)).await
}

type Answer = (axum::http::StatusCode, Json<Reported>);

/// What is to be reported.
struct Act {
    event: &'static str,
    /// Whether it may be about a message instead of a run.
    may_be_message: bool,
    rest: serde_json::Value,
    event_id: Option<String>,
    timestamp: Option<String>,
}

impl Act {
    fn mark(event: &'static str, body: Option<MarkBody>) -> Self {
        let MarkBody {
            event_id,
            timestamp,
        } = body.unwrap_or_default();
        Self {
            event,
            may_be_message: false,
            rest: json!({}),
            event_id,
            timestamp,
        }
    }

    async fn report(
        self,
        state: &QueryState,
        caller: &Caller,
        (run_id, pairs): (String, &Pairs),
    ) -> Result<Answer, Refusal> {
        let [app_id, project_id] = pairs.only(["app_id", "project_id"])?;
        let projects = caller.judging(project_id)?;
        let (event_id, timestamp_ms) = self.identity()?;
        let store = state.store();
        let mut found = store
            .runs_by_id(&projects, app_id, &run_id)
            .await?
            .into_iter();
        let subject = match found.next() {
            Some(run) => Some((run.project_id, run.app_id)),
            None if self.may_be_message => store.app_of_message(&projects, app_id, &run_id).await?,
            None => None,
        };
        let Some((project, app)) = subject else {
            let message = "there is no such run, or it is not yours to see; a run that was just reported is there a moment later";
            return Err(Fault::not_found(message).into());
        };
        let mut event = self.rest;
        // The app is not part of the event: it comes from the run that was found.
        event["name"] = self.event.into();
        event["run_id"] = run_id.as_str().into();
        event["timestamp"] = to_text(timestamp_ms).into();
        event["event_id"] = event_id.as_str().into();
        let project = ProjectId::new(project);
        let reporter = state.reporter()?;
        reporter
            .report(&project, &AppId::new(app.as_str()), event.to_string())
            .await?;
        let reported = Reported {
            event: self.event,
            event_id,
            run_id,
            app_id: app,
            timestamp: Instant(timestamp_ms),
        };
        Ok((axum::http::StatusCode::ACCEPTED, Json(reported)))
    }

    /// Identity and time: given both, or one of our own and now.
    fn identity(&self) -> Result<(String, i64), Fault> {
        let timestamp_ms = match &self.timestamp {
            None => None,
            Some(text) => {
                let allowed = "an ISO 8601 time such as 2026-11-20T10:00:00.000Z";
                Some(instant_ms(text).ok_or_else(|| invalid("timestamp", text, allowed))?)
            }
        };
        match (&self.event_id, timestamp_ms) {
            (Some(id), Some(timestamp_ms)) if (1..=ID_BYTES).contains(&id.len()) => {
                Ok((id.clone(), timestamp_ms))
            }
            (Some(id), Some(_)) => {
                let allowed = format!("text of 1 to {ID_BYTES} bytes");
                Err(invalid("event_id", id, &allowed))
            }
            (Some(_), None) => Err(Fault::bad_request(
                "missing_field",
                "`timestamp` is missing: an `event_id` makes sending again harmless only together with the same time",
            )),
            (None, given) => Ok((
                format!("{:032x}", rand::random::<u128>()),
                given.unwrap_or_else(now_ms),
            )),
        }
    }
}

fn invalid(field: &str, value: &str, allowed: &str) -> Fault {
    let shown: String = value.chars().take(100).collect();
    let message = format!("`{field}` cannot be `{shown}`; allowed: {allowed}");
    Fault::bad_request("invalid_value", message)
        .with_details(json!({"field": field, "value": shown, "allowed": allowed}))
}
