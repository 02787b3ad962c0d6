//! Models seen without a price.

use axum::Json;
use axum::extract::State;
use schemas::filter::RunQuery;
use schemas::run::Instant;
use serde::Serialize;
use store::current::Scope;
use store::unpriced_read::{MODELS_MAX, UnpricedModel};
use utoipa::ToSchema;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::Pairs;
use crate::state::{QueryState, now_ms};

/// A model that was used without a price being known for it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unpriced {
    /// The model, as clients name it.
    model: String,
    /// Model calls.
    calls: u64,
    /// Their tokens of prompts, as far as they are known.
    prompt_tokens: u128,
    /// Their tokens of answers, as far as they are known.
    completion_tokens: u128,
    /// All their tokens, as far as they are known.
    total_tokens: u128,
    /// Start of the first of them.
    #[schema(value_type = String, format = DateTime)]
    first_seen: Instant,
    /// Start of the last of them.
    #[schema(value_type = String, format = DateTime)]
    last_seen: Instant,
}

/// Models without a price.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnpricedList {
    /// Those with the most tokens first, at most a thousand.
    data: Vec<Unpriced>,
    /// Whether there are more.
    truncated: bool,
}

impl From<UnpricedModel> for Unpriced {
    fn from(found: UnpricedModel) -> Self {
        Self {
            model: found.model,
            calls: found.calls,
            prompt_tokens: found.prompt_tokens,
            completion_tokens: found.completion_tokens,
            total_tokens: found.total_tokens,
            first_seen: Instant(found.first_seen),
            last_seen: Instant(found.last_seen),
        }
    }
}

/// Models seen without a price
///
/// Model calls with tokens whose model has no row in the price table: they cost 0 until one is added and their cost is
/// calculated again.
#[utoipa::path(
    get,
    path = "/api/analytics/unpriced",
    operation_id = "list_unpriced_models",
    tag = "analytics",
    params(
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("from" = Option<String>, Query, description = "Started at or after: ISO 8601 with any offset, a date, or integer milliseconds since 1970"),
        ("to" = Option<String>, Query, description = "Started at or before: written like `from`; a date means its end"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches; all of them without it", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The models", body = UnpricedList),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant; the message names both and what is allowed", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or the question took too long", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<UnpricedList>, Refusal> {
    let state = state.on_behalf_of(&caller);
    pairs.only(["app_id", "from", "to", "project_id"])?;
    let query = RunQuery::from_pairs(pairs.iter())?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let scope = Scope {
        projects: &projects,
        filter: &query.filter,
        now_ms: now_ms(),
    };
    let mut found = state.store().unpriced_models(scope).await?;
    let truncated = found.len() > MODELS_MAX;
    found.truncate(MODELS_MAX);
    Ok(Json(UnpricedList {
        data: found.into_iter().map(Unpriced::from).collect(),
        truncated,
    }))
}
