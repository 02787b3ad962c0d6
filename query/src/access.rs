//! Who asks, and what they may see and do. The project of every read comes from here and from nowhere else (T1).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use schemas::credential::{Credential, Role, Scope};
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use store::StoreError;
use store::config::Secret;
use store::filter_sql::Projects;

use crate::error::Refusal;
use crate::state::QueryState;

/// Longest secret that is looked up. Ours are about 70 bytes; the bound keeps hashing and caches small (X1).
const SECRET_BYTES: usize = 512;
/// Seconds after which a client may ask again when credentials could not be looked up.
const UNAVAILABLE_RETRY_S: u32 = 2;

/// Somebody with a good credential.
pub(crate) struct Caller {
    credential: Arc<Credential>,
    /// What was presented, so that a long answer can ask again.
    secret: Secret,
}

impl FromRequestParts<QueryState> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &QueryState) -> Result<Self, Refusal> {
        let secrets = presented(&parts.headers);
        let Some(secrets) = secrets else {
            let message = "a credential is required: send an API key or a token as `Authorization: Bearer <secret>`";
            return Err(Fault::unauthorized(message).into());
        };
        for secret in &secrets {
            match state.credentials().authenticate(secret).await {
                Ok(Some(credential)) => {
                    let secret = Secret::new(secret.as_str());
                    return Ok(Self { credential, secret });
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error.message = %error, "credentials cannot be looked up");
                    let message = "credentials cannot be checked now; try again";
                    return Err(Fault::unavailable(message, UNAVAILABLE_RETRY_S).into());
                }
            }
        }
        Err(Fault::unauthorized("the credential is not known, or it was revoked").into())
    }
}

impl Caller {
    #[cfg(test)]
    pub(crate) fn with(credential: Credential) -> Self {
        Self {
            credential: Arc::new(credential),
            secret: Secret::default(),
        }
    }

    /// What was presented.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The same caller now; `None` when the credential was revoked.
    pub(crate) async fn again(&self, state: &QueryState) -> Result<Option<Self>, StoreError> {
        let found = state
            .credentials()
            .authenticate(self.secret.reveal())
            .await?;
        Ok(found.map(|credential| Self {
            credential,
            secret: self.secret.clone(),
        }))
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
            Credential::Token { role, projects, .. } if role.covers(Role::Viewer) => {
                names(projects.as_deref())
            }
            Credential::Token { .. } => {
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
            Credential::Token { .. } => self.readable(chosen),
        }
    }

    /// The projects the caller may administer.
    pub(crate) fn administered(&self) -> Result<Projects, Fault> {
        match &*self.credential {
            Credential::Token {
                role: Role::Admin,
                projects,
                ..
            } => Ok(names(projects.as_deref())),
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

/// Whether `project` is one of `projects`.
pub(crate) fn reaches(projects: &Projects, project: &str) -> bool {
    match projects {
        Projects::All => true,
        Projects::Only(projects) => projects.iter().any(|known| known == project),
    }
}

/// Whether this is one project and no more: then an answer does not name it.
pub(crate) fn is_one(projects: &Projects) -> bool {
    matches!(projects, Projects::Only(projects) if projects.len() == 1)
}

fn names(projects: Option<&[ProjectId]>) -> Projects {
    match projects {
        None => Projects::All,
        Some(projects) => Projects::Only(
            projects
                .iter()
                .map(|project| project.as_str().to_owned())
                .collect(),
        ),
    }
}

/// Reads `Authorization`: `Bearer <secret>`, `Basic` with the secret as user or password, or the bare secret.
/// `None` without the header.
fn presented(headers: &HeaderMap) -> Option<Vec<String>> {
    let text = headers
        .get(AUTHORIZATION)?
        .to_str()
        .unwrap_or_default()
        .trim();
    let secrets = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
            vec![rest.trim().to_owned()]
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => basic(rest.trim()),
        Some(_) => Vec::new(),
        None => vec![text.to_owned()],
    };
    Some(
        secrets
            .into_iter()
            .filter(|secret| (1..=SECRET_BYTES).contains(&secret.len()))
            .collect(),
    )
}

/// The password, then the user. Padding may be missing.
fn basic(encoded: &str) -> Vec<String> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let Some(pair) = LENIENT
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return Vec::new();
    };
    let (user, password) = pair.split_once(':').unwrap_or((&pair, ""));
    vec![password.to_owned(), user.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
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
            role,
            projects,
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
    fn the_secret_is_found_in_every_form_clients_send() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            presented(&headers)
        };
        assert_eq!(read("Bearer sp_key_1"), Some(vec!["sp_key_1".to_owned()]));
        assert_eq!(read("sp_key_1"), Some(vec!["sp_key_1".to_owned()]));
        assert_eq!(
            read("Basic c3Bfa2V5XzE6"),
            Some(vec!["sp_key_1".to_owned()])
        );
        assert_eq!(read("Digest x"), Some(vec![]));
        assert_eq!(presented(&HeaderMap::new()), None);
    }
}
