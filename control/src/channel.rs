//! The contract of the control topic, and its implementation within a single process.

use std::time::Instant;

use async_trait::async_trait;
use eventlog::LogError;
use schemas::control::ControlMessage;
use tokio::sync::broadcast;

/// Messages that a subscriber may lag behind before the oldest are dropped and it is informed of the loss (X1): minutes
/// of a deployment of some processes, ten seconds of one with a hundred.
pub(crate) const LAG_MAX: usize = 1024;

/// Messages to all processes of the deployment. Every process receives all of them, its own included, in one order.
#[async_trait]
pub trait ControlChannel: Send + Sync + 'static {
    /// Returns when the message is durable: every connected process receives it.
    async fn publish(&self, message: &ControlMessage) -> Result<(), LogError>;

    /// Every message from now on. A receiver that reports a lag has missed some.
    fn subscribe(&self) -> broadcast::Receiver<ControlMessage>;

    /// The watermark: every message published before it was passed to the subscribers, or
    /// [`ControlMessage::Missed`] in its place. Stands still while this process is cut off.
    fn received_until(&self) -> Instant;
}

/// The channel of a deployment that is one process.
pub struct LocalChannel {
    messages: broadcast::Sender<ControlMessage>,
}

impl Default for LocalChannel {
    fn default() -> Self {
        Self {
            messages: broadcast::Sender::new(LAG_MAX),
        }
    }
}

#[async_trait]
impl ControlChannel for LocalChannel {
    async fn publish(&self, message: &ControlMessage) -> Result<(), LogError> {
        // Fails without a subscriber, when nothing has to be delivered.
        let _ = self.messages.send(message.clone());
        Ok(())
    }

    fn subscribe(&self) -> broadcast::Receiver<ControlMessage> {
        self.messages.subscribe()
    }

    fn received_until(&self) -> Instant {
        Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_single_process_receives_its_messages_at_once() {
        let channel = LocalChannel::default();
        let mut receiver = channel.subscribe();
        let before = Instant::now();
        channel.publish(&ControlMessage::Unknown).await.unwrap();
        assert_eq!(receiver.try_recv().unwrap(), ControlMessage::Unknown);
        assert!(channel.received_until() >= before);
    }
}
