//! `GET /api/analytics/unpriced`: models without a price.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::filter::RunQuery;
use schemas::run::Instant;
use serde::Serialize;
use store::Store;
use store::reads::current::Scope;
use store::reads::unpriced::{MODELS_MAX, UnpricedModel};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{Pairs, Param, Text, filter_parameters, query_parameter};

/// The parameters, which [`RunQuery::from_pairs`] parses.
pub(crate) struct UnpricedParams;

impl IntoParams for UnpricedParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let project = "One of the projects that the credential reaches; all of them without it";
        let mut parameters = filter_parameters(&["app_id", "from", "to"]);
        parameters.push(query_parameter("project_id", project, Text::schema()));
        parameters
    }
}

/// A used model that has no price.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unpriced {
    /// Name of the model in reports.
    model: String,
    /// Number of model calls.
    calls: u64,
    /// Known prompt tokens of the calls.
    prompt_tokens: u128,
    /// Known completion tokens of the calls.
    completion_tokens: u128,
    /// Known tokens of the calls.
    total_tokens: u128,
    /// Start of the first call.
    #[schema(value_type = String, format = DateTime)]
    first_seen: Instant,
    /// Start of the last call.
    #[schema(value_type = String, format = DateTime)]
    last_seen: Instant,
}

/// Models without a price.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnpricedList {
    /// Models with the most tokens first, at most a thousand.
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

/// List models without a price
///
/// Models of calls with tokens that have no row in the price table. These calls cost 0 until a price is added and their
/// cost is recalculated.
#[utoipa::path(
    get,
    path = "/api/analytics/unpriced",
    operation_id = "list_unpriced_models",
    tag = "analytics",
    params(UnpricedParams),
    responses(
        (status = 200, description = "The models", body = UnpricedList),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<UnpricedList>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    pairs.only(["app_id", "from", "to", "project_id"])?;
    let query = RunQuery::from_pairs(pairs.iter())?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let scope = Scope {
        projects: &projects,
        filter: &query.filter,
        now_ms: now_ms(),
    };
    let mut found = store.unpriced_models(scope).await?;
    let truncated = found.len() > MODELS_MAX;
    found.truncate(MODELS_MAX);
    Ok(Json(UnpricedList {
        data: found.into_iter().map(Unpriced::from).collect(),
        truncated,
    }))
}
