//! What one process changed, every process knows at once: said and heard over the control topic.
//!
//! A word that was missed costs a few seconds: everything is looked for again anyway, see `settle`.

use std::time::Duration;

use schemas::control::{Changed, Word};
use tokio::sync::broadcast::error::RecvError;

use super::Running;
use super::parts::Parts;

/// Pause before a word that could not be said is said again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Says what this process changes, until the server stops.
pub(crate) async fn announce(running: &Running, parts: &Parts) {
    let mut credentials = parts.credentials.made_here();
    let mut prices = parts.prices.made_here();
    let mut jobs = parts.store.jobs().made_here();
    let mut builds = parts.builds.made_here();
    loop {
        // The senders live in the parts, so waiting cannot fail.
        let what = tokio::select! {
            _ = credentials.changed() => Changed::Credentials,
            _ = prices.changed() => Changed::Prices,
            _ = jobs.changed() => Changed::Jobs,
            _ = builds.changed() => Changed::Builds,
            () = running.stop.cancelled() => return,
        };
        let word = Word::Changed { what };
        while let Err(error) = parts.control.say(&word).await {
            tracing::debug!(error.message = %error, "a change could not be announced yet");
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = running.stop.cancelled() => return,
            }
        }
    }
}

/// Takes over what any process says it changed, until the server stops.
pub(crate) async fn follow(running: &Running, parts: &Parts) {
    let mut words = parts.control.listen();
    loop {
        let word = tokio::select! {
            word = words.recv() => word,
            () = running.stop.cancelled() => return,
        };
        match word {
            Ok(Word::Changed { what }) => take_over(parts, what).await,
            Ok(Word::ClearCaches { names, order }) => {
                parts.presence.carry_out(&names, &order).await;
            }
            Ok(Word::Missed) | Err(RecvError::Lagged(_)) => take_over_all(parts).await,
            Ok(_) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Takes over whatever was said before: it may have been an order to empty caches, so what is kept must not be older
/// than this.
async fn take_over_all(parts: &Parts) {
    parts.presence.caches().clear().await;
    parts.store.jobs().heard();
}

async fn take_over(parts: &Parts, what: Changed) {
    // Of a kind of a newer binary, it may be any of them.
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
