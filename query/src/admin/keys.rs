//! `/api/internal/keys`: API keys of projects.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::credential::Scope;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::Credentials;
use store::credentials::{KeyRecord, NewKey};
use store::reads::filter_sql::Projects;
use utoipa::ToSchema;

use super::{Revoked, change_error, check_exists, check_name, check_project_id, revoked};
use crate::access::{Caller, check_reached};
use crate::params::{IdPath, JsonBody, Pairs, Text, query_params};

query_params! {
    pub(crate) struct KeyListParams {
        /// Only keys of this project
        project_id: Text,
    }
}

/// An API key, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    /// Public identifier.
    id: String,
    /// Project of the key.
    project_id: String,
    /// Display name.
    name: String,
    /// `report`, `read`.
    scopes: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it was revoked; `null` for an active key.
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Instant>,
}

impl From<KeyRecord> for Key {
    fn from(record: KeyRecord) -> Self {
        Self {
            id: record.id,
            project_id: record.project_id,
            name: record.name,
            scopes: record.scopes,
            created_at: Instant(record.created_at),
            revoked_at: record.revoked_at.map(Instant),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    /// Oldest first, including revoked keys.
    data: Vec<Key>,
}

/// A key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeKey {
    /// Project of the key.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    project_id: String,
    /// Display name.
    #[serde(default)]
    #[schema(max_length = 512)]
    name: String,
    /// Default `report` and `read`.
    #[serde(default = "both_scopes")]
    #[schema(min_items = 1, required = false)]
    scopes: Vec<Scope>,
}

fn both_scopes() -> Vec<Scope> {
    vec![Scope::Report, Scope::Read]
}

/// The created key.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// Public identifier.
    id: String,
    /// Project of the key.
    project_id: String,
    /// Display name.
    name: String,
    scopes: Vec<Scope>,
    /// The secret. No later answer contains it.
    secret: String,
}

/// List API keys
#[utoipa::path(get, path = "/api/internal/keys", operation_id = "list_keys", tag = "administration",
    params(KeyListParams),
    responses(
        (status = 200, description = "Keys of the projects that the token reaches, without secrets", body = KeyList),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<KeyList>, ErrorResponse> {
    let projects = caller.administered()?;
    let KeyListParams { project_id } = KeyListParams::read(&pairs)?;
    let project = project_id.map(ProjectId::new);
    let found = credentials.keys(project.as_ref()).await?.into_iter();
    let data = found
        .filter(|key| projects.has(&key.project_id))
        .map(Key::from)
        .collect();
    Ok(Json(KeyList { data }))
}

/// Create an API key
///
/// Only this answer contains the secret.
#[utoipa::path(post, path = "/api/internal/keys", operation_id = "make_key", tag = "administration",
    request_body = MakeKey,
    responses(
        (status = 201, description = "The key with its secret", body = MadeKey),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn make(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<MakeKey>,
) -> Result<(StatusCode, Json<MadeKey>), ErrorResponse> {
    let projects = caller.administered()?;
    pairs.only([])?;
    check_name(&body.name)?;
    check_project_id(&body.project_id)?;
    check_reached(&projects, &body.project_id)?;
    check_exists(&credentials, &body.project_id).await?;
    let new = NewKey {
        project: ProjectId::new(body.project_id.as_str()),
        name: body.name.clone(),
        scopes: body.scopes.clone(),
        secret: None,
    };
    let made = credentials.create_key(new).await.map_err(change_error)?;
    let key = MadeKey {
        id: made.id,
        project_id: body.project_id,
        name: body.name,
        scopes: body.scopes,
        secret: made.secret.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(key)))
}

/// Revoke an API key
///
/// It is rejected from now on.
#[utoipa::path(delete, path = "/api/internal/keys/{id}", operation_id = "revoke_key", tag = "administration",
    params(IdPath),
    responses(
        (status = 200, description = "The key is revoked", body = Revoked),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn revoke(
    State(credentials): State<Credentials>,
    caller: Caller,
    IdPath { id }: IdPath,
    pairs: Pairs,
) -> Result<Json<Revoked>, ErrorResponse> {
    let projects = caller.administered()?;
    pairs.only([])?;
    let is_reached = match &projects {
        Projects::All => true,
        limited => {
            let mut keys = credentials.keys(None).await?.into_iter();
            keys.any(|key| key.id == id && limited.has(&key.project_id))
        }
    };
    let was_found = is_reached && credentials.revoke_key(&id).await.map_err(change_error)?;
    revoked(id, was_found)
}
