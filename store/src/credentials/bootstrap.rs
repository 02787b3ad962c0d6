//! The first start: a project, a key and an admin token.

use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;

use super::directory::Credentials;
use super::records::{Created, NewKey, NewToken};
use super::secrets;
use crate::client::config::Secret;
use crate::error::StoreError;

/// The project of the first start, and its app.
const DEFAULT: &str = "default";
/// Name of the key and the token of the first start.
const FIRST: &str = "first start";

/// Secrets from the environment, in place of random ones.
#[derive(Clone, Debug, Default)]
pub struct GivenSecrets {
    pub api_key: Option<Secret>,
    pub admin_token: Option<Secret>,
}

/// New secrets, to be shown once. Empty at later starts, and for secrets from the environment.
#[derive(Clone, Debug, Default)]
pub struct NewSecrets {
    pub api_key: Option<Secret>,
    pub admin_token: Option<Secret>,
}

impl Credentials {
    /// Makes sure that there is a project `default`, a key for it and an admin token. A given secret is valid
    /// afterwards unless it was revoked: revoked stays revoked.
    pub async fn bootstrap(&self, given: GivenSecrets) -> Result<NewSecrets, StoreError> {
        self.admit(given).await?;
        let mut new = NewSecrets::default();
        if self.keys(None).await?.is_empty() {
            new.api_key = Some(self.first_key(None).await?.secret);
        }
        if self.tokens().await?.is_empty() {
            new.admin_token = Some(self.first_token(None).await?.secret);
        }
        self.refresh().await?;
        Ok(new)
    }

    /// Makes sure that there is a project `default` and that the given secrets are valid, unless they were revoked.
    /// Creates no secret: several processes with the same secrets may call this at once.
    pub async fn admit(&self, given: GivenSecrets) -> Result<(), StoreError> {
        if !self
            .projects()
            .await?
            .iter()
            .any(|known| known.project_id == DEFAULT)
        {
            let project = ProjectId::new(DEFAULT);
            self.put_project(&project, DEFAULT, &[]).await?;
        }
        if let Some(secret) = given.api_key {
            let id = public_id("key", &secret);
            if !self.keys(None).await?.iter().any(|key| key.id == id) {
                self.first_key(Some(secret)).await?;
            }
        }
        if let Some(secret) = given.admin_token {
            let id = public_id("tok", &secret);
            if !self.tokens().await?.iter().any(|token| token.id == id) {
                self.first_token(Some(secret)).await?;
            }
        }
        self.refresh().await
    }

    async fn first_key(&self, secret: Option<Secret>) -> Result<Created, StoreError> {
        let key = NewKey {
            project: ProjectId::new(DEFAULT),
            name: FIRST.to_owned(),
            scopes: vec![Scope::Report, Scope::Read],
            secret,
        };
        self.create_key(key).await
    }

    async fn first_token(&self, secret: Option<Secret>) -> Result<Created, StoreError> {
        let token = NewToken {
            name: FIRST.to_owned(),
            role: Role::Admin,
            projects: None,
            // No expiry: the clock must not lock out the operator who set the server up.
            expires_at_ms: None,
            secret,
        };
        self.create_token(token).await
    }
}

fn public_id(prefix: &str, secret: &Secret) -> String {
    secrets::public_id(prefix, &secrets::hash(secret.reveal()))
}
