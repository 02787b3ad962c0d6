//! Authentication: the store's directory of credentials for ingest, and the secrets of the first start.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use ingest::{AuthUnavailable, Authenticator, RunApp, RunLookup};
use schemas::api_error::ApiError;
use schemas::client_address::ClientAddress;
use schemas::credential::{Credential, Scope};
use schemas::ids::{AppId, ProjectId};
use store::Secret;
use store::Store;
use store::StoreError;
use store::credentials::{Credentials, FailedCredential, GivenSecrets};

use super::folder::Secrets;

/// Variables with the first credentials, in place of random ones.
const API_KEY_VARIABLE: &str = "SPINDLE_API_KEY";
const ADMIN_TOKEN_VARIABLE: &str = "SPINDLE_ADMIN_TOKEN";

/// The directory of credentials, read by ingest for every request.
pub(crate) struct Directory(pub(crate) Credentials);

#[async_trait]
impl Authenticator for Directory {
    async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        self.0.authenticate(secret).await.map_err(away)
    }

    fn cached(&self, secret: &str) -> Option<bool> {
        self.0.cached_secret(secret)
    }

    fn may_look_up(&self, client: Option<ClientAddress>) -> Result<(), ApiError> {
        self.0.failures().may_try(client)
    }

    fn failed(&self, client: Option<ClientAddress>) {
        self.0.failures().failed(client, FailedCredential::Secret);
    }

    async fn keyless(&self, app_id: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        Ok(self.0.keyless(app_id).map(|keyless| {
            Arc::new(Credential::Key {
                id: "keyless".to_owned(),
                project: keyless.project,
                default_app: keyless.default_app,
                scopes: vec![Scope::Report],
            })
        }))
    }

    fn keyless_possible(&self) -> bool {
        self.0.has_keyless()
    }
}

/// The runs in the tables, for events that name no app.
pub(crate) struct StoredRuns(pub(crate) Store);

#[async_trait]
impl RunLookup for StoredRuns {
    async fn has_other_apps(&self, project: &ProjectId, app: &AppId) -> Option<bool> {
        let others = self.0.has_other_apps(project.as_str(), app.as_str()).await;
        others.inspect_err(unread).ok()
    }

    async fn runs(&self, project: &ProjectId, run_ids: &[&str]) -> Option<Vec<RunApp>> {
        let runs = self.0.apps_of_runs(project.as_str(), run_ids).await;
        let runs = runs.inspect_err(unread).ok()?.into_iter();
        let runs = runs.map(|run| RunApp {
            run_id: run.run_id,
            app: AppId::new(run.app_id),
            started_at_ms: run.started_at,
        });
        Some(runs.collect())
    }
}

fn unread(error: &StoreError) {
    tracing::debug!(error.message = %error, "the apps of runs cannot be looked up");
}

fn away(error: StoreError) -> AuthUnavailable {
    tracing::debug!(error.message = %error, "credentials cannot be looked up");
    AuthUnavailable
}

/// Why the first credentials could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettleError {
    /// ClickHouse is away; a retry may succeed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data folder is at fault; an operator has to act.
    #[error("{0:#}")]
    Folder(#[from] anyhow::Error),
}

/// Makes sure that there is a project, a key and an admin token; returns new ones, to be shown once.
///
/// The file is written before the tables, so that a crash between the two never leaves an unknown credential. A file
/// that was removed is not created again while there are credentials.
pub(crate) async fn settle(
    credentials: &Credentials,
    folder: &Path,
) -> Result<Option<Secrets>, SettleError> {
    let GivenSecrets {
        api_key,
        admin_token,
    } = given();
    let kept = Secrets::read(folder)?;
    let mut made = None;
    let file = match kept {
        Some(secrets) => secrets,
        None => {
            let mut secrets = Secrets {
                project: "default".to_owned(),
                api_key: None,
                admin_token: None,
            };
            if api_key.is_none() && credentials.keys(None).await?.is_empty() {
                secrets.api_key = Some(random_secret("sp_key_"));
            }
            if admin_token.is_none() && credentials.tokens().await?.is_empty() {
                secrets.admin_token = Some(random_secret("sp_tok_"));
            }
            if secrets.api_key.is_some() || secrets.admin_token.is_some() {
                secrets.write(folder)?;
                made = Some(secrets.clone());
            }
            secrets
        }
    };
    let given = GivenSecrets {
        api_key: api_key.or_else(|| file.api_key.map(Secret::new)),
        admin_token: admin_token.or_else(|| file.admin_token.map(Secret::new)),
    };
    credentials.bootstrap(given).await?;
    if credentials.has_keyless() {
        tracing::warn!(
            "some projects accept events without a key: anyone who reaches the port can report for their apps"
        );
    }
    Ok(made)
}

/// The secrets in the environment.
pub(crate) fn given() -> GivenSecrets {
    let variable = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        value.map(Secret::new)
    };
    GivenSecrets {
        api_key: variable(API_KEY_VARIABLE),
        admin_token: variable(ADMIN_TOKEN_VARIABLE),
    }
}

fn random_secret(prefix: &str) -> String {
    format!("{prefix}{}", hex::encode(rand::random::<[u8; 32]>()))
}
