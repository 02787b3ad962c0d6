//! Signing in and out: a token becomes a session that the browser keeps in a cookie.
//!
//! The page holds no secret: it sends the token once, and from then on the browser sends a cookie that scripts cannot
//! read. A session may do what its token may, for as long as the token is good, and everything that takes a token takes
//! it, from the pages of this server (`access/same_site.rs`).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use schemas::credential::{Credential, Role};
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Caller, check_site, cookie, for_programs};
use crate::admin::tokens::RoleName;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs};
use crate::state::{QueryState, now_ms};

/// How sessions are.
#[derive(Clone, Debug)]
pub struct SessionRules {
    /// How long one lasts at most; it ends with its token before that.
    pub lifetime: Duration,
    /// Where people reach this server, if that is not where they say: a scheme and an authority.
    pub public: Option<Uri>,
}

impl Default for SessionRules {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(12 * 60 * 60),
            public: None,
        }
    }
}

impl SessionRules {
    /// Refuses what a page of somebody else asks for with the cookie of whoever is signed in.
    pub(crate) fn check_site(&self, parts: &Parts) -> Result<(), Fault> {
        check_site(parts, self.public.as_ref())
    }

    /// Whether the browser speaks https, with this server or with what is before it.
    fn is_secure(&self, headers: &HeaderMap) -> bool {
        let forwarded = headers.get("x-forwarded-proto");
        let forwarded = forwarded.and_then(|schemes| schemes.to_str().ok());
        // Of several proxies, the first spoke with the browser.
        let scheme = forwarded.and_then(|schemes| schemes.split(',').next());
        let public = self.public.as_ref().and_then(Uri::scheme_str);
        scheme.map(str::trim) == Some("https") || public == Some("https")
    }
}

/// What somebody signs in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// The secret of a token, or a JWT of the identity provider.
    #[schema(min_length = 1, max_length = 8192)]
    token: String,
}

/// Who somebody is, and what they may do.
#[derive(Serialize, ToSchema)]
pub(crate) struct Who {
    /// Public identifier of the token, or who it is in the identity provider's words.
    id: String,
    /// What people call them; the id where nobody said.
    name: String,
    /// Whether it is the bearer of a token of ours, or a person of the identity provider.
    kind: WhoKind,
    /// All roles that are covered: an operator is viewer and starter too.
    #[schema(value_type = Vec<RoleName>)]
    roles: Vec<Role>,
    /// The projects within reach; `null` for all.
    #[schema(value_type = Option<Vec<String>>)]
    projects: Option<Vec<ProjectId>>,
    /// When the session ends by itself, or the token where one was sent; `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
}

/// A kind of somebody.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhoKind {
    /// The bearer of a token of ours.
    Token,
    /// A person of the identity provider.
    Person,
}

impl Who {
    /// Who this is.
    ///
    /// # Errors
    /// 403 for an API key.
    fn of(credential: &Credential, ends_at_ms: Option<i64>) -> Result<Self, Fault> {
        let (id, name, kind, projects) = match credential {
            Credential::Key { .. } => return Err(for_programs()),
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
            expires_at: ends_at_ms.map(Instant),
        })
    }
}

/// Nobody between keeps what is said here.
const NOT_KEPT: [(axum::http::HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

/// Who is signed in
///
/// By the cookie of a session, or by a token in `Authorization`.
#[utoipa::path(get, path = "/api/session", operation_id = "who_is_signed_in", tag = "sessions",
    responses(
        (status = 200, description = "Who it is and what they may do", body = Who),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known, or a session that has ended", body = FaultBody),
        (status = 403, description = "An API key, or a request from another site", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn who(caller: Caller, pairs: Pairs) -> Result<Response, Refusal> {
    let who = Who::of(caller.credential(), caller.ends_at_ms())?;
    pairs.only([])?;
    Ok((NOT_KEPT, Json(who)).into_response())
}

/// Sign in
///
/// Begins a session and has the browser keep it in a cookie that scripts cannot read and other sites cannot use. It
/// ends at a sign-out, with its token, or after `auth.session_lifetime`. Whatever takes a token takes the cookie, but
/// from the pages of this server only.
#[utoipa::path(post, path = "/api/session", operation_id = "sign_in", tag = "sessions",
    request_body = SignIn,
    responses(
        (status = 200, description = "Who it is and what they may do", body = Who,
            headers(("Set-Cookie" = String, description = "The session"))),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "The token is not known, was revoked or has ended", body = FaultBody),
        (status = 403, description = "An API key, or a request from another site", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(()))]
pub(crate) async fn sign_in(
    State(state): State<QueryState>,
    parts: Parts,
    pairs: Pairs,
    JsonBody(body): JsonBody<SignIn>,
) -> Result<Response, Refusal> {
    // Otherwise another site could have somebody work in a session that is not theirs.
    let rules = state.sessions();
    rules.check_site(&parts)?;
    pairs.only([])?;
    let token = body.token.trim();
    if token.is_empty() {
        return Err(Fault::bad_request("invalid_body", "`token` must not be empty").into());
    }
    let caller = Caller::of_token(&state, token).await?;
    let now_ms = now_ms();
    let lifetime_ms = i64::try_from(rules.lifetime.as_millis()).unwrap_or(i64::MAX);
    let ends_at_ms = now_ms.saturating_add(lifetime_ms);
    let session = caller.begin_session(&state, (now_ms, ends_at_ms)).await?;
    let who = Who::of(caller.credential(), Some(session.expires_at_ms))?;
    tracing::info!(
        audit.action = "sign_in",
        audit.by = caller.who(),
        session.expires_at_ms = session.expires_at_ms,
        "signed in"
    );
    if let Some(before) = cookie::presented(&parts.headers)
        && let Err(error) = state.credentials().end_session(&before).await
    {
        tracing::debug!(error.message = %error, "the session before this one goes on until it ends by itself");
    }
    let life_ms = u64::try_from(session.expires_at_ms - now_ms).unwrap_or_default();
    let life = Duration::from_millis(life_ms);
    let kept = cookie::kept(
        session.secret.reveal(),
        life,
        rules.is_secure(&parts.headers),
    );
    Ok((NOT_KEPT, [(SET_COOKIE, kept)], Json(who)).into_response())
}

/// Sign out
///
/// Ends the session of the cookie in every process, and has the browser forget it. Without a session there is nothing
/// to end, which is no fault.
#[utoipa::path(delete, path = "/api/session", operation_id = "sign_out", tag = "sessions",
    responses(
        (status = 204, description = "Nobody is signed in with this cookie",
            headers(("Set-Cookie" = String, description = "Has the browser forget the session"))),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 403, description = "A request from another site", body = FaultBody),
        (status = 503, description = "The database is away: the session goes on", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(()))]
pub(crate) async fn sign_out(
    State(state): State<QueryState>,
    parts: Parts,
    pairs: Pairs,
) -> Result<Response, Refusal> {
    let rules = state.sessions();
    pairs.only([])?;
    if let Some(secret) = cookie::presented(&parts.headers) {
        rules.check_site(&parts)?;
        let caller = Caller::of_cookie(&state, &secret).await.ok();
        if state.credentials().end_session(&secret).await? {
            let by = caller.map(|caller| caller.who());
            tracing::info!(audit.action = "sign_out", audit.by = by, "signed out");
        }
    }
    let forgotten = cookie::forgotten(rules.is_secure(&parts.headers));
    let answer = (StatusCode::NO_CONTENT, NOT_KEPT, [(SET_COOKIE, forgotten)]);
    Ok(answer.into_response())
}
