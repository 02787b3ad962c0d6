//! The stop signal.

use tokio::sync::watch;

/// Returns when the signal is given or its sender is dropped.
pub(crate) async fn stopped_by(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopped| *stopped).await;
}
