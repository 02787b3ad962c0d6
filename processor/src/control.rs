//! What the processors of a deployment tell each other.

use std::time::Instant;

use async_trait::async_trait;
use eventlog::LogError;
use schemas::control::Word;
use tokio::sync::broadcast;

/// Words to all processes of the deployment, heard by each of them in one order, the one that said them included.
#[async_trait]
pub trait Control: Send + Sync + 'static {
    /// Says a word; returns when it is sure to be heard by all that listen.
    async fn say(&self, word: &Word) -> Result<(), LogError>;

    /// Every word from now on. A receiver that is told it lagged has missed some.
    fn listen(&self) -> broadcast::Receiver<Word>;

    /// The last moment before which this process is known to have heard everything that was said. A process that
    /// is cut off sees this stand still.
    fn heard_until(&self) -> Instant;
}
