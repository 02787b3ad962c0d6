//! The first start: a project, a key and an admin token.

use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;

use super::directory::Credentials;
use super::records::{NewKey, NewToken};
use super::secrets;
use crate::config::Secret;
use crate::error::StoreError;

/// The project made at the first start, and its app.
const DEFAULT: &str = "default";

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
        let project = ProjectId::new(DEFAULT);
        if !self
            .projects()
            .await?
            .iter()
            .any(|known| known.project_id == DEFAULT)
        {
            self.put_project(&project, DEFAULT, &[]).await?;
        }
        let mut new = NewSecrets::default();
        let keys = self.keys(None).await?;
        let known = |id: &str| keys.iter().any(|key| key.id == id);
        if needs_making(given.api_key.as_ref(), "key", keys.is_empty(), known) {
            let scopes = vec![Scope::Report, Scope::Read];
            let was_given = given.api_key.is_some();
            let key = NewKey {
                project,
                name: "first start".to_owned(),
                scopes,
                secret: given.api_key,
            };
            let created = self.create_key(key).await?;
            new.api_key = (!was_given).then_some(created.secret);
        }
        let tokens = self.tokens().await?;
        let known = |id: &str| tokens.iter().any(|token| token.id == id);
        if needs_making(given.admin_token.as_ref(), "tok", tokens.is_empty(), known) {
            let was_given = given.admin_token.is_some();
            let name = "first start".to_owned();
            let token = NewToken {
                name,
                role: Role::Admin,
                projects: None,
                secret: given.admin_token,
            };
            let created = self.create_token(token).await?;
            new.admin_token = (!was_given).then_some(created.secret);
        }
        self.refresh().await?;
        Ok(new)
    }
}

/// A given secret is made when it is not there yet, an own one when there is none at all.
fn needs_making(
    given: Option<&Secret>,
    prefix: &str,
    none: bool,
    known: impl Fn(&str) -> bool,
) -> bool {
    match given {
        Some(secret) => !known(&secrets::public_id(prefix, &secrets::hash(secret.reveal()))),
        None => none,
    }
}
