//! Reporting of events.

use async_trait::async_trait;
use schemas::api_error::ApiError;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

use super::Required;

/// Accepts events as reports of clients are accepted.
#[async_trait]
pub trait Reporter: Send + Sync {
    /// Reports one event, a JSON object in the interface's own shape. It is durable when this returns, and stored after
    /// processing.
    ///
    /// # Errors
    /// 400 for an invalid event, 503 when it cannot be accepted now.
    async fn report(&self, project: &ProjectId, app: &AppId, event: String)
    -> Result<(), ApiError>;

    /// Reports the start of a process and its event. Both are durable when this returns, and stored after processing.
    ///
    /// # Errors
    /// As [`Reporter::report`].
    async fn start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
        start: Start,
    ) -> Result<(), ApiError>;
}

impl Required for dyn Reporter {
    const NOT_CONNECTED: &'static str =
        "this server accepts no events; send the request to a server that does";
}
