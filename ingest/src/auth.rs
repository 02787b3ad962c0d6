//! Authentication of a report: the credential of a request, and whether it may report.

use std::net::SocketAddr;
use std::sync::Arc;

use api::OWN_SECRET_BYTES;
use async_trait::async_trait;
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use schemas::api_error::ApiError;
use schemas::client_address::ClientAddress;
use schemas::credential::{Credential, Scope};
use schemas::ids::{AppId, ProjectId};

/// `Retry-After` when credentials cannot be looked up, in seconds.
const UNAVAILABLE_RETRY_S: u32 = 5;

/// Credentials cannot be looked up now; a later request may succeed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("credentials cannot be looked up now")]
pub struct AuthUnavailable;

/// Looks credentials up. Answers should come from a cache: every request asks, and clients can ask for unknown secrets
/// as often as they like.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// `None` for a secret that is unknown or was revoked.
    async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable>;

    /// Whether a secret belongs to a credential, as far as the cache knows; `None` when it has to be looked up.
    fn cached(&self, _secret: &str) -> Option<bool> {
        Some(false)
    }

    /// Whether a secret from this address may be looked up.
    ///
    /// # Errors
    /// 429 when too many look-ups for this address failed.
    fn may_look_up(&self, _client: Option<ClientAddress>) -> Result<(), ApiError> {
        Ok(())
    }

    /// Call after the look-up of an unknown secret from this address.
    fn failed(&self, _client: Option<ClientAddress>) {}

    /// The credential for reports of this app without a key; `None` unless a project lists the app.
    async fn keyless(&self, app_id: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable>;

    /// Whether any project lists an app. If not, a request without a key is rejected before its body is read.
    fn keyless_possible(&self) -> bool {
        true
    }
}

/// The address of the client that sent a request, if the listener put it there.
pub(crate) fn client(head: &Parts) -> Option<ClientAddress> {
    let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| peer.ip().into())
}

/// The credential of a request's secrets, with the secret that belongs to it. Cached secrets come first, and are never
/// limited.
pub(crate) async fn authenticate<'a>(
    auth: &dyn Authenticator,
    secrets: &'a [String],
    client: Option<ClientAddress>,
) -> Result<(Arc<Credential>, &'a str), ApiError> {
    // A longer secret is not one of our keys and costs no look-up.
    let keys = secrets.iter().filter(|key| key.len() <= OWN_SECRET_BYTES);
    let is_known = |secret: &&String| auth.cached(secret) == Some(true);
    let (known, others): (Vec<&String>, Vec<_>) = keys.partition(is_known);
    let mut has_looked_up = false;
    for secret in known.into_iter().chain(others) {
        if auth.cached(secret).is_none() {
            auth.may_look_up(client)?;
            has_looked_up = true;
        }
        if let Some(credential) = auth.authenticate(secret).await.map_err(unavailable)? {
            return Ok((credential, secret));
        }
    }
    if has_looked_up {
        auth.failed(client);
    }
    Err(ApiError::unauthorized(
        "the API key is not known, or it was revoked",
    ))
}

/// 503, before the body is read.
pub(crate) fn unavailable(_: AuthUnavailable) -> ApiError {
    ApiError::unavailable(
        "API keys cannot be checked now; send the batch again",
        UNAVAILABLE_RETRY_S,
    )
}

/// 401.
pub(crate) fn missing() -> ApiError {
    ApiError::unauthorized("an API key is required: send it as `Authorization: Bearer <key>`")
}

/// The project and app of a credential that may report.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    /// Public identifier of the key, which its rate limit is counted by.
    pub(crate) key_id: String,
    pub(crate) project: ProjectId,
    pub(crate) default_app: AppId,
}

/// Fails if the credential may not report.
pub(crate) fn reporter(credential: &Credential) -> Result<Reporter, ApiError> {
    match credential {
        Credential::Key {
            id,
            project,
            default_app,
            scopes,
        } if scopes.contains(&Scope::Report) => Ok(Reporter {
            key_id: id.clone(),
            project: project.clone(),
            default_app: default_app.clone(),
        }),
        Credential::Key { .. } => Err(ApiError::forbidden("this API key lacks the scope `report`")),
        Credential::Token { .. } | Credential::Person { .. } => Err(ApiError::forbidden(
            "this is the token of a person; events are reported with an API key, which says whose events they are",
        )),
    }
}
