//! Changes by one process, published to all processes on the control topic.
//!
//! A missed message delays a change by a few seconds: everything is reloaded regularly anyway, see `settle`.

use std::time::Duration;

use schemas::control::{Changed, ControlMessage};
use tokio::sync::broadcast::error::RecvError;

use super::Running;
use super::parts::Parts;

/// Pause before a message is published again after an error.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Publishes the changes of this process until the server stops.
pub(crate) async fn announce(running: &Running, parts: &Parts) {
    let mut credentials = parts.credentials.made_here();
    let mut prices = parts.prices.made_here();
    let mut jobs = parts.store.jobs().made_here();
    let mut builds = parts.builds.made_here();
    loop {
        // The parts hold the senders, so waiting cannot fail.
        let what = tokio::select! {
            _ = credentials.changed() => Changed::Credentials,
            _ = prices.changed() => Changed::Prices,
            _ = jobs.changed() => Changed::Jobs,
            _ = builds.changed() => Changed::Builds,
            () = running.stop.cancelled() => return,
        };
        let message = ControlMessage::Changed { what };
        while let Err(error) = parts.channel.publish(&message).await {
            tracing::debug!(error.message = %error, "a change could not be published; it is retried");
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = running.stop.cancelled() => return,
            }
        }
    }
}

/// Reloads what any process changed, until the server stops.
pub(crate) async fn follow(running: &Running, parts: &Parts) {
    let mut messages = parts.channel.subscribe();
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = running.stop.cancelled() => return,
        };
        match message {
            Ok(ControlMessage::Changed { what }) => take_over(parts, what).await,
            Ok(ControlMessage::ClearCaches { names, order }) => {
                parts.deployment.carry_out(&names, &order).await;
            }
            Ok(ControlMessage::Missed) | Err(RecvError::Lagged(_)) => take_over_all(parts).await,
            Ok(_) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Clears the caches after missed messages: one of them may have been an order to do so.
async fn take_over_all(parts: &Parts) {
    parts.deployment.caches().clear().await;
    parts.store.jobs().heard();
}

async fn take_over(parts: &Parts, what: Changed) {
    // A kind that only a newer binary knows may stand for any of them.
    let is = |other| [other, Changed::Unknown].contains(&what);
    if is(Changed::Credentials)
        && let Err(error) = parts.credentials.refresh().await
    {
        tracing::debug!(error.message = %error, "credentials were not refreshed");
    }
    if is(Changed::Prices)
        && let Err(error) = parts.prices.refresh().await
    {
        tracing::debug!(error.message = %error, "prices were not refreshed");
    }
    if is(Changed::Builds) {
        parts.builds.heard();
    }
    if is(Changed::Jobs) {
        parts.store.jobs().heard();
    }
}
