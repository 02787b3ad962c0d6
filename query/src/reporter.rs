//! What this tier asks of whoever takes events: it writes no table and no log itself.

use async_trait::async_trait;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;

/// Takes events the way a client's report is taken.
#[async_trait]
pub trait Reporter: Send + Sync {
    /// Takes one event of a project and app, a JSON object of the interface's own shape. It is durable when this
    /// returns, and in the tables once it was processed.
    ///
    /// # Errors
    /// What the caller is to be told: 400 when the event is refused, 503 when it cannot be taken now.
    async fn report(&self, project: &ProjectId, app: &AppId, event: String) -> Result<(), Fault>;

    /// Takes the event that reports the start of a process, and the start with it. Both are durable when this returns,
    /// and in the tables once they were processed.
    ///
    /// # Errors
    /// As those of [`Reporter::report`].
    async fn start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
        start: Start,
    ) -> Result<(), Fault>;
}
