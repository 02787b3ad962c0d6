//! The identity provider: asked for its keys as signing in asks for them.

use std::time::Duration;

use super::health_answer::{reason, timed_out};
use super::settings::AuthProviderConfig;
use crate::access::{Provider, ProviderError};

/// Asks it. `limit` is for each of the two questions.
///
/// # Errors
/// Why nobody could sign in with it, for a person.
pub(crate) async fn ask(config: &AuthProviderConfig, limit: Duration) -> Result<(), String> {
    let issuer = config.issuer.clone();
    // Reads the certificates of the system.
    let provider = tokio::task::spawn_blocking(move || Provider::new(&issuer, limit)).await;
    let Ok(Ok(provider)) = provider else {
        return Err("no connection to it can be made".to_owned());
    };
    match provider.keys().await {
        Ok(keys) if keys.len() == 0 => {
            Err("it has no keys that tokens can be checked with".to_owned())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(told(&error, limit)),
    }
}

/// Why there are no keys, without what the libraries say: addresses may hold secrets (X2).
fn told(error: &ProviderError, limit: Duration) -> String {
    match error {
        ProviderError::Away { what, error } if error.is_timeout() => {
            format!("{what}: {}", timed_out(limit))
        }
        ProviderError::Away { what, error } => format!("{what}: {}", reason(error)),
        other => other.to_string(),
    }
}
