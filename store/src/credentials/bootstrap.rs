//! The first start: a project, a key and an admin token.

use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;

use super::directory::Credentials;
use super::records::{Created, NewKey, NewToken};
use super::secrets;
use crate::config::Secret;
use crate::error::StoreError;

/// The project made at the first start, and its app.
const DEFAULT: &str = "default";
/// What the key and the token of the first start are called.
const FIRST: &str = "first start";

/// Secrets set from outside instead of made.
#[derive(Clone, Debug, Default)]
pub struct GivenSecrets {
    /// Secret of the API key of the project `default`.
    pub api_key: Option<Secret>,
    /// Secret of the admin token.
    pub admin_token: Option<Secret>,
}

/// What was made now, to be shown once. Nothing at a later start, and nothing that was given from outside.
#[derive(Clone, Debug, Default)]
pub struct NewSecrets {
    /// Secret of the new API key.
    pub api_key: Option<Secret>,
    /// Secret of the new admin token.
    pub admin_token: Option<Secret>,
}

impl Credentials {
    /// Sees to it that there is a project `default`, a key for it and an admin token. A given secret is good after
    /// this unless it was revoked: revoked stays revoked.
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

    /// Sees to it that there is a project `default` and that what is given is good, unless it was revoked. Makes no
    /// secret: several processes that are given the same may do this at once.
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
            // Whoever set the server up must not be locked out by the clock.
            expires_at_ms: None,
            secret,
        };
        self.create_token(token).await
    }
}

fn public_id(prefix: &str, secret: &Secret) -> String {
    secrets::public_id(prefix, &secrets::hash(secret.reveal()))
}
