//! Tokens of people and operators. Only an admin who is not limited to projects deals with them: a token may reach
//! everything.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemas::credential::Role;
use schemas::fault::Fault;
use schemas::ids::ProjectId;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use store::credentials::{NewToken, TokenRecord};
use utoipa::ToSchema;

use super::expiry::ends_at;
use super::{Revoked, check_name, instant, no_project, refused, revoked};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::{QueryState, now_ms};

/// Projects one token may be limited to.
const TOKEN_PROJECTS: usize = 1000;

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Token {
    /// Public identifier.
    id: String,
    /// Whose it is.
    name: String,
    /// What its bearer may do.
    role: String,
    /// The projects it is limited to; `null` means all.
    projects: Option<Vec<String>>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// When it ends by itself, `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
    /// When it was revoked, `null` while it was not.
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
            created_at: instant(record.created_at),
            expires_at: record.expires_at.map(instant),
            revoked_at: record.revoked_at.map(instant),
        }
    }
}

/// Tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    /// Oldest first, revoked ones and those that ended too.
    data: Vec<Token>,
}

/// A token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeToken {
    /// Whose it is.
    #[serde(default)]
    #[schema(max_length = 512)]
    name: String,
    /// What its bearer may do.
    #[schema(value_type = RoleName)]
    role: Role,
    /// The projects it is limited to; all without it.
    #[schema(min_items = 1, max_items = 1000)]
    projects: Option<Vec<String>>,
    /// How long it is good, such as `12h` or `30d`: at most 3660 days. For ever without this and `expires_at`.
    expires_in: Option<String>,
    /// Until when it is good, instead of `expires_in`.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<String>,
}

/// What the bearer of a token may do.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(
    dead_code,
    reason = "documents schemas::credential::Role, which knows nothing of OpenAPI"
)]
pub(crate) enum RoleName {
    /// Reads runs.
    Viewer,
    /// Starts processes.
    Starter,
    /// Viewer and starter, and may trigger a rescan.
    Operator,
    /// Everything.
    Admin,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeToken {
    /// Public identifier.
    id: String,
    /// Whose it is.
    name: String,
    /// What its bearer may do.
    #[schema(value_type = RoleName)]
    role: Role,
    /// The projects it is limited to; `null` means all.
    projects: Option<Vec<String>>,
    /// When it ends by itself, `null` for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Instant>,
    /// The secret: shown now and never again.
    secret: String,
}

/// List tokens
#[utoipa::path(get, path = "/api/internal/tokens", operation_id = "list_tokens", tag = "administration",
    responses(
        (status = 200, description = "All tokens, without secrets; revoked ones and those that ended too", body = TokenList),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not an unlimited token with the role `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<TokenList>, Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let data = state
        .credentials()
        .tokens()
        .await?
        .into_iter()
        .map(Token::from)
        .collect();
    Ok(Json(TokenList { data }))
}

/// Make a token
///
/// The secret is in the answer, and nowhere afterwards.
#[utoipa::path(post, path = "/api/internal/tokens", operation_id = "make_token", tag = "administration",
    request_body = MakeToken,
    responses(
        (status = 201, description = "The token with its secret", body = MadeToken),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not an unlimited token with the role `admin`", body = FaultBody),
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
    JsonBody(body): JsonBody<MakeToken>,
) -> Result<(StatusCode, Json<MadeToken>), Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    check_name(&body.name)?;
    if body
        .projects
        .as_ref()
        .is_some_and(|projects| projects.is_empty() || projects.len() > TOKEN_PROJECTS)
    {
        let message =
            format!("`projects` names 1 to {TOKEN_PROJECTS} projects; leave it out for all");
        return Err(Fault::bad_request("invalid_body", message).into());
    }
    let expires_at_ms = ends_at(
        body.expires_in.as_deref(),
        body.expires_at.as_deref(),
        now_ms(),
    )?;
    let known = state.credentials().projects().await?;
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
    let made = state
        .credentials()
        .create_token(new)
        .await
        .map_err(refused)?;
    let token = MadeToken {
        id: made.id,
        name: body.name,
        role: body.role,
        projects: body.projects,
        expires_at: expires_at_ms.map(instant),
        secret: made.secret.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(token)))
}

/// Revoke a token
///
/// It is refused from now on. The last token with the role `admin` for all projects that does not expire stays: make
/// another one first.
#[utoipa::path(delete, path = "/api/internal/tokens/{id}", operation_id = "revoke_token", tag = "administration",
    params(("id" = String, Path, description = "Public identifier of the token")),
    responses(
        (status = 200, description = "It is revoked", body = Revoked),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not an unlimited token with the role `admin`", body = FaultBody),
        (status = 404, description = "There is no active token of this id", body = FaultBody),
        (status = 409, description = "It is the last token with the role `admin` for all projects that does not expire", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn revoke(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(id): PathId,
    pairs: Pairs,
) -> Result<Json<Revoked>, Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let was_found = state
        .credentials()
        .revoke_token(&id)
        .await
        .map_err(refused)?;
    revoked(id, was_found)
}
