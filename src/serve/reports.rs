//! What people do with runs over the API, as events into the same log as those of clients.

use async_trait::async_trait;
use ingest::IngestState;
use query::Reporter;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

/// The ingest tier of this process, as the query tier sees it.
pub(super) struct Reports(pub(super) IngestState);

#[async_trait]
impl Reporter for Reports {
    async fn report(&self, project: &ProjectId, app: &AppId, event: String) -> Result<(), Fault> {
        self.0.take_event(project, app, &event).await
    }

    async fn start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
        start: Start,
    ) -> Result<(), Fault> {
        self.0.take_start(project, app, &event, start).await
    }
}
