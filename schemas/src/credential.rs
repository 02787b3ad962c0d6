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
        /// What it may do.
        role: Role,
        /// The projects it is limited to; `None` means all.
        projects: Option<Vec<ProjectId>>,
    },
}
