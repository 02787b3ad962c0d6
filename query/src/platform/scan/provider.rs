//! Probes the identity provider by fetching its keys, as sign-ins do.

use std::time::Duration;

use super::health_response::{reason, timed_out};
use super::settings::AuthProviderConfig;
use crate::access::{Provider, ProviderError};

/// `limit` is the timeout of each of the two requests.
///
/// # Errors
/// Why users cannot sign in with it.
pub(crate) async fn probe(config: &AuthProviderConfig, limit: Duration) -> Result<(), String> {
    let issuer = config.issuer.clone();
    // Reads the certificates of the system.
    let provider = tokio::task::spawn_blocking(move || Provider::new(&issuer, limit)).await;
    let Ok(Ok(provider)) = provider else {
        return Err("no HTTP client for it can be built".to_owned());
    };
    match provider.keys().await {
        Ok(keys) if keys.len() == 0 => Err("it publishes no key that can check tokens".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(problem(&error, limit)),
    }
}

/// The error without the texts of libraries: URLs may contain secrets (X2).
fn problem(error: &ProviderError, limit: Duration) -> String {
    match error {
        ProviderError::Away { what, error } if error.is_timeout() => {
            format!("{what}: {}", timed_out(limit))
        }
        ProviderError::Away { what, error } => format!("{what}: {}", reason(error)),
        other => other.to_string(),
    }
}
