//! API keys of projects.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::credential::Scope;
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::{KeyRecord, NewKey};
use store::filter_sql::Projects;
use utoipa::ToSchema;

use super::{Revoked, check_name, instant, no_project, refused, revoked};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::QueryState;

/// An API key, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    /// Public identifier.
    id: String,
    /// The project it belongs to.
    project_id: String,
    /// What people call it.
    name: String,
    /// `report`, `read`.
    scopes: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it was revoked, `null` while it is good.
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
            created_at: instant(record.created_at),
            revoked_at: record.revoked_at.map(instant),
        }
    }
}

/// API keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyList {
    /// Oldest first, revoked ones too.
    data: Vec<Key>,
}

/// A key to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeKey {
    /// Its project.
    #[schema(pattern = "^[a-z0-9-]{1,64}$")]
    project_id: String,
    /// What people call it.
    #[serde(default)]
    #[schema(max_length = 512)]
    name: String,
    /// `report`, `read`; both unless given.
    #[serde(default = "both_scopes")]
    #[schema(value_type = Vec<ScopeName>, min_items = 1, required = false)]
    scopes: Vec<Scope>,
}

/// What a key may do.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(
    dead_code,
    reason = "documents schemas::credential::Scope, which knows nothing of OpenAPI"
)]
pub(crate) enum ScopeName {
    /// Report events.
    Report,
    /// Read runs.
    Read,
}

fn both_scopes() -> Vec<Scope> {
    vec![Scope::Report, Scope::Read]
}

/// A key that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// Public identifier.
    id: String,
    /// The project it belongs to.
    project_id: String,
    /// What people call it.
    name: String,
    /// What it may do.
    #[schema(value_type = Vec<ScopeName>)]
    scopes: Vec<Scope>,
    /// The secret: shown now and never again.
    secret: String,
}

/// List API keys
#[utoipa::path(get, path = "/api/internal/keys", operation_id = "list_keys", tag = "administration",
    params(("project_id" = Option<String>, Query, description = "Only keys of this project", min_length = 1, max_length = 256)),
    responses(
        (status = 200, description = "Those of the projects the token reaches, without secrets", body = KeyList),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<KeyList>, Refusal> {
    let projects = caller.administered()?;
    let [project] = pairs.only(["project_id"])?;
    let project = project.map(ProjectId::new);
    let found = state
        .credentials()
        .keys(project.as_ref())
        .await?
        .into_iter();
    let data = found
        .filter(|key| projects.has(&key.project_id))
        .map(Key::from)
        .collect();
    Ok(Json(KeyList { data }))
}

/// Make an API key
///
/// The secret is in the answer, and nowhere afterwards.
#[utoipa::path(post, path = "/api/internal/keys", operation_id = "make_key", tag = "administration",
    request_body = MakeKey,
    responses(
        (status = 201, description = "The key with its secret", body = MadeKey),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`, or one that does not reach the project", body = FaultBody),
        (status = 404, description = "There is no such project", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn make(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<MakeKey>,
) -> Result<(StatusCode, Json<MadeKey>), Refusal> {
    let projects = caller.administered()?;
    pairs.only([])?;
    check_name(&body.name)?;
    if !ProjectId::is_valid(&body.project_id) {
        let message = "`project_id` has to be 1 to 64 of a-z, 0-9 and -";
        return Err(Fault::bad_request("invalid_body", message).into());
    }
    if !projects.has(&body.project_id) {
        return Err(Fault::forbidden("this token does not reach that project").into());
    }
    let mut known = state.credentials().projects().await?.into_iter();
    if !known.any(|project| project.project_id == body.project_id) {
        return Err(no_project(&body.project_id).into());
    }
    let new = NewKey {
        project: ProjectId::new(body.project_id.as_str()),
        name: body.name.clone(),
        scopes: body.scopes.clone(),
        secret: None,
    };
    let made = state.credentials().create_key(new).await.map_err(refused)?;
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
/// It is refused from now on.
#[utoipa::path(delete, path = "/api/internal/keys/{id}", operation_id = "revoke_key", tag = "administration",
    params(("id" = String, Path, description = "Public identifier of the key")),
    responses(
        (status = 200, description = "It is revoked", body = Revoked),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 404, description = "There is no active key of this id within the token's reach", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn revoke(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(id): PathId,
    pairs: Pairs,
) -> Result<Json<Revoked>, Refusal> {
    let projects = caller.administered()?;
    pairs.only([])?;
    let is_reached = match &projects {
        Projects::All => true,
        limited => {
            let mut keys = state.credentials().keys(None).await?.into_iter();
            keys.any(|key| key.id == id && limited.has(&key.project_id))
        }
    };
    let was_found = is_reached && state.credentials().revoke_key(&id).await.map_err(refused)?;
    revoked(id, was_found)
}
