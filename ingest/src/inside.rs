//! Events from inside of the process: what a user does over the API is reported like an event of a client.

use bytes::Bytes;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

use crate::auth::Reporter;
use crate::body::Received;
use crate::intake::{Batch, Events};
use crate::named_keys::NamedKeys;
use crate::plan::Apps;
use crate::state::IngestState;

impl IngestState {
    /// Takes one event of a project and app like a report: checked, counted, and durable when this returns (L1). The
    /// event belongs to `app`, whichever app it names. No rate limit applies: the caller has already admitted the
    /// request.
    ///
    /// # Errors
    /// 400 when the event is rejected, with the reason; 503 when the log is full or away, or too much is in flight.
    pub async fn take_event(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
    ) -> Result<(), ApiError> {
        self.take(project, app, event, None).await
    }

    /// Takes the event that reports the start of a process; event and start become durable together.
    ///
    /// # Errors
    /// As [`IngestState::take_event`].
    pub async fn take_start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
        start: Start,
    ) -> Result<(), ApiError> {
        self.take(project, app, event, Some(start)).await
    }

    async fn take(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
        start: Option<Start>,
    ) -> Result<(), ApiError> {
        let parts = &self.0;
        let bytes = Bytes::from(format!("{{\"events\":[{event}]}}"));
        let mut reservation = parts.in_flight.begin();
        if !reservation.grow(bytes.len()) {
            let message = "too much is being received at once; try again";
            return Err(ApiError::unavailable(message, 1));
        }
        let received = Received { bytes, reservation };
        let apps = Apps::AnyOr(app.clone(), NamedKeys::default());
        let mut batch = Batch::read(
            received,
            Events { is_text: false },
            apps,
            parts.config.max_event_age,
        )
        .await?;
        if let Some(start) = start {
            batch.carry(start);
        }
        let reporter = Reporter {
            key_id: String::new(),
            project: project.clone(),
            default_app: app.clone(),
        };
        let report = batch.append(parts, reporter, None).await?;
        match report.errors.into_iter().next() {
            Some(rejection) => Err(ApiError::new(
                ErrorCode::Event(rejection.code),
                rejection.message,
            )),
            None => Ok(()),
        }
    }
}
