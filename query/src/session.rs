//! Signing in and out: a token becomes a session that the browser keeps in a cookie.
//!
//! The page holds no secret: it sends the token once, and from then on the browser sends a cookie that scripts cannot
//! read. A session may do what its token may, for as long as the token is good, and everything that takes a token takes
//! it, from the pages of this server (`access/same_site.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use moka::sync::Cache;
use schemas::credential::{Credential, Role};
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Caller, check_site, client, cookie, for_programs};
use crate::admin::tokens::RoleName;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, SmallJsonBody};
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
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // Of several proxies, the first spoke with the browser.
        let forwarded = text("x-forwarded-proto").and_then(|schemes| schemes.split(',').next());
        let origin = text(ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
        let public = self.public.as_ref().and_then(Uri::scheme_str);
        // Somebody may come over http to a server that is usually reached over https: what this request says counts.
        let scheme = forwarded.or(origin.map(|(scheme, _)| scheme)).or(public);
        scheme.map(str::trim) == Some("https")
    }
}

/// Sign-ins of one token or person within [`SIGN_INS_WITHIN`]: more than somebody with many browsers needs, and few
/// enough that a program that signs in again and again does not fill the table (X1).
const SIGN_INS: u32 = 120;
/// The time they are counted in.
const SIGN_INS_WITHIN: Duration = Duration::from_secs(60);
/// Holders whose sign-ins are counted at once; beyond that the least frequent are forgotten.
const SIGN_INS_HOLDERS: u64 = 10_000;

/// Counts who signs in how often, in this process.
pub(crate) struct SignIns(Cache<String, Arc<AtomicU32>>);

impl Default for SignIns {
    fn default() -> Self {
        let counted = Cache::builder().max_capacity(SIGN_INS_HOLDERS);
        Self(counted.time_to_live(SIGN_INS_WITHIN).build())
    }
}

impl SignIns {
    /// Counts one of `who`.
    ///
    /// # Errors
    /// 429 above [`SIGN_INS`].
    fn count(&self, who: &str) -> Result<(), Fault> {
        let counted = self.0.get_with_by_ref(who, Arc::default);
        if counted.fetch_add(1, Ordering::Relaxed) < SIGN_INS {
            return Ok(());
        }
        let message =
            format!("more than {SIGN_INS} sign-ins within a minute; a session can be kept");
        let within_s = u32::try_from(SIGN_INS_WITHIN.as_secs()).unwrap_or(u32::MAX);
        Err(Fault {
            retry_after_s: Some(within_s),
            ..Fault::new(429, "too_many_sign_ins", message)
        })
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
        (status = 500, description = "The server failed", body = FaultBody),
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
        (status = 408, description = "The body did not arrive in time", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 429, description = "Too many sign-ins of one token or person", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(()))]
pub(crate) async fn sign_in(
    State(state): State<QueryState>,
    parts: Parts,
    pairs: Pairs,
    SmallJsonBody(body): SmallJsonBody<SignIn>,
) -> Result<Response, Refusal> {
    // Otherwise another site could have somebody work in a session that is not theirs.
    let rules = state.sessions();
    rules.check_site(&parts)?;
    pairs.only([])?;
    let token = body.token.trim();
    if body.token.is_empty() {
        return Err(Fault::bad_request("invalid_body", "`token` must not be empty").into());
    }
    let caller = Caller::of_token(&state, client(&parts), token).await?;
    state.sign_ins().count(&caller.who())?;
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
    let is_secure = rules.is_secure(&parts.headers);
    if let Some(before) = cookie::presented(&parts.headers, is_secure)
        && let Err(error) = state.credentials().end_session(&before).await
    {
        tracing::debug!(error.message = %error, "the session before this one goes on until it ends by itself");
    }
    let life_ms = u64::try_from(session.expires_at_ms - now_ms).unwrap_or_default();
    let life = Duration::from_millis(life_ms);
    let kept = cookie::kept(session.secret.reveal(), life, is_secure);
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
        (status = 500, description = "The server failed", body = FaultBody),
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
    let is_secure = rules.is_secure(&parts.headers);
    if let Some(secret) = cookie::presented(&parts.headers, is_secure) {
        rules.check_site(&parts)?;
        let caller = Caller::of_cookie(&state, client(&parts), &secret)
            .await
            .ok();
        if state.credentials().end_session(&secret).await? {
            let by = caller.map(|caller| caller.who());
            tracing::info!(audit.action = "sign_out", audit.by = by, "signed out");
        }
    }
    let forgotten = cookie::forgotten(is_secure);
    let answer = (StatusCode::NO_CONTENT, NOT_KEPT, [(SET_COOKIE, forgotten)]);
    Ok(answer.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_signs_in_again_and_again_is_told_to_wait() {
        let sign_ins = SignIns::default();
        for _ in 0..SIGN_INS {
            assert_eq!(sign_ins.count("ada"), Ok(()));
        }
        let refused = sign_ins.count("ada").unwrap_err();
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(60)));
        assert_eq!(sign_ins.count("grace"), Ok(()));
    }

    #[test]
    fn what_a_request_says_of_its_scheme_counts_before_the_settings() {
        let rules = |public: Option<&'static str>| SessionRules {
            public: public.map(Uri::from_static),
            ..SessionRules::default()
        };
        let public = Some("https://spindle.example.org");
        for (public, header, value, expected) in [
            (None, "host", "a", false),
            (public, "host", "a", true),
            (public, "x-forwarded-proto", "http", false),
            (public, "origin", "http://10.0.0.7:7070", false),
            (None, "x-forwarded-proto", "https, http", true),
            (None, "origin", "https://a", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header, value.parse().unwrap());
            assert_eq!(
                rules(public).is_secure(&headers),
                expected,
                "{header}: {value}"
            );
        }
    }
}
