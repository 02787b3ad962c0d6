//! `POST /api/run/compare`: two runs and their differences.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::compare::{CompareRuns, Comparison, differences};
use schemas::limits::ID_BYTES;
use schemas::run::RunDetail;
use serde_json::json;
use store::Store;
use store::prices::Prices;

use super::detail::RunViews;
use crate::access::Caller;
use crate::params::{JsonBody, Pairs, ProjectParams};

/// Compare two runs
///
/// Both runs as in `GET /api/run/{run_id}`, and their differences.
#[utoipa::path(
    post,
    path = "/api/run/compare",
    operation_id = "compare_runs",
    tag = "runs",
    params(ProjectParams),
    request_body = CompareRuns,
    responses(
        (status = 200, description = "The runs and their differences", body = Comparison),
        errors::AnyOf<(errors::Common, errors::Shared, errors::RequestBody, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn compare(
    State(store): State<Store>,
    State(prices): State<Prices>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<CompareRuns>,
) -> Result<Json<Comparison>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.readable(project_id.as_deref())?;
    for (field, value) in [
        ("run_id_a", Some(&body.run_id_a)),
        ("run_id_b", Some(&body.run_id_b)),
        ("app_id_a", body.app_id_a.as_ref()),
        ("app_id_b", body.app_id_b.as_ref()),
    ] {
        if value.is_some_and(|value| value.is_empty() || value.chars().count() > ID_BYTES) {
            let message = format!("`{field}` must have 1 to {ID_BYTES} characters");
            return Err(ApiError::new(ErrorCode::InvalidBody, message).into());
        }
    }
    let runs = RunViews {
        store: &store,
        projects: &projects,
        prices: &prices.current(),
    };
    let (a, b) = tokio::try_join!(
        runs.find(body.app_id_a.as_deref(), &body.run_id_a),
        runs.find(body.app_id_b.as_deref(), &body.run_id_b),
    )?;
    let found = |run: Option<RunDetail>, field: &str| {
        run.ok_or_else(|| {
            ApiError::not_found(format!("run of `{field}` not found"))
                .with_details(json!({"missing": field}))
        })
    };
    let (a, b) = (found(a, "run_id_a")?, found(b, "run_id_b")?);
    let differences = differences(&a, &b);
    Ok(Json(Comparison { a, b, differences }))
}
