//! Who calls, and what they may do: API keys of projects and tokens of people.

use serde::{Deserialize, Serialize};

use crate::ids::{AppId, ProjectId};

/// What an API key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Report events.
    Report,
    /// Read runs.
    Read,
}

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Whether a bearer with this role may do what `needed` may.
    pub fn covers(self, needed: Role) -> bool {
        match self {
            Role::Admin => true,
            Role::Operator => needed != Role::Admin,
            Role::Viewer | Role::Starter => self == needed,
        }
    }

    /// All of them, least first.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Starter, Role::Operator, Role::Admin];

    /// Its name, as the API and the settings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Starter => "starter",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// A credential that was presented and found good. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API key of one project.
    Key {
        /// Public identifier of the key, for lists and logs.
        id: String,
        /// The project whose data the key reaches, and no other.
        project: ProjectId,
        /// The app events belong to when they name none.
        default_app: AppId,
        /// What it may do.
        scopes: Vec<Scope>,
    },
    /// A token of a person or an operator.
    Token {
        /// Public identifier of the token.
        id: String,
        /// What people call it; may be empty.
        name: String,
        /// What it may do.
        role: Role,
        /// The projects it is limited to; `None` means all.
        projects: Option<Vec<ProjectId>>,
        /// When it ends, Unix milliseconds; `None` means never.
        expires_at_ms: Option<i64>,
    },
    /// Somebody for whom an identity provider vouches, until the token it gave them ends.
    Person {
        /// Who, in the provider's words that stay the same (`sub`).
        id: String,
        /// What people call them, for lists and logs.
        name: String,
        /// What they may do. Viewer and starter do not cover each other, so there may be several; none grants nothing.
        roles: Vec<Role>,
        /// Their roles as the provider calls them.
        provider_roles: Vec<String>,
        /// The projects they are limited to; `None` means all.
        projects: Option<Vec<ProjectId>>,
        /// When it ends, Unix milliseconds.
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

    /// Whether one of the roles of the bearer covers `needed`. A key has none.
    pub fn covers(&self, needed: Role) -> bool {
        match self {
            Self::Key { .. } => false,
            Self::Token { role, .. } => role.covers(needed),
            Self::Person { roles, .. } => roles.iter().any(|role| role.covers(needed)),
        }
    }

    /// When it ends by itself, Unix milliseconds; `None` means never.
    pub fn expires_at_ms(&self) -> Option<i64> {
        match self {
            Self::Key { .. } => None,
            Self::Token { expires_at_ms, .. } => *expires_at_ms,
            Self::Person { expires_at_ms, .. } => Some(*expires_at_ms),
        }
    }

    /// Whether it has ended at `now_ms`.
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
