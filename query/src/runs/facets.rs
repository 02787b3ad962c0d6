//! `GET /api/run/facets`: the values of filter fields.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::run::Instant;
use schemas::usage::Facets;

use store::Store;

use crate::access::Caller;
use crate::analytics::usage::UsageRequest;
use crate::params::{Pairs, RunFilterParams};

/// List facets
///
/// The values of each field and their number of runs, for filter controls: at most 100 per field, most frequent first.
/// The condition on a field does not apply to that field's values, so that alternatives are included; `tags_all` applies
/// to all fields. Without `from` the result covers the 30 days before `to`, or before now.
#[utoipa::path(
    get,
    path = "/api/run/facets",
    operation_id = "run_facets",
    tag = "runs",
    params(RunFilterParams),
    responses(
        (status = 200, description = "The values", body = Facets),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn facets(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<Facets>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let request = UsageRequest::read(&caller, &pairs, &[])?;
    let found = store.facets(request.scope()).await?;
    Ok(Json(Facets {
        from: Instant(request.query.from_ms),
        to: request.query.filter.to_ms.map(Instant),
        facets: found
            .into_iter()
            .map(|(name, facet)| (name.to_owned(), facet))
            .collect(),
    }))
}
