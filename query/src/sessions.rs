//! `/api/session`: sign in and out. A token becomes a session, which the browser stores as a cookie.
//!
//! Pages hold no secret: they send the token once, and from then on the browser sends a cookie that scripts cannot
//! read. A session has the permissions of its token while the token is valid, for requests from pages of this server
//! (`access/same_site.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use moka::sync::Cache;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::credential::{Credential, Role};
use schemas::ids::ProjectId;
use schemas::run::Instant;
use schemas::timestamp::UnixMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Authenticator, Caller, client, cookie, needs_token};
use crate::clock::now_ms;
use crate::params::{JsonBody, Pairs, SMALL_BODY_BYTES};
use crate::views::NO_STORE;

/// Sign-ins of one token or user within [`SIGN_INS_WITHIN`]: more than a user with many browsers needs, and few enough
/// that a program in a loop does not fill the table (X1).
const SIGN_INS: u32 = 120;
const SIGN_INS_WITHIN: Duration = Duration::from_secs(60);
/// Tokens and users whose sign-ins are counted; beyond that the least frequent are evicted (X1).
const SIGN_INS_HOLDERS: u64 = 10_000;

#[derive(Clone)]
pub(crate) struct SessionState {
    pub(crate) authenticator: Authenticator,
    pub(crate) sign_ins: SignIns,
}

/// Counts the sign-ins of this process by token or user. Clones share the counts.
#[derive(Clone)]
pub(crate) struct SignIns(Cache<String, Arc<AtomicU32>>);

impl Default for SignIns {
    fn default() -> Self {
        let counted = Cache::builder().max_capacity(SIGN_INS_HOLDERS);
        Self(counted.time_to_live(SIGN_INS_WITHIN).build())
    }
}

impl SignIns {
    /// # Errors
    /// 429 above [`SIGN_INS`].
    fn count(&self, by: &str) -> Result<(), ApiError> {
        let counted = self.0.get_with_by_ref(by, Arc::default);
        if counted.fetch_add(1, Ordering::Relaxed) < SIGN_INS {
            return Ok(());
        }
        let message =
            format!("more than {SIGN_INS} sign-ins within a minute; reuse the session cookie");
        let within_s = u32::try_from(SIGN_INS_WITHIN.as_secs()).unwrap_or(u32::MAX);
        Err(ApiError::new(ErrorCode::TooManySignIns, message).with_retry_after(within_s))
    }
}

/// The credential to sign in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// The secret of a token, or a JWT of the identity provider.
    #[schema(min_length = 1, max_length = 8192)]
    token: String,
}

/// The authenticated identity and its permissions.
#[derive(Serialize, ToSchema)]
pub(crate) struct Who {
    /// Public identifier of the token, or `sub` of the identity provider.
    id: String,
    /// Display name, or the id.
    name: String,
    kind: WhoKind,
    /// All covered roles: an operator is viewer and starter too.
    roles: Vec<Role>,
    /// Reachable projects; `null` for all.
    #[schema(value_type = Option<Vec<String>>)]
    projects: Option<Vec<ProjectId>>,
    /// When the session or token expires; `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
}

/// The kind of the authenticated identity.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhoKind {
    /// A token of this deployment.
    Token,
    /// A user of the identity provider.
    Person,
}

impl Who {
    /// # Errors
    /// 403 for an API key.
    fn of(credential: &Credential, expires_at_ms: Option<UnixMs>) -> Result<Self, ApiError> {
        let (id, name, kind, projects) = match credential {
            Credential::Key { .. } => return Err(needs_token()),
            Credential::Token {
                id, name, projects, ..
            } => (id, name, WhoKind::Token, projects),
            Credential::Person {
                id, name, projects, ..
            } => (id, name, WhoKind::Person, projects),
        };
        let covered = |role: &Role| credential.covers(*role);
        Ok(Self {
            id: id.clone(),
            name: if name.is_empty() { id } else { name }.clone(),
            kind,
            roles: Role::ALL.into_iter().filter(covered).collect(),
            projects: projects.clone(),
            expires_at: expires_at_ms.map(Instant),
        })
    }
}

/// Get the authenticated identity
///
/// Of the session cookie, or of a token in `Authorization`.
#[utoipa::path(get, path = "/api/session", operation_id = "who_is_signed_in", tag = "sessions",
    responses(
        (status = 200, description = "The identity and its permissions", body = Who),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn who(caller: Caller, pairs: Pairs) -> Result<Response, ErrorResponse> {
    let who = Who::of(caller.credential(), caller.expires_at_ms())?;
    pairs.only([])?;
    Ok((NO_STORE, Json(who)).into_response())
}

/// Sign in
///
/// Begins a session and sets its cookie, which scripts cannot read and other sites cannot use. The session ends with a
/// sign-out, with its token, or after `auth.session_lifetime`. All operations accept the cookie, from pages of this
/// server only.
#[utoipa::path(post, path = "/api/session", operation_id = "sign_in", tag = "sessions",
    request_body = SignIn,
    responses(
        (status = 200, description = "The identity and its permissions", body = Who,
            headers(("Set-Cookie" = String, description = "The session cookie"))),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::SignIn)>,
    ),
    security(()))]
pub(crate) async fn sign_in(
    State(SessionState {
        authenticator,
        sign_ins,
    }): State<SessionState>,
    parts: Parts,
    pairs: Pairs,
    JsonBody(body): JsonBody<SignIn, SMALL_BODY_BYTES>,
) -> Result<Response, ErrorResponse> {
    // Otherwise another site could sign a user in to an attacker's session.
    let rules = authenticator.sessions();
    rules.check_site(&parts)?;
    pairs.only([])?;
    let token = body.token.trim();
    if body.token.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidBody, "`token` must not be empty").into());
    }
    let caller = Caller::from_token(&authenticator, client(&parts), token).await?;
    sign_ins.count(&caller.audit_name())?;
    let now_ms = now_ms();
    let lifetime_ms = i64::try_from(rules.lifetime.as_millis()).unwrap_or(i64::MAX);
    let session = caller
        .begin_session(&authenticator, now_ms, lifetime_ms)
        .await?;
    let who = Who::of(caller.credential(), Some(session.expires_at_ms))?;
    tracing::info!(
        audit.action = "sign_in",
        audit.by = caller.audit_name(),
        session.expires_at_ms = session.expires_at_ms,
        "signed in"
    );
    let is_secure = rules.is_secure(&parts.headers);
    if let Some(previous) = cookie::session_secret(&parts.headers, is_secure)
        && let Err(error) = authenticator.credentials().end_session(&previous).await
    {
        tracing::debug!(error.message = %error, "the previous session could not be ended and stays valid until it expires");
    }
    let lifetime_ms = u64::try_from(session.expires_at_ms - now_ms).unwrap_or_default();
    let lifetime = Duration::from_millis(lifetime_ms);
    let cookie = cookie::set(session.secret.reveal(), lifetime, is_secure);
    Ok((NO_STORE, [(SET_COOKIE, cookie)], Json(who)).into_response())
}

/// Sign out
///
/// Ends the session of the cookie in all processes, and deletes the cookie. Succeeds without a session too.
#[utoipa::path(delete, path = "/api/session", operation_id = "sign_out", tag = "sessions",
    responses(
        (status = 204, description = "The session has ended",
        headers(("Set-Cookie" = String, description = "Deletes the session cookie"))),
        errors::SignOut,
    ),
    security(()))]
pub(crate) async fn sign_out(
    State(SessionState { authenticator, .. }): State<SessionState>,
    parts: Parts,
    pairs: Pairs,
) -> Result<Response, ErrorResponse> {
    let rules = authenticator.sessions();
    pairs.only([])?;
    let is_secure = rules.is_secure(&parts.headers);
    if let Some(secret) = cookie::session_secret(&parts.headers, is_secure) {
        rules.check_site(&parts)?;
        let caller = Caller::from_cookie(&authenticator, client(&parts), &secret)
            .await
            .ok();
        if authenticator.credentials().end_session(&secret).await? {
            let by = caller.map(|caller| caller.audit_name());
            tracing::info!(audit.action = "sign_out", audit.by = by, "signed out");
        }
    }
    let deleted = cookie::delete(is_secure);
    let answer = (StatusCode::NO_CONTENT, NO_STORE, [(SET_COOKIE, deleted)]);
    Ok(answer.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sign_ins_of_one_user_are_rejected_with_retry_after() {
        let sign_ins = SignIns::default();
        for _ in 0..SIGN_INS {
            assert_eq!(sign_ins.count("ada"), Ok(()));
        }
        let error = sign_ins.count("ada").unwrap_err();
        assert_eq!((error.status, error.retry_after_s), (429, Some(60)));
        assert_eq!(sign_ins.count("grace"), Ok(()));
    }
}
