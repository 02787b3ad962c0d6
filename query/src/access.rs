//! Who asks, and what they may see and do. The project of every read comes from here and from nowhere else (T1).

mod claims;
pub(crate) mod cookie;
mod identity;
pub(crate) mod jwks;
pub(crate) mod jwt;
mod look_up;
pub(crate) mod presented;
mod provider;
mod same_site;
#[cfg(test)]
mod test_keys;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemas::client_address::ClientAddress;
use schemas::credential::{Credential, Role, Scope};
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::timestamp::{UnixMs, to_text};
use store::StoreError;
use store::config::Secret;
use store::credentials::{Examined, NewSession, Session, StandsFor, Started};
use store::filter_sql::Projects;
use store::shares::Holder;

use crate::error::Refusal;
use crate::state::{QueryState, now_ms};
pub use claims::ClaimRules;
pub(crate) use identity::IdentityMetrics;
pub use identity::{Identity, IdentityConfig};
pub use jwt::SigningAlgorithm;
pub(crate) use look_up::client;
pub(crate) use provider::{Provider, ProviderError};
pub(crate) use same_site::check as check_site;

use identity::Denied;
use jwt::Jwt;
use look_up::{cached, kind};
use presented::presented;

/// Longest secret of ours that is looked up. They have about 70 bytes; the bound keeps hashing small (X1).
const OWN_SECRET_BYTES: usize = 512;
/// What is said of a secret that is nobody's.
const UNKNOWN: &str = "the credential is not known, or it was revoked";
/// What is said of a session that is nobody's any more.
const SIGNED_OUT: &str = "the session has ended; sign in again";
/// Seconds after which a client may ask again when credentials could not be looked up.
const UNAVAILABLE_RETRY_S: u32 = 2;

/// Somebody with a good credential.
pub(crate) struct Caller {
    credential: Arc<Credential>,
    /// When what was presented ends by itself, Unix milliseconds.
    ends_at_ms: Option<UnixMs>,
    /// What was presented, so that a long answer can ask again.
    shown: Shown,
}

/// What somebody presents.
#[derive(Clone)]
enum Shown {
    /// In `Authorization`: a key, a token of ours, or one of the identity provider.
    Secret(Secret),
    /// In the cookie: that of a session.
    Session(Secret),
}

/// What became of a secret that was presented.
enum Answer {
    /// It is good, and when it ends by itself, Unix milliseconds.
    Good(Arc<Credential>, Option<UnixMs>),
    /// It is not, for this reason.
    Refused(Fault),
}

async fn examine(state: &QueryState, shown: &Shown) -> Result<Answer, StoreError> {
    match shown {
        Shown::Secret(secret) => examine_secret(state, secret.reveal()).await,
        Shown::Session(secret) => examine_session(state, secret.reveal()).await,
    }
}

/// Asks whose session this is, and what they may do now.
async fn examine_session(state: &QueryState, secret: &str) -> Result<Answer, StoreError> {
    let now_ms = now_ms();
    let over = || Answer::Refused(Fault::unauthorized(SIGNED_OUT));
    let session = state.credentials().session(secret, now_ms).await?;
    let Session::Good {
        stands_for,
        expires_at_ms,
    } = session
    else {
        return Ok(over());
    };
    let credential = match stands_for {
        StandsFor::Token(token) => token,
        // Whoever trusts the provider no more, or gave its roles another meaning, means sessions too.
        StandsFor::Claims(claims) => {
            let person = state.identity().map(|it| it.person_again(&claims, now_ms));
            match person {
                Some(Ok(person)) => Arc::new(person),
                _ => return Ok(over()),
            }
        }
    };
    let ends_at_ms = credential
        .expires_at_ms()
        .map_or(expires_at_ms, |ends| ends.min(expires_at_ms));
    Ok(Answer::Good(credential, Some(ends_at_ms)))
}

/// Asks whose secret this is: the identity provider's if it has the form of one and there is a provider, else ours.
async fn examine_secret(state: &QueryState, secret: &str) -> Result<Answer, StoreError> {
    let good = |credential: Arc<Credential>| {
        let ends_at_ms = credential.expires_at_ms();
        Ok(Answer::Good(credential, ends_at_ms))
    };
    let refused = |message: String| Ok(Answer::Refused(Fault::unauthorized(message)));
    if let (Some(identity), Some(jwt)) = (state.identity(), Jwt::of(secret)) {
        return match identity.person(secret, &jwt, now_ms()).await {
            Ok(person) => good(person),
            Err(Denied::Refused(message)) => refused(message),
            Err(Denied::Unavailable) => {
                let message = "the keys of the identity provider are not known";
                Err(StoreError::Unavailable(message.to_owned()))
            }
        };
    }
    if secret.len() > OWN_SECRET_BYTES {
        return refused(UNKNOWN.to_owned());
    }
    match state.credentials().examine(secret, now_ms()).await? {
        Examined::Good(credential) => good(credential),
        Examined::Unknown => refused(UNKNOWN.to_owned()),
        Examined::Expired { at_ms } => refused(format!("the token expired at {}", to_text(at_ms))),
    }
}

impl FromRequestParts<QueryState> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &QueryState) -> Result<Self, Refusal> {
        Ok(match presented(&parts.headers) {
            // Whoever names a credential is not who the browser says.
            Some(secrets) => {
                let shown = secrets.into_iter().map(Secret::new);
                Self::first(state, client(parts), shown.map(Shown::Secret)).await?
            }
            None => Self::of_session(parts, state).await?,
        })
    }
}

/// The 503 of a credential that cannot be checked; it is logged here.
fn unchecked(error: &StoreError) -> Fault {
    match error {
        // A flood would fill the log; it is counted.
        StoreError::Overloaded { .. } => {
            tracing::debug!(error.message = %error, "credentials cannot be looked up");
        }
        _ => tracing::warn!(error.message = %error, "credentials cannot be looked up"),
    }
    let message = "credentials cannot be checked now; try again";
    Fault::unavailable(message, UNAVAILABLE_RETRY_S)
}

impl Caller {
    #[cfg(test)]
    pub(crate) fn with(credential: Credential) -> Self {
        Self {
            credential: Arc::new(credential),
            ends_at_ms: None,
            shown: Shown::Secret(Secret::default()),
        }
    }

    /// The caller behind the first of these that is good. Those that are known come first, and are never limited.
    async fn first(
        state: &QueryState,
        client: Option<ClientAddress>,
        shown: impl Iterator<Item = Shown>,
    ) -> Result<Self, Fault> {
        let is_known = |shown: &Shown| cached(state, shown) == Some(true);
        let (known, others): (Vec<Shown>, Vec<Shown>) = shown.partition(is_known);
        let failures = state.credentials().failures();
        let mut refused = Fault::unauthorized(UNKNOWN);
        let mut failed = None;
        for shown in known.into_iter().chain(others) {
            if cached(state, &shown).is_none() {
                failures.may_try(client)?;
                failed = Some(kind(state, &shown));
            }
            match examine(state, &shown).await {
                Ok(Answer::Good(credential, ends_at_ms)) => {
                    return Ok(Self {
                        credential,
                        ends_at_ms,
                        shown,
                    });
                }
                Ok(Answer::Refused(fault)) => refused = fault,
                Err(error) => return Err(unchecked(&error)),
            }
        }
        if let Some(what) = failed {
            failures.failed(client, what);
        }
        Err(refused)
    }

    /// Whoever is signed in, where it is one of our pages that asks.
    async fn of_session(parts: &Parts, state: &QueryState) -> Result<Self, Fault> {
        let is_secure = state.sessions().is_secure(&parts.headers);
        let Some(secret) = cookie::presented(&parts.headers, is_secure) else {
            let message = "a credential is required: send an API key or a token as `Authorization: Bearer <secret>`";
            return Err(Fault::unauthorized(message));
        };
        state.sessions().check_site(parts)?;
        Self::of_cookie(state, client(parts), &secret).await
    }

    /// The caller with the session of this secret.
    pub(crate) async fn of_cookie(
        state: &QueryState,
        client: Option<ClientAddress>,
        secret: &str,
    ) -> Result<Self, Fault> {
        let shown = Shown::Session(Secret::new(secret));
        Self::first(state, client, std::iter::once(shown)).await
    }

    /// The caller with this token, of ours or of the identity provider.
    pub(crate) async fn of_token(
        state: &QueryState,
        client: Option<ClientAddress>,
        token: &str,
    ) -> Result<Self, Fault> {
        if !(1..=presented::SECRET_BYTES).contains(&token.len()) {
            return Err(Fault::unauthorized(UNKNOWN));
        }
        let shown = Shown::Secret(Secret::new(token));
        Self::first(state, client, std::iter::once(shown)).await
    }

    /// Begins a session that stands for a token that was presented, and ends at `ends_at_ms` at the latest.
    ///
    /// # Errors
    /// 403 for what is no token of a person, or for a session itself; 503.
    pub(crate) async fn begin_session(
        &self,
        state: &QueryState,
        (now_ms, ends_at_ms): (UnixMs, UnixMs),
    ) -> Result<Started, Refusal> {
        let ends_at_ms = self
            .ends_at_ms
            .map_or(ends_at_ms, |own| own.min(ends_at_ms));
        let Shown::Secret(secret) = &self.shown else {
            return Err(Fault::forbidden("a session begins with a token").into());
        };
        let claims;
        let new = match &*self.credential {
            Credential::Key { .. } => return Err(for_programs().into()),
            Credential::Token { id, .. } => NewSession::Token {
                secret: secret.reveal(),
                id,
            },
            Credential::Person { id, .. } => {
                let kept = state.identity().and_then(|it| it.kept(secret.reveal()));
                claims = kept.ok_or_else(|| Fault::unauthorized(UNKNOWN))?;
                NewSession::Person {
                    id,
                    claims: &claims,
                }
            }
        };
        let credentials = state.credentials();
        Ok(credentials.start_session(new, now_ms, ends_at_ms).await?)
    }

    /// When what was presented ends by itself, Unix milliseconds; `None` for never.
    pub(crate) fn ends_at_ms(&self) -> Option<UnixMs> {
        self.ends_at_ms
    }

    /// What was presented.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The secret of whoever presented an API key: what lunary's Python client hashes into its ids.
    pub(crate) fn key(&self) -> Option<&str> {
        match (&*self.credential, &self.shown) {
            (Credential::Key { .. }, Shown::Secret(secret)) => Some(secret.reveal()),
            _ => None,
        }
    }

    /// The same caller now; `None` when the credential was revoked or has ended.
    pub(crate) async fn again(&self, state: &QueryState) -> Result<Option<Self>, StoreError> {
        Ok(match examine(state, &self.shown).await? {
            Answer::Good(credential, ends_at_ms) => Some(Self {
                credential,
                ends_at_ms,
                shown: self.shown.clone(),
            }),
            Answer::Refused(_) => None,
        })
    }

    /// Whom permits are taken for. A credential that reaches several projects is a tenant of its own.
    pub(crate) fn holder(&self) -> Holder {
        let (kind, id, projects) = match &*self.credential {
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

    /// Who this is, for lines of an audit and for what is kept of who did something: never a secret.
    pub(crate) fn who(&self) -> String {
        match &*self.credential {
            Credential::Key { id, .. } | Credential::Token { id, .. } => id.clone(),
            Credential::Person { id, name, .. } if id == name => id.clone(),
            Credential::Person { id, name, .. } => format!("{name} ({id})"),
        }
    }

    /// Whether one of the caller's roles covers `needed`. An API key has none.
    pub(crate) fn covers(&self, needed: Role) -> bool {
        self.credential.covers(needed)
    }

    /// Whether the caller holds the role that somebody wrote down by its name: one of ours where we have one of that
    /// name, and otherwise one that the identity provider gave them.
    pub(crate) fn holds_role_named(&self, name: &str) -> bool {
        match (Role::named(name), &*self.credential) {
            (Some(role), _) => self.covers(role),
            (None, Credential::Person { provider_roles, .. }) => {
                provider_roles.iter().any(|role| role == name)
            }
            (None, _) => false,
        }
    }

    /// The projects whose runs the caller may read; the one they chose, if they chose one.
    pub(crate) fn readable(&self, chosen: Option<&str>) -> Result<Projects, Fault> {
        let all = match &*self.credential {
            Credential::Key {
                project, scopes, ..
            } if scopes.contains(&Scope::Read) => Projects::Only(vec![project.as_str().to_owned()]),
            Credential::Key { .. } => {
                return Err(Fault::forbidden("this API key lacks the scope `read`"));
            }
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if self.covers(Role::Viewer) =>
            {
                names(projects.as_deref())?
            }
            Credential::Token { .. } | Credential::Person { .. } => {
                return Err(Fault::forbidden("this token lacks the role `viewer`"));
            }
        };
        within(all, chosen)
    }

    /// The projects whose runs the caller may judge and save: whoever reports them, and people who read them.
    pub(crate) fn judging(&self, chosen: Option<&str>) -> Result<Projects, Fault> {
        match &*self.credential {
            Credential::Key {
                project, scopes, ..
            } if scopes.contains(&Scope::Report) => {
                within(Projects::Only(vec![project.as_str().to_owned()]), chosen)
            }
            Credential::Key { .. } => {
                Err(Fault::forbidden("this API key lacks the scope `report`"))
            }
            Credential::Token { .. } | Credential::Person { .. } => self.readable(chosen),
        }
    }

    /// The projects in which the caller may start processes.
    pub(crate) fn starting(&self, chosen: Option<&str>) -> Result<Projects, Fault> {
        match &*self.credential {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if self.covers(Role::Starter) =>
            {
                within(names(projects.as_deref())?, chosen)
            }
            _ => Err(Fault::forbidden(
                "this needs a token with the role `starter`, `operator` or `admin`",
            )),
        }
    }

    /// Who is kept as the one who started something: a person of the identity provider is told from a token, whatever
    /// the provider calls them.
    pub(crate) fn starter(&self) -> String {
        match &*self.credential {
            Credential::Person { id, .. } => format!("oidc:{id}"),
            credential => credential.id().to_owned(),
        }
    }

    /// Whether the caller may see what is inside of runs, and so of instances.
    pub(crate) fn sees_content(&self) -> bool {
        matches!(&*self.credential, Credential::Key { .. }) || self.covers(Role::Viewer)
    }

    /// The projects the caller reaches with any role at all, to see what is in them beside runs.
    pub(crate) fn reached(&self, chosen: Option<&str>) -> Result<Projects, Fault> {
        let has_role = || Role::ALL.iter().any(|role| self.covers(*role));
        match &*self.credential {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if has_role() =>
            {
                within(names(projects.as_deref())?, chosen)
            }
            _ => self.readable(chosen),
        }
    }

    /// The projects the caller may administer.
    pub(crate) fn administered(&self) -> Result<Projects, Fault> {
        match &*self.credential {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if self.covers(Role::Admin) =>
            {
                names(projects.as_deref())
            }
            _ => Err(Fault::forbidden("this needs a token with the role `admin`")),
        }
    }

    /// Nothing if the caller may administer everything.
    pub(crate) fn administers_all(&self) -> Result<(), Fault> {
        match self.administered()? {
            Projects::All => Ok(()),
            Projects::Only(_) => Err(Fault::forbidden(
                "this needs a token with the role `admin` that is not limited to projects",
            )),
        }
    }

    /// Nothing if the caller may see how everything works.
    pub(crate) fn operates_all(&self) -> Result<(), Fault> {
        match &*self.credential {
            Credential::Token { projects: None, .. }
            | Credential::Person { projects: None, .. }
                if self.covers(Role::Operator) =>
            {
                Ok(())
            }
            _ => Err(Fault::forbidden(
                "this needs a token with the role `operator` or `admin` that is not limited to projects",
            )),
        }
    }
}

/// The 403 for an API key where a person is meant.
pub(crate) fn for_programs() -> Fault {
    Fault::forbidden("an API key is for programs; sign in with a token")
}

/// All of them, or the one that was chosen.
fn within(all: Projects, chosen: Option<&str>) -> Result<Projects, Fault> {
    match (chosen, all) {
        (None, all) => Ok(all),
        (Some(chosen), Projects::All) => Ok(Projects::Only(vec![chosen.to_owned()])),
        (Some(chosen), Projects::Only(all)) if all.iter().any(|project| project == chosen) => {
            Ok(Projects::Only(vec![chosen.to_owned()]))
        }
        (Some(_), _) => Err(Fault::forbidden(
            "this credential does not reach the project of `project_id`",
        )),
    }
}

/// Whether this is one project and no more: then an answer does not name it.
pub(crate) fn is_one(projects: &Projects) -> bool {
    matches!(projects, Projects::Only(projects) if projects.len() == 1)
}

/// The projects a token reaches. One that reaches none is refused, rather than answered with nothing.
fn names(projects: Option<&[ProjectId]>) -> Result<Projects, Fault> {
    match projects {
        None => Ok(Projects::All),
        Some([]) => Err(Fault::forbidden("this token reaches no project")),
        Some(projects) => {
            let names = projects.iter().map(|project| project.as_str().to_owned());
            Ok(Projects::Only(names.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::AppId;

    fn key(scopes: &[Scope]) -> Caller {
        Caller::with(Credential::Key {
            id: "k".to_owned(),
            project: ProjectId::new("ours"),
            default_app: AppId::new("a"),
            scopes: scopes.to_vec(),
        })
    }

    fn token(role: Role, projects: Option<&[&str]>) -> Caller {
        let projects = projects.map(|projects| {
            projects
                .iter()
                .map(|project| ProjectId::new(*project))
                .collect()
        });
        Caller::with(Credential::Token {
            id: "t".to_owned(),
            name: String::new(),
            role,
            projects,
            expires_at_ms: None,
        })
    }

    fn person(roles: &[Role], projects: Option<&[&str]>) -> Caller {
        let projects =
            projects.map(|projects| projects.iter().map(|p| ProjectId::new(*p)).collect());
        Caller::with(Credential::Person {
            id: "u-1".to_owned(),
            name: "ada".to_owned(),
            roles: roles.to_vec(),
            provider_roles: vec!["approvers".to_owned(), "admin".to_owned()],
            projects,
            expires_at_ms: 0,
        })
    }

    fn only(projects: &[&str]) -> Projects {
        Projects::Only(
            projects
                .iter()
                .map(|project| (*project).to_owned())
                .collect(),
        )
    }

    #[test]
    fn a_key_reads_its_project_and_no_other_t1() {
        let key = key(&[Scope::Read]);
        assert_eq!(key.readable(None), Ok(only(&["ours"])));
        assert_eq!(key.readable(Some("ours")), Ok(only(&["ours"])));
        assert_eq!(
            key.readable(Some("theirs")).map_err(|fault| fault.status),
            Err(403)
        );
        assert_eq!(key.administered().map_err(|fault| fault.status), Err(403));
    }

    #[test]
    fn a_key_that_only_reports_reads_nothing() {
        assert_eq!(
            key(&[Scope::Report])
                .readable(None)
                .map_err(|fault| fault.status),
            Err(403)
        );
    }

    #[test]
    fn a_token_reads_what_its_role_and_projects_allow_t1() {
        assert_eq!(token(Role::Viewer, None).readable(None), Ok(Projects::All));
        assert_eq!(
            token(Role::Admin, None).readable(Some("any")),
            Ok(only(&["any"]))
        );
        assert_eq!(
            token(Role::Operator, Some(&["a", "b"])).readable(None),
            Ok(only(&["a", "b"]))
        );
        assert_eq!(
            token(Role::Viewer, Some(&["a", "b"])).readable(Some("b")),
            Ok(only(&["b"]))
        );
        assert_eq!(
            token(Role::Admin, Some(&["a"]))
                .readable(Some("b"))
                .map_err(|fault| fault.status),
            Err(403)
        );
        assert_eq!(
            token(Role::Starter, None)
                .readable(None)
                .map_err(|fault| fault.status),
            Err(403)
        );
    }

    #[test]
    fn runs_are_judged_by_keys_that_report_and_people_who_read_t1() {
        assert_eq!(key(&[Scope::Report]).judging(None), Ok(only(&["ours"])));
        let refused = |caller: Caller, chosen| caller.judging(chosen).map_err(|fault| fault.status);
        assert_eq!(refused(key(&[Scope::Report]), Some("theirs")), Err(403));
        assert_eq!(refused(key(&[Scope::Read]), None), Err(403));
        assert_eq!(refused(token(Role::Starter, None), None), Err(403));
        assert_eq!(
            refused(token(Role::Viewer, Some(&["a"])), Some("b")),
            Err(403)
        );
        assert_eq!(
            token(Role::Viewer, Some(&["a"])).judging(None),
            Ok(only(&["a"]))
        );
    }

    #[test]
    fn only_an_unlimited_admin_administers_everything() {
        assert!(token(Role::Admin, None).administers_all().is_ok());
        assert!(token(Role::Admin, Some(&["a"])).administers_all().is_err());
        assert!(token(Role::Operator, None).administers_all().is_err());
        assert_eq!(
            token(Role::Admin, Some(&["a"])).administered(),
            Ok(only(&["a"]))
        );
    }

    #[test]
    fn a_person_is_a_token_with_all_of_their_roles_t1() {
        let both = person(&[Role::Viewer, Role::Starter], Some(&["a"]));
        assert_eq!(both.readable(None), Ok(only(&["a"])));
        assert!(both.covers(Role::Starter) && !both.covers(Role::Operator));
        let refused = |fault: Result<Projects, Fault>| fault.map_err(|fault| fault.status);
        assert_eq!(refused(both.readable(Some("b"))), Err(403));
        assert_eq!(refused(both.administered()), Err(403));
        assert_eq!(refused(person(&[], None).readable(None)), Err(403));
        let nowhere = person(&[Role::Admin], Some(&[]));
        assert_eq!(refused(nowhere.readable(None)), Err(403));
        assert_eq!(refused(nowhere.administered()), Err(403));
        assert!(nowhere.administers_all().is_err());
        assert!(person(&[Role::Admin], None).administers_all().is_ok());
        assert_eq!(both.who(), "ada (u-1)");
    }

    #[test]
    fn a_role_by_name_is_one_of_ours_or_one_of_the_provider() {
        let starter = person(&[Role::Starter], None);
        assert!(starter.holds_role_named("starter") && starter.holds_role_named("approvers"));
        assert!(!starter.holds_role_named("operator") && !starter.holds_role_named(""));
        // The provider calls them so, and means something else.
        assert!(!starter.holds_role_named("admin"));
        let operator = token(Role::Operator, None);
        assert!(operator.holds_role_named("starter") && !operator.holds_role_named("approvers"));
        assert!(!key(&[Scope::Read, Scope::Report]).holds_role_named("viewer"));
    }
}
