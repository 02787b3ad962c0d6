//! Events that come from inside of the process: what a person does over the API is reported like what a client does.

use bytes::Bytes;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

use crate::auth::Reporter;
use crate::body::Received;
use crate::intake::{Batch, Form};
use crate::named_keys::NamedKeys;
use crate::plan::Apps;
use crate::state::IngestState;

impl IngestState {
    /// Takes one event of a project and app, as a report of it would be taken: checked, counted, and durable when this
    /// returns (L1). It need not name its app; if it names another one it is of that one. No rate applies: whoever
    /// calls this has let the caller in.
    ///
    /// # Errors
    /// 400 when the event is refused, with the reason; 503 when the log is full or away, or too much is being received.
    pub async fn take_event(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
    ) -> Result<(), Fault> {
        self.take(project, app, event, None).await
    }

    /// Takes the event that reports the start of a process, with the start: both are durable together.
    ///
    /// # Errors
    /// As those of [`IngestState::take_event`].
    pub async fn take_start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
        start: Start,
    ) -> Result<(), Fault> {
        self.take(project, app, event, Some(start)).await
    }

    async fn take(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: &str,
        start: Option<Start>,
    ) -> Result<(), Fault> {
        let parts = &self.0;
        let bytes = Bytes::from(format!("{{\"events\":[{event}]}}"));
        let mut reservation = parts.in_flight.begin();
        if !reservation.grow(bytes.len()) {
            let message = "too much is being received at once; try again";
            return Err(Fault::unavailable(message, 1));
        }
        let received = Received { bytes, reservation };
        let apps = Apps::AnyOr(app.clone(), NamedKeys::default());
        let mut batch =
            Batch::read(received, Form::Events, apps, parts.config.max_event_age).await?;
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
            Some(rejection) => Err(Fault::bad_request(rejection.code, rejection.message)),
            None => Ok(()),
        }
    }
}
