//! Feedback and saves of users, reported as events with the shape and the log of reports by clients.

use api::ErrorResponse;
use axum::Json;
use axum::http::StatusCode;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::instant_ms;
use schemas::ids::{AppId, ProjectId};
use schemas::limits::ID_BYTES;
use schemas::run::Instant;
use schemas::timestamp::to_text;
use serde::Serialize;
use serde_json::json;
use store::Store;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::AppParams;
use crate::ports::Port;
use crate::ports::reporter::Reporter;

#[derive(Clone)]
pub(crate) struct UserEventState {
    pub(crate) store: Store,
    pub(crate) reporter: Port<dyn Reporter>,
}

/// The reported event, durable; the run has it within about a second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reported {
    /// `feedback`, `saved` or `unsaved`.
    event: &'static str,
    /// Identity of the event; send it with `timestamp` to repeat the request.
    event_id: String,
    /// The run or message.
    run_id: String,
    app_id: String,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Instant,
}

pub(super) type Answer = (StatusCode, Json<Reported>);

/// An event that a user causes.
pub(super) struct UserEvent {
    pub(super) name: &'static str,
    /// Whether it can apply to a message instead of a run.
    pub(super) may_be_message: bool,
    pub(super) fields: serde_json::Value,
    pub(super) event_id: Option<String>,
    pub(super) timestamp: Option<String>,
}

impl UserEvent {
    pub(super) async fn report(
        self,
        state: &UserEventState,
        caller: &Caller,
        run_id: String,
        AppParams { app_id, project_id }: AppParams,
    ) -> Result<Answer, ErrorResponse> {
        let app_id = app_id.as_deref();
        let projects = caller.ratable(project_id.as_deref())?;
        let (event_id, timestamp_ms) = self.identity()?;
        let store = state.store.on_behalf_of(caller.holder());
        let mut found = store
            .runs_by_id(&projects, app_id, &run_id)
            .await?
            .into_iter();
        let target = match found.next() {
            Some(run) => Some((run.project_id, run.app_id)),
            None if self.may_be_message => store.app_of_message(&projects, app_id, &run_id).await?,
            None => None,
        };
        let Some((project, app)) = target else {
            let message = "run not found; a new run can be used about a second after its report";
            return Err(ApiError::not_found(message).into());
        };
        let mut event = self.fields;
        // The event has no app: it gets the app of the run.
        event["name"] = self.name.into();
        event["run_id"] = run_id.as_str().into();
        event["timestamp"] = to_text(timestamp_ms).into();
        event["event_id"] = event_id.as_str().into();
        let project = ProjectId::new(project);
        let reporter = state.reporter.required()?;
        reporter
            .report(&project, &AppId::new(app.as_str()), event.to_string())
            .await?;
        let reported = Reported {
            event: self.name,
            event_id,
            run_id,
            app_id: app,
            timestamp: Instant(timestamp_ms),
        };
        Ok((StatusCode::ACCEPTED, Json(reported)))
    }

    /// Identity and time: both of the request, or a random identity.
    fn identity(&self) -> Result<(String, i64), ApiError> {
        let timestamp_ms = match &self.timestamp {
            None => None,
            Some(text) => {
                let allowed = "an ISO 8601 time, for example 2026-11-20T10:00:00.000Z";
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
            (Some(_), None) => Err(ApiError::new(
                ErrorCode::MissingField,
                "`timestamp` is required with `event_id`: both identify a repeated request",
            )),
            (None, given) => Ok((
                format!("{:032x}", rand::random::<u128>()),
                given.unwrap_or_else(now_ms),
            )),
        }
    }
}

pub(super) fn invalid(field: &str, value: &str, allowed: &str) -> ApiError {
    let shown: String = value.chars().take(100).collect();
    let message = format!("`{field}` cannot be `{shown}`; allowed: {allowed}");
    ApiError::new(ErrorCode::InvalidValue, message)
        .with_details(json!({"field": field, "value": shown, "allowed": allowed}))
}
