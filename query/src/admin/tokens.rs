//! `/api/internal/tokens`: tokens of users. Only admins of all projects manage them, since a token may reach all
//! projects.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::credential::Role;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::Credentials;
use store::credentials::{NewToken, TokenRecord};
use utoipa::ToSchema;

use super::expiry::expires_at;
use super::{Revoked, change_error, check_name, no_project, revoked};
use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{IdPath, JsonBody, Pairs};

/// Most projects that one token is limited to (X1).
const TOKEN_PROJECTS: usize = 1000;

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Token {
    /// Public identifier.
    id: String,
    /// Display name.
    name: String,
    role: String,
    /// Projects to which the token is limited; `null` for all.
    projects: Option<Vec<String>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it expires; `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
    /// When it was revoked; `null` for an active token.
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Instant>,
}

impl From<TokenRecord> for Token {
    fn from(record: TokenRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            role: record.role,
            projects: (!record.projects.is_empty()).then_some(record.projects),
            created_at: Instant(record.created_at),
            expires_at: record.expires_at.map(Instant),
            revoked_at: record.revoked_at.map(Instant),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    /// Oldest first, including revoked and expired tokens.
    data: Vec<Token>,
}

/// A token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeToken {
    /// Display name.
    #[serde(default)]
    #[schema(max_length = 512)]
    name: String,
    role: Role,
    /// Projects to which the token is limited; all if left out.
    #[schema(min_items = 1, max_items = 1000)]
    projects: Option<Vec<String>>,
    /// Lifetime, for example `12h` or `30d`, at most 3660 days. Without it and `expires_at` the token does not expire.
    expires_in: Option<String>,
    /// When it expires, instead of `expires_in`.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<String>,
}

/// The created token.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeToken {
    /// Public identifier.
    id: String,
    /// Display name.
    name: String,
    role: Role,
    /// Projects to which the token is limited; `null` for all.
    projects: Option<Vec<String>>,
    /// When it expires; `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
    /// The secret. No later answer contains it.
    secret: String,
}

/// List tokens
#[utoipa::path(get, path = "/api/internal/tokens", operation_id = "list_tokens", tag = "administration",
    responses(
        (status = 200, description = "All tokens, without secrets, including revoked and expired ones", body = TokenList),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<TokenList>, ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let data = credentials
        .tokens()
        .await?
        .into_iter()
        .map(Token::from)
        .collect();
    Ok(Json(TokenList { data }))
}

/// Create a token
///
/// Only this answer contains the secret.
#[utoipa::path(post, path = "/api/internal/tokens", operation_id = "make_token", tag = "administration",
    request_body = MakeToken,
    responses(
        (status = 201, description = "The token with its secret", body = MadeToken),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn make(
    State(credentials): State<Credentials>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<MakeToken>,
) -> Result<(StatusCode, Json<MadeToken>), ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    check_name(&body.name)?;
    if body
        .projects
        .as_ref()
        .is_some_and(|projects| projects.is_empty() || projects.len() > TOKEN_PROJECTS)
    {
        let message = format!(
            "`projects` must have 1 to {TOKEN_PROJECTS} items; leave it out for all projects"
        );
        return Err(ApiError::new(ErrorCode::InvalidBody, message).into());
    }
    let expires_at_ms = expires_at(
        body.expires_in.as_deref(),
        body.expires_at.as_deref(),
        now_ms(),
    )?;
    let known = credentials.projects().await?;
    let mut named = body.projects.iter().flatten();
    if let Some(project) =
        named.find(|project| !known.iter().any(|known| known.project_id == **project))
    {
        return Err(no_project(project).into());
    }
    let new = NewToken {
        name: body.name.clone(),
        role: body.role,
        projects: body.projects.as_ref().map(|all| {
            all.iter()
                .map(|name| ProjectId::new(name.as_str()))
                .collect()
        }),
        expires_at_ms,
        secret: None,
    };
    let made = credentials.create_token(new).await.map_err(change_error)?;
    let token = MadeToken {
        id: made.id,
        name: body.name,
        role: body.role,
        projects: body.projects,
        expires_at: expires_at_ms.map(Instant),
        secret: made.secret.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(token)))
}

/// Revoke a token
///
/// It is rejected from now on. The last `admin` token for all projects that does not expire cannot be revoked: create
/// another one first.
#[utoipa::path(delete, path = "/api/internal/tokens/{id}", operation_id = "revoke_token", tag = "administration",
    params(IdPath),
    responses(
        (status = 200, description = "The token is revoked", body = Revoked),
        errors::AnyOf<(errors::Common, errors::NotFound, errors::Conflict)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn revoke(
    State(credentials): State<Credentials>,
    caller: Caller,
    IdPath { id }: IdPath,
    pairs: Pairs,
) -> Result<Json<Revoked>, ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let was_found = credentials.revoke_token(&id).await.map_err(change_error)?;
    revoked(id, was_found)
}
