//! Actions of users on runs over the API, as events in the same log as events of clients.

use async_trait::async_trait;
use ingest::IngestState;
use query::Reporter;
use schemas::api_error::ApiError;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

/// The ingest tier of this process, for the query tier.
pub(super) struct Reports(pub(super) IngestState);

#[async_trait]
impl Reporter for Reports {
    async fn report(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
    ) -> Result<(), ApiError> {
        self.0.take_event(project, app, &event).await
    }

    async fn start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
        start: Start,
    ) -> Result<(), ApiError> {
        self.0.take_start(project, app, &event, start).await
    }
}
