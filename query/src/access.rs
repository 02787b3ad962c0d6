//! Authentication and authorization. The project of every read comes from here (T1).

mod authenticator;
mod authorization;
mod claims;
pub(crate) mod cookie;
mod identity;
pub(crate) mod jwks;
pub(crate) mod jwt;
mod look_up;
mod provider;
mod same_site;
mod session_rules;
#[cfg(test)]
mod test_keys;

use std::sync::Arc;

use api::{AuthHeader, ErrorResponse, OWN_SECRET_BYTES, SECRET_BYTES};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use schemas::api_error::ApiError;
use schemas::client_address::ClientAddress;
use schemas::credential::Credential;
use schemas::timestamp::{UnixMs, to_text};
use store::Secret;
use store::StoreError;
use store::credentials::{NewSession, SecretCheck, Session, SessionSubject, Started};
use store::shares::Holder;

use crate::clock::now_ms;
pub(crate) use authenticator::Authenticator;
pub(crate) use authorization::{check_reached, is_one, needs_token};
pub use claims::ClaimRules;
pub(crate) use identity::IdentityMetrics;
pub use identity::{Identity, IdentityConfig};
pub use jwt::SigningAlgorithm;
pub(crate) use look_up::client;
pub(crate) use provider::{Provider, ProviderError};
pub use session_rules::SessionRules;

use identity::Denied;
use jwt::Jwt;
use look_up::{cached, kind};

const REQUIRED: &str =
    "a credential is required: send an API key or a token as `Authorization: Bearer <secret>`";
const UNKNOWN: &str = "the credential is not known or was revoked";
const SIGNED_OUT: &str = "the session has ended; sign in again";
const PROVIDER_AWAY: &str = "the keys of the identity provider are not available";
/// Seconds after which a client can retry when credentials could not be looked up.
const UNAVAILABLE_RETRY_S: u32 = 2;

/// The authenticated sender of a request.
pub(crate) struct Caller {
    authenticated: Authenticated,
    /// Kept so that a long response can authenticate again.
    secret: RequestSecret,
}

/// A valid credential.
struct Authenticated {
    credential: Arc<Credential>,
    /// When it or its session expires, Unix milliseconds; `None` for never.
    expires_at_ms: Option<UnixMs>,
}

/// The secret of a request.
#[derive(Clone)]
enum RequestSecret {
    /// From `Authorization`: an API key, a token, or a JWT of the identity provider.
    Header { secret: Secret, is_bearer: bool },
    /// From the session cookie.
    Session(Secret),
}

impl RequestSecret {
    fn bearer(secret: &str) -> Self {
        Self::Header {
            secret: Secret::new(secret),
            is_bearer: true,
        }
    }
}

/// Why a secret is not accepted.
enum AuthError {
    Rejected(ApiError),
    /// It cannot be checked now.
    Unavailable(StoreError),
}

impl AuthError {
    fn rejected(message: impl Into<String>) -> Self {
        Self::Rejected(ApiError::unauthorized(message))
    }
}

impl From<StoreError> for AuthError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error)
    }
}

async fn authenticate(
    authenticator: &Authenticator,
    secret: &RequestSecret,
) -> Result<Authenticated, AuthError> {
    match secret {
        RequestSecret::Header { secret, .. } => check_secret(authenticator, secret.reveal()).await,
        RequestSecret::Session(secret) => check_session(authenticator, secret.reveal()).await,
    }
}

async fn check_session(
    authenticator: &Authenticator,
    secret: &str,
) -> Result<Authenticated, AuthError> {
    let now_ms = now_ms();
    let ended = || AuthError::rejected(SIGNED_OUT);
    let session = authenticator.credentials().session(secret, now_ms).await?;
    let Session::Active {
        subject,
        expires_at_ms,
    } = session
    else {
        return Err(ended());
    };
    let credential = match subject {
        SessionSubject::Token(token) => token,
        // The current settings decide: a provider or role that was removed from them ends its sessions.
        SessionSubject::Claims(claims) => {
            let identity = authenticator.identity().ok_or_else(ended)?;
            let person = identity.person_from_claims(&claims, now_ms);
            Arc::new(person.map_err(|_| ended())?)
        }
    };
    let expires_at_ms = credential
        .expires_at_ms()
        .map_or(expires_at_ms, |own| own.min(expires_at_ms));
    Ok(Authenticated {
        credential,
        expires_at_ms: Some(expires_at_ms),
    })
}

/// Checks a JWT with the identity provider, if there is one, and any other secret with the credentials of this
/// deployment.
async fn check_secret(
    authenticator: &Authenticator,
    secret: &str,
) -> Result<Authenticated, AuthError> {
    let valid = |credential: Arc<Credential>| {
        let expires_at_ms = credential.expires_at_ms();
        Ok(Authenticated {
            credential,
            expires_at_ms,
        })
    };
    if let (Some(identity), Some(jwt)) = (authenticator.identity(), Jwt::parse(secret)) {
        return match identity.person(secret, &jwt, now_ms()).await {
            Ok(person) => valid(person),
            Err(Denied::Rejected(message)) => Err(AuthError::rejected(message)),
            Err(Denied::Unavailable) => {
                Err(StoreError::Unavailable(PROVIDER_AWAY.to_owned()).into())
            }
        };
    }
    if secret.len() > OWN_SECRET_BYTES {
        return Err(AuthError::rejected(UNKNOWN));
    }
    let credentials = authenticator.credentials();
    match credentials.check(secret, now_ms()).await? {
        SecretCheck::Valid(credential) => valid(credential),
        SecretCheck::Unknown => Err(AuthError::rejected(UNKNOWN)),
        SecretCheck::Expired { at_ms } => {
            let message = format!("the token expired at {}", to_text(at_ms));
            Err(AuthError::rejected(message))
        }
    }
}

impl<S> FromRequestParts<S> for Caller
where
    S: Send + Sync,
    Authenticator: FromRef<S>,
{
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        let authenticator = &Authenticator::from_ref(state);
        Ok(match AuthHeader::read(&parts.headers) {
            // The header takes precedence over the cookie.
            Some(header) => {
                let is_bearer = header.bearer().is_some();
                let secrets = header.into_secrets().into_iter().map(Secret::new);
                let secrets = secrets.map(|secret| RequestSecret::Header { secret, is_bearer });
                Self::first_valid(authenticator, client(parts), secrets).await?
            }
            None => Self::from_session(parts, authenticator).await?,
        })
    }
}

/// The 503 of a credential that cannot be checked. Logs the error.
fn unchecked(error: &StoreError) -> ApiError {
    match error {
        // A flood would fill the log; it is counted.
        StoreError::Overloaded { .. } => {
            tracing::debug!(error.message = %error, "credentials cannot be looked up");
        }
        _ => tracing::warn!(error.message = %error, "credentials cannot be looked up"),
    }
    let message = "credentials cannot be checked now; try again";
    ApiError::unavailable(message, UNAVAILABLE_RETRY_S)
}

impl Caller {
    #[cfg(test)]
    pub(crate) fn with(credential: Credential) -> Self {
        Self {
            authenticated: Authenticated {
                credential: Arc::new(credential),
                expires_at_ms: None,
            },
            secret: RequestSecret::bearer(""),
        }
    }

    /// The caller behind the first valid secret. Cached secrets come first and are never rate limited.
    async fn first_valid(
        authenticator: &Authenticator,
        client: Option<ClientAddress>,
        secrets: impl Iterator<Item = RequestSecret>,
    ) -> Result<Self, ApiError> {
        let is_known = |secret: &RequestSecret| cached(authenticator, secret) == Some(true);
        let (known, others): (Vec<_>, Vec<_>) = secrets.partition(is_known);
        let failures = authenticator.credentials().failures();
        let mut rejected = ApiError::unauthorized(UNKNOWN);
        let mut failed = None;
        for secret in known.into_iter().chain(others) {
            if cached(authenticator, &secret).is_none() {
                failures.may_try(client)?;
                failed = Some(kind(authenticator, &secret));
            }
            match authenticate(authenticator, &secret).await {
                Ok(authenticated) => {
                    return Ok(Self {
                        authenticated,
                        secret,
                    });
                }
                Err(AuthError::Rejected(error)) => rejected = error,
                Err(AuthError::Unavailable(error)) => return Err(unchecked(&error)),
            }
        }
        if let Some(kind) = failed {
            failures.failed(client, kind);
        }
        Err(rejected)
    }

    /// The caller of the session cookie, for requests from pages of this server.
    async fn from_session(parts: &Parts, authenticator: &Authenticator) -> Result<Self, ApiError> {
        let is_secure = authenticator.sessions().is_secure(&parts.headers);
        let Some(secret) = cookie::session_secret(&parts.headers, is_secure) else {
            return Err(ApiError::unauthorized(REQUIRED));
        };
        authenticator.sessions().check_site(parts)?;
        Self::from_cookie(authenticator, client(parts), &secret).await
    }

    /// The caller of the session with this secret.
    pub(crate) async fn from_cookie(
        authenticator: &Authenticator,
        client: Option<ClientAddress>,
        secret: &str,
    ) -> Result<Self, ApiError> {
        let secret = RequestSecret::Session(Secret::new(secret));
        Self::first_valid(authenticator, client, std::iter::once(secret)).await
    }

    /// The caller with this token or JWT of the identity provider.
    pub(crate) async fn from_token(
        authenticator: &Authenticator,
        client: Option<ClientAddress>,
        token: &str,
    ) -> Result<Self, ApiError> {
        if !(1..=SECRET_BYTES).contains(&token.len()) {
            return Err(ApiError::unauthorized(UNKNOWN));
        }
        let secret = RequestSecret::bearer(token);
        Self::first_valid(authenticator, client, std::iter::once(secret)).await
    }

    /// Begins a session at `now_ms` that expires after `lifetime_ms`, or with the caller's token before.
    ///
    /// # Errors
    /// 403 for an API key or a session; 503.
    pub(crate) async fn begin_session(
        &self,
        authenticator: &Authenticator,
        now_ms: UnixMs,
        lifetime_ms: i64,
    ) -> Result<Started, ErrorResponse> {
        let RequestSecret::Header { secret, .. } = &self.secret else {
            return Err(ApiError::forbidden("a session begins with a token").into());
        };
        let claims;
        let new = match self.credential() {
            Credential::Key { .. } => return Err(needs_token().into()),
            Credential::Token { id, .. } => NewSession::Token {
                secret: secret.reveal(),
                id,
            },
            Credential::Person { id, .. } => {
                let kept = authenticator
                    .identity()
                    .and_then(|identity| identity.session_claims(secret.reveal()));
                claims = kept.ok_or_else(|| ApiError::unauthorized(UNKNOWN))?;
                NewSession::Person {
                    id,
                    claims: &claims,
                }
            }
        };
        let expires_at_ms = now_ms.saturating_add(lifetime_ms);
        let expires_at_ms = self
            .expires_at_ms()
            .map_or(expires_at_ms, |own| own.min(expires_at_ms));
        let credentials = authenticator.credentials();
        Ok(credentials
            .start_session(new, now_ms, expires_at_ms)
            .await?)
    }

    /// When the credential or the session expires, Unix milliseconds; `None` for never.
    pub(crate) fn expires_at_ms(&self) -> Option<UnixMs> {
        self.authenticated.expires_at_ms
    }

    /// # Errors
    /// 401 for a secret that came in another scheme than `Bearer`: old clients send API keys so, and administration
    /// takes no other form than the documented one.
    pub(crate) fn check_scheme(&self) -> Result<(), ApiError> {
        match self.secret {
            RequestSecret::Header {
                is_bearer: false, ..
            } => Err(ApiError::unauthorized(REQUIRED)),
            _ => Ok(()),
        }
    }

    pub(crate) fn credential(&self) -> &Credential {
        &self.authenticated.credential
    }

    /// The API key itself: lunary's Python client hashes it into its ids.
    pub(crate) fn key(&self) -> Option<&str> {
        match (self.credential(), &self.secret) {
            (Credential::Key { .. }, RequestSecret::Header { secret, .. }) => Some(secret.reveal()),
            _ => None,
        }
    }

    /// Authenticates the same secret again; `None` after its credential was revoked or expired.
    pub(crate) async fn reauthenticate(
        &self,
        authenticator: &Authenticator,
    ) -> Result<Option<Self>, StoreError> {
        match authenticate(authenticator, &self.secret).await {
            Ok(authenticated) => Ok(Some(Self {
                authenticated,
                secret: self.secret.clone(),
            })),
            Err(AuthError::Rejected(_)) => Ok(None),
            Err(AuthError::Unavailable(error)) => Err(error),
        }
    }

    /// The holder of this caller's shares. A credential that reaches several projects is a tenant of its own.
    pub(crate) fn holder(&self) -> Holder {
        let (kind, id, projects) = match self.credential() {
            Credential::Key { id, project, .. } => ("key", id, Some(std::slice::from_ref(project))),
            Credential::Token { id, projects, .. } => ("token", id, projects.as_deref()),
            Credential::Person { id, projects, .. } => ("person", id, projects.as_deref()),
        };
        let credential = format!("{kind}:{id}");
        let tenant = match projects {
            Some([project]) => project.as_str().to_owned(),
            _ => credential.clone(),
        };
        Holder { tenant, credential }
    }

    /// Identifies the caller in audit lines and stored records, without a secret.
    pub(crate) fn audit_name(&self) -> String {
        match self.credential() {
            Credential::Key { id, .. } | Credential::Token { id, .. } => id.clone(),
            Credential::Person { id, name, .. } if id == name => id.clone(),
            Credential::Person { id, name, .. } => format!("{name} ({id})"),
        }
    }

    /// Stored as the starter of a process. The prefix keeps ids of the identity provider apart from ids of tokens.
    pub(crate) fn starter(&self) -> String {
        match self.credential() {
            Credential::Person { id, .. } => format!("oidc:{id}"),
            credential => credential.id().to_owned(),
        }
    }
}
