//! Access to the other processes of a deployment.

use async_trait::async_trait;
use schemas::control::KnownProcess;

use super::Required;

/// Name of the only cache of the API: everything that processes cache of tables and other systems.
pub const CORE_CACHE: &str = "svc:core:cache";

/// The processes of which this one has received heartbeats.
#[async_trait]
pub trait Processes: Send + Sync {
    /// This process is the first. A process that stops without a last heartbeat is listed for a while, and `silent_ms` grows.
    fn processes(&self) -> Vec<KnownProcess>;

    /// Clears the caches of these names in all processes. Returns when all live processes have confirmed it, or after a
    /// bounded wait; the clear goes on.
    ///
    /// # Errors
    /// The reason, if nothing was cleared.
    async fn clear(&self, names: &[String]) -> Result<Cleared, String>;
}

/// State of a clear when the answer is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Identifies the clear in the logs of all processes.
    pub order: String,
    /// State in this process.
    pub here: ClearedHere,
    /// Whether the control message was published, or no other process exists.
    pub is_published: bool,
    /// Number of processes that have confirmed it, including this one.
    pub confirmed: usize,
    /// Number of live processes, including this one.
    pub of: usize,
}

/// State of a clear in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearedHere {
    /// The caches contain nothing from before.
    Done,
    /// A cache could not be loaded again.
    Failed,
    UnderWay,
}

impl Required for dyn Processes {
    const NOT_CONNECTED: &'static str =
        "this server has no access to other processes; send the request to a server that has";
}
