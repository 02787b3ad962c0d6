//! Creating, listing and revoking projects, keys and tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use clickhouse::Row;
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use schemas::limits::NAME_BYTES;
use serde::Deserialize;

use super::directory::Credentials;
use super::secrets::{self, SECRET_BYTES_LEAST, SecretHash};
use crate::client::config::Secret;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;

/// Name of the turn for revoking tokens.
const TOKENS_TURN: &str = "tokens";

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct ProjectRecord {
    /// A slug.
    pub project_id: String,
    /// App of events that name none.
    pub default_app: String,
    /// Apps whose events are accepted without a key. Empty unless an old client needs it.
    pub keyless_app_ids: Vec<String>,
    /// Days after which its data is dropped; 0 keeps it for ever.
    pub retention_days: u32,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct KeyRecord {
    pub id: String,
    pub project_id: String,
    /// For display.
    pub name: String,
    /// `report`, `read`.
    pub scopes: Vec<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds; `None` while it is valid.
    pub revoked_at: Option<i64>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct TokenRecord {
    pub id: String,
    /// For display.
    pub name: String,
    /// `viewer`, `starter`, `operator`, `admin`.
    pub role: String,
    /// The projects that it is limited to; empty means all.
    pub projects: Vec<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// When it expires, Unix milliseconds; `None` for never.
    pub expires_at: Option<i64>,
    /// Unix milliseconds; `None` unless it was revoked.
    pub revoked_at: Option<i64>,
}

impl TokenRecord {
    fn is_active(&self) -> bool {
        self.revoked_at.is_none()
    }

    /// Whether it administers every project until it is revoked.
    fn is_lasting_admin(&self) -> bool {
        let is_admin = self.role == Role::Admin.as_str() && self.projects.is_empty();
        is_admin && self.is_active() && self.expires_at.is_none()
    }
}

#[derive(Clone, Debug)]
pub struct NewKey {
    /// Has to exist.
    pub project: ProjectId,
    /// For display.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Defaults to a random one.
    pub secret: Option<Secret>,
}

#[derive(Clone, Debug)]
pub struct NewToken {
    /// For display.
    pub name: String,
    pub role: Role,
    /// The projects that it is limited to; `None` means all.
    pub projects: Option<Vec<ProjectId>>,
    /// When it expires, Unix milliseconds; `None` for never.
    pub expires_at_ms: Option<i64>,
    /// Defaults to a random one.
    pub secret: Option<Secret>,
}

/// A new key or token. Its secret is not available later.
#[derive(Clone, Debug)]
pub struct Created {
    pub id: String,
    pub secret: Secret,
}

impl Credentials {
    pub async fn projects(&self) -> Result<Vec<ProjectRecord>, StoreError> {
        let sql = "SELECT project_id, default_app, keyless_app_ids, retention_days, created_at FROM projects FINAL ORDER BY project_id";
        self.store().bounded_query(sql).rows().await
    }

    pub async fn create_key(&self, new: NewKey) -> Result<Created, StoreError> {
        check_name(&new.name)?;
        if new.scopes.is_empty() {
            return Err(StoreError::Invalid(
                "a key needs at least one scope".to_owned(),
            ));
        }
        if !self
            .projects()
            .await?
            .iter()
            .any(|project| project.project_id == new.project.as_str())
        {
            return Err(StoreError::Invalid(format!(
                "there is no project `{}`",
                new.project
            )));
        }
        let (secret, hash) = check_secret(new.secret.unwrap_or_else(secrets::new_key))?;
        let id = secrets::public_id("key", &hash);
        let scopes: Vec<&str> = new.scopes.iter().copied().map(Scope::as_str).collect();
        let sql = "INSERT INTO api_keys (secret_hash, version, id, project_id, name, scopes, created_at) VALUES \
                   ({hash:String}, {now:UInt64}, {id:String}, {project:String}, {name:String}, \
                    {scopes:Array(String)}, now64(3))";
        self.store()
            .client
            .query_raw(sql)
            .param("hash", hex::encode(hash))
            .param("now", now_micros())
            .param("id", &id)
            .param("project", new.project.as_str())
            .param("name", &new.name)
            .param("scopes", scopes)
            .execute()
            .await?;
        self.reload().await?;
        Ok(Created { id, secret })
    }

    /// Includes revoked keys; of one project if given.
    pub async fn keys(&self, project: Option<&ProjectId>) -> Result<Vec<KeyRecord>, StoreError> {
        let sql = "SELECT id, project_id, name, scopes, created_at, revoked_at FROM api_keys FINAL \
                   WHERE {project:String} IN ('', project_id) ORDER BY created_at, id";
        let project = project.map(ProjectId::as_str).unwrap_or_default();
        self.store()
            .bounded_query(sql)
            .param("project", project)
            .rows()
            .await
    }

    /// Revokes an API key; `false` when there is no such active key. This process rejects it from now on, others after
    /// their next refresh.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        if !self
            .is_active(
                "SELECT count() FROM api_keys FINAL WHERE id = {id:String} AND revoked_at IS NULL",
                id,
            )
            .await?
        {
            return Ok(false);
        }
        let sql = "INSERT INTO api_keys (secret_hash, version, id, project_id, name, scopes, created_at, revoked_at) \
                   SELECT secret_hash, greatest({now:UInt64}, version + 1), id, project_id, name, scopes, created_at, \
                     now64(3) FROM api_keys FINAL WHERE id = {id:String} AND revoked_at IS NULL";
        self.revoke(sql, id).await
    }

    pub async fn create_token(&self, new: NewToken) -> Result<Created, StoreError> {
        check_name(&new.name)?;
        if new.projects.as_ref().is_some_and(Vec::is_empty) {
            return Err(StoreError::Invalid(
                "a token limited to no project can do nothing".to_owned(),
            ));
        }
        let (secret, hash) = check_secret(new.secret.unwrap_or_else(secrets::new_token))?;
        let id = secrets::public_id("tok", &hash);
        let projects: Vec<&str> = new
            .projects
            .iter()
            .flatten()
            .map(ProjectId::as_str)
            .collect();
        // Zero stands for never: no token expires in 1970.
        let sql = "INSERT INTO tokens (secret_hash, version, id, name, role, projects, created_at, expires_at) VALUES \
                   ({hash:String}, {now:UInt64}, {id:String}, {name:String}, {role:String}, \
                    {projects:Array(String)}, now64(3), \
                    if({expires:Int64} = 0, NULL, fromUnixTimestamp64Milli({expires:Int64}, 'UTC')))";
        self.store()
            .client
            .query_raw(sql)
            .param("hash", hex::encode(hash))
            .param("now", now_micros())
            .param("id", &id)
            .param("name", &new.name)
            .param("role", new.role.as_str())
            .param("projects", projects)
            .param("expires", new.expires_at_ms.unwrap_or(0))
            .execute()
            .await?;
        self.reload().await?;
        Ok(Created { id, secret })
    }

    /// Includes revoked tokens.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let sql = "SELECT id, name, role, projects, created_at, expires_at, revoked_at FROM tokens FINAL ORDER BY created_at, id";
        self.store().bounded_query(sql).rows().await
    }

    /// Revokes a token, like [`Credentials::revoke_key`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for the last token that administers everything and does not expire: without one, access
    /// can be restored only by writing to the tables.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let (this, id) = (self.clone(), id.to_owned());
        self.exclusively(
            TOKENS_TURN,
            async move { this.revoke_unless_last(&id).await },
        )
        .await
    }

    async fn revoke_unless_last(&self, id: &str) -> Result<bool, StoreError> {
        let tokens = self.tokens().await?;
        let Some(revoked) = tokens
            .iter()
            .find(|token| token.id == id && token.is_active())
        else {
            return Ok(false);
        };
        let mut others = tokens.iter().filter(|token| token.id != id);
        if revoked.is_lasting_admin() && !others.any(TokenRecord::is_lasting_admin) {
            return Err(StoreError::Conflict(format!(
                "`{id}` is the last token with the role `admin` for all projects that does not expire; make another such token before you revoke it"
            )));
        }
        let sql = "INSERT INTO tokens (secret_hash, version, id, name, role, projects, created_at, expires_at, revoked_at) \
                   SELECT secret_hash, greatest({now:UInt64}, version + 1), id, name, role, projects, created_at, \
                     expires_at, now64(3) FROM tokens FINAL WHERE id = {id:String} AND revoked_at IS NULL";
        self.revoke(sql, id).await
    }

    async fn is_active(&self, sql: &str, id: &str) -> Result<bool, StoreError> {
        let count: u64 = self.read(sql).param("id", id).one().await?;
        Ok(count > 0)
    }

    async fn revoke(&self, sql: &str, id: &str) -> Result<bool, StoreError> {
        self.store()
            .client
            .query_raw(sql)
            .param("id", id)
            .param("now", now_micros())
            .execute()
            .await?;
        // Whatever a reload finds, the revoked one is gone from here on.
        self.forget(id);
        self.reload().await?;
        Ok(true)
    }

    pub(super) fn read(&self, sql: &str) -> BoundedQuery {
        self.store().bounded_query(sql)
    }
}

fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() > NAME_BYTES {
        return Err(StoreError::Invalid(format!(
            "a name has at most {NAME_BYTES} bytes"
        )));
    }
    Ok(())
}

fn check_secret(secret: Secret) -> Result<(Secret, SecretHash), StoreError> {
    if secret.reveal().len() < SECRET_BYTES_LEAST {
        return Err(StoreError::Invalid(format!(
            "a secret has at least {SECRET_BYTES_LEAST} bytes"
        )));
    }
    let hash = secrets::hash(secret.reveal());
    Ok((secret, hash))
}

/// A version newer than all before it, unless the clock was set back; statements that replace a row take the maximum of
/// this and the row's version plus one.
pub(super) fn now_micros() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn scope_of(text: &str) -> Option<Scope> {
    [Scope::Report, Scope::Read]
        .into_iter()
        .find(|scope| scope.as_str() == text)
}
