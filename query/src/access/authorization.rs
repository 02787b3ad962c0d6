//! Authorization: what the caller of a request may do, and in which projects (T1).

use schemas::api_error::ApiError;
use schemas::credential::{Credential, Role, Scope};
use schemas::ids::ProjectId;
use store::reads::filter_sql::Projects;

use super::Caller;

impl Caller {
    /// Whether one of the caller's roles covers `needed`. An API key has no role.
    pub(crate) fn covers(&self, needed: Role) -> bool {
        self.credential().covers(needed)
    }

    /// Whether the caller holds the role of this name: one of [`Role`], or a role that the identity provider assigned.
    pub(crate) fn holds_role_named(&self, name: &str) -> bool {
        match (Role::named(name), self.credential()) {
            (Some(role), _) => self.covers(role),
            (None, Credential::Person { provider_roles, .. }) => {
                provider_roles.iter().any(|role| role == name)
            }
            (None, _) => false,
        }
    }

    /// Projects whose runs the caller may read, narrowed to `chosen`.
    pub(crate) fn readable(&self, chosen: Option<&str>) -> Result<Projects, ApiError> {
        let all = match self.credential() {
            Credential::Key {
                project, scopes, ..
            } => of_key(project, scopes, Scope::Read)?,
            Credential::Token { projects, .. } | Credential::Person { projects, .. } => {
                if !self.covers(Role::Viewer) {
                    return Err(ApiError::forbidden("this token lacks the role `viewer`"));
                }
                of_token(projects.as_deref())?
            }
        };
        narrow(all, chosen)
    }

    /// Projects whose runs the caller may rate and save: those that a key reports to, or a token may read.
    pub(crate) fn ratable(&self, chosen: Option<&str>) -> Result<Projects, ApiError> {
        match self.credential() {
            Credential::Key {
                project, scopes, ..
            } => narrow(of_key(project, scopes, Scope::Report)?, chosen),
            Credential::Token { .. } | Credential::Person { .. } => self.readable(chosen),
        }
    }

    /// Projects in which the caller may start processes.
    pub(crate) fn startable(&self, chosen: Option<&str>) -> Result<Projects, ApiError> {
        self.check_scheme()?;
        match self.credential() {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if self.covers(Role::Starter) =>
            {
                narrow(of_token(projects.as_deref())?, chosen)
            }
            _ => Err(ApiError::forbidden(
                "this needs a token with the role `starter`, `operator` or `admin`",
            )),
        }
    }

    /// Whether the caller may read the content of runs, and so the input of process instances.
    pub(crate) fn reads_content(&self) -> bool {
        matches!(self.credential(), Credential::Key { .. }) || self.covers(Role::Viewer)
    }

    /// Projects that the caller reaches with any role, for everything but runs.
    pub(crate) fn reachable(&self, chosen: Option<&str>) -> Result<Projects, ApiError> {
        let has_role = || Role::ALL.iter().any(|role| self.covers(*role));
        match self.credential() {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if has_role() =>
            {
                narrow(of_token(projects.as_deref())?, chosen)
            }
            _ => self.readable(chosen),
        }
    }

    /// Projects that the caller may administer.
    pub(crate) fn administered(&self) -> Result<Projects, ApiError> {
        self.check_scheme()?;
        match self.credential() {
            Credential::Token { projects, .. } | Credential::Person { projects, .. }
                if self.covers(Role::Admin) =>
            {
                of_token(projects.as_deref())
            }
            _ => Err(ApiError::forbidden(
                "this needs a token with the role `admin`",
            )),
        }
    }

    /// # Errors
    /// 403 unless the caller administers all projects.
    pub(crate) fn administers_all(&self) -> Result<(), ApiError> {
        match self.administered()? {
            Projects::All => Ok(()),
            Projects::Only(_) => Err(ApiError::forbidden(
                "this needs a token with the role `admin` that is not limited to projects",
            )),
        }
    }

    /// # Errors
    /// 403 without the role `operator`.
    pub(crate) fn operates(&self) -> Result<(), ApiError> {
        self.check_scheme()?;
        match self.covers(Role::Operator) {
            true => Ok(()),
            false => Err(ApiError::forbidden(
                "this needs a token with the role `operator` or `admin`",
            )),
        }
    }

    /// # Errors
    /// 403 unless the caller is an operator of all projects.
    pub(crate) fn operates_all(&self) -> Result<(), ApiError> {
        self.check_scheme()?;
        match self.credential() {
            Credential::Token { projects: None, .. }
            | Credential::Person { projects: None, .. }
                if self.covers(Role::Operator) =>
            {
                Ok(())
            }
            _ => Err(ApiError::forbidden(
                "this needs a token with the role `operator` or `admin` that is not limited to projects",
            )),
        }
    }
}

/// The 403 for an API key where a token is required.
pub(crate) fn needs_token() -> ApiError {
    ApiError::forbidden("an API key is for programs; sign in with a token")
}

/// # Errors
/// 403 for a project outside of these.
pub(crate) fn check_reached(projects: &Projects, project_id: &str) -> Result<(), ApiError> {
    if projects.has(project_id) {
        return Ok(());
    }
    let message = format!("this token does not reach the project `{project_id}`");
    Err(ApiError::forbidden(message))
}

/// Whether this is exactly one project: then responses do not name it.
pub(crate) fn is_one(projects: &Projects) -> bool {
    matches!(projects, Projects::Only(projects) if projects.len() == 1)
}

fn narrow(all: Projects, chosen: Option<&str>) -> Result<Projects, ApiError> {
    match chosen {
        None => Ok(all),
        Some(chosen) if all.has(chosen) => Ok(Projects::Only(vec![chosen.to_owned()])),
        Some(_) => Err(ApiError::forbidden(
            "this credential does not reach the project of `project_id`",
        )),
    }
}

fn of_key(project: &ProjectId, scopes: &[Scope], needed: Scope) -> Result<Projects, ApiError> {
    if scopes.contains(&needed) {
        return Ok(Projects::Only(vec![project.as_str().to_owned()]));
    }
    let message = format!("this API key lacks the scope `{}`", needed.as_str());
    Err(ApiError::forbidden(message))
}

/// Projects of a token; a token without any is an error rather than an empty answer.
fn of_token(projects: Option<&[ProjectId]>) -> Result<Projects, ApiError> {
    match projects {
        None => Ok(Projects::All),
        Some([]) => Err(ApiError::forbidden("this token reaches no project")),
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
            key.readable(Some("theirs")).map_err(|error| error.status),
            Err(403)
        );
        assert_eq!(key.administered().map_err(|error| error.status), Err(403));
    }

    #[test]
    fn a_key_that_only_reports_reads_nothing() {
        assert_eq!(
            key(&[Scope::Report])
                .readable(None)
                .map_err(|error| error.status),
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
                .map_err(|error| error.status),
            Err(403)
        );
        assert_eq!(
            token(Role::Starter, None)
                .readable(None)
                .map_err(|error| error.status),
            Err(403)
        );
    }

    #[test]
    fn runs_are_rated_by_keys_that_report_and_tokens_that_read_t1() {
        assert_eq!(key(&[Scope::Report]).ratable(None), Ok(only(&["ours"])));
        let status = |caller: Caller, chosen| caller.ratable(chosen).map_err(|error| error.status);
        assert_eq!(status(key(&[Scope::Report]), Some("theirs")), Err(403));
        assert_eq!(status(key(&[Scope::Read]), None), Err(403));
        assert_eq!(status(token(Role::Starter, None), None), Err(403));
        assert_eq!(
            status(token(Role::Viewer, Some(&["a"])), Some("b")),
            Err(403)
        );
        assert_eq!(
            token(Role::Viewer, Some(&["a"])).ratable(None),
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
    fn a_person_has_all_mapped_roles_t1() {
        let both = person(&[Role::Viewer, Role::Starter], Some(&["a"]));
        assert_eq!(both.readable(None), Ok(only(&["a"])));
        assert!(both.covers(Role::Starter) && !both.covers(Role::Operator));
        let status = |error: Result<Projects, ApiError>| error.map_err(|error| error.status);
        assert_eq!(status(both.readable(Some("b"))), Err(403));
        assert_eq!(status(both.administered()), Err(403));
        assert_eq!(status(person(&[], None).readable(None)), Err(403));
        let nowhere = person(&[Role::Admin], Some(&[]));
        assert_eq!(status(nowhere.readable(None)), Err(403));
        assert_eq!(status(nowhere.administered()), Err(403));
        assert!(nowhere.administers_all().is_err());
        assert!(person(&[Role::Admin], None).administers_all().is_ok());
        assert_eq!(both.audit_name(), "ada (u-1)");
    }

    #[test]
    fn a_role_name_is_built_in_or_assigned_by_the_provider() {
        let starter = person(&[Role::Starter], None);
        assert!(starter.holds_role_named("starter") && starter.holds_role_named("approvers"));
        assert!(!starter.holds_role_named("operator") && !starter.holds_role_named(""));
        // A role of the provider with the name of a built-in role is not that role.
        assert!(!starter.holds_role_named("admin"));
        let operator = token(Role::Operator, None);
        assert!(operator.holds_role_named("starter") && !operator.holds_role_named("approvers"));
        assert!(!key(&[Scope::Read, Scope::Report]).holds_role_named("viewer"));
    }
}
