//! Credentials and their permissions: API keys of projects and tokens of users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{AppId, ProjectId};

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Report,
    Read,
}

impl Scope {
    /// The name in the API and in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Read => "read",
        }
    }
}

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads runs.
    Viewer,
    /// Starts processes.
    Starter,
    /// Viewer and starter, and may trigger a rescan.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// Whether this role includes the permissions of `needed`.
    pub fn covers(self, needed: Role) -> bool {
        match self {
            Role::Admin => true,
            Role::Operator => needed != Role::Admin,
            Role::Viewer | Role::Starter => self == needed,
        }
    }

    /// All roles, least first.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Starter, Role::Operator, Role::Admin];

    /// The name on the API and in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Starter => "starter",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// An authenticated credential, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Key {
        /// Public identifier of the key, for lists and logs.
        id: String,
        /// The only project whose data the key reaches.
        project: ProjectId,
        /// The app of events that name none.
        default_app: AppId,
        scopes: Vec<Scope>,
    },
    /// A token of a user or an operator.
    Token {
        /// Public identifier of the token.
        id: String,
        /// For display; may be empty.
        name: String,
        role: Role,
        /// The projects that it is limited to; `None` means all.
        projects: Option<Vec<ProjectId>>,
        /// Unix milliseconds; `None` means never.
        expires_at_ms: Option<i64>,
    },
    /// A user authenticated by an identity provider, until the token from that provider expires.
    Person {
        /// The provider's stable id of the user (`sub`).
        id: String,
        /// The user's name, for lists and logs.
        name: String,
        /// Viewer and starter do not cover each other, so there may be several roles; none grants nothing.
        roles: Vec<Role>,
        /// The provider's names of the roles.
        provider_roles: Vec<String>,
        /// The projects that the user is limited to; `None` means all.
        projects: Option<Vec<ProjectId>>,
        /// Unix milliseconds.
        expires_at_ms: i64,
    },
}

impl Credential {
    /// Public identifier.
    pub fn id(&self) -> &str {
        match self {
            Self::Key { id, .. } | Self::Token { id, .. } | Self::Person { id, .. } => id,
        }
    }

    /// Whether one of the roles covers `needed`. A key has none.
    pub fn covers(&self, needed: Role) -> bool {
        match self {
            Self::Key { .. } => false,
            Self::Token { role, .. } => role.covers(needed),
            Self::Person { roles, .. } => roles.iter().any(|role| role.covers(needed)),
        }
    }

    /// Unix milliseconds; `None` means never.
    pub fn expires_at_ms(&self) -> Option<i64> {
        match self {
            Self::Key { .. } => None,
            Self::Token { expires_at_ms, .. } => *expires_at_ms,
            Self::Person { expires_at_ms, .. } => Some(*expires_at_ms),
        }
    }

    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms()
            .is_some_and(|expires_at_ms| expires_at_ms <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(roles: &[Role]) -> Credential {
        Credential::Person {
            id: "sub".to_owned(),
            name: "ada".to_owned(),
            roles: roles.to_vec(),
            provider_roles: Vec::new(),
            projects: None,
            expires_at_ms: 1000,
        }
    }

    #[test]
    fn viewer_and_starter_do_not_make_an_operator() {
        let both = person(&[Role::Viewer, Role::Starter]);
        assert!(both.covers(Role::Viewer) && both.covers(Role::Starter));
        assert!(!both.covers(Role::Operator) && !both.covers(Role::Admin));
        assert!(Role::ALL.iter().all(|role| !person(&[]).covers(*role)));
    }

    #[test]
    fn it_ends_at_its_moment_and_not_after_it() {
        assert!(!person(&[]).is_expired(999) && person(&[]).is_expired(1000));
    }

    #[test]
    fn roles_are_found_by_their_names() {
        for role in Role::ALL {
            assert_eq!(Role::named(role.as_str()), Some(role));
        }
        assert_eq!(Role::named("Admin"), None);
    }
}
