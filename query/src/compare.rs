//! Two runs side by side.

use axum::Json;
use axum::extract::State;
use schemas::compare::{CompareRuns, Comparison, differences};
use schemas::fault::Fault;
use schemas::limits::ID_BYTES;
use schemas::run::RunDetail;
use serde_json::json;
use store::filter_sql::Projects;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs};
use crate::runs::whole;
use crate::state::QueryState;

/// Compare two runs
///
/// Both as they are at `/api/run/{run_id}`, and what differs between them.
#[utoipa::path(
    post,
    path = "/api/run/compare",
    operation_id = "compare_runs",
    tag = "runs",
    params(
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    request_body = CompareRuns,
    responses(
        (status = 200, description = "The runs and their differences", body = Comparison),
        (status = 400, description = "A body that does not fit, an unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "One of the runs is not there, or not within the credential's reach; the message says which", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn compare(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<CompareRuns>,
) -> Result<Json<Comparison>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.readable(project_id)?;
    for (field, value) in [
        ("run_id_a", Some(&body.run_id_a)),
        ("run_id_b", Some(&body.run_id_b)),
        ("app_id_a", body.app_id_a.as_ref()),
        ("app_id_b", body.app_id_b.as_ref()),
    ] {
        if value.is_some_and(|value| value.is_empty() || value.chars().count() > ID_BYTES) {
            let message = format!("`{field}` has to be text of 1 to {ID_BYTES} characters");
            return Err(Fault::bad_request("invalid_body", message).into());
        }
    }
    let (a, b) = tokio::try_join!(
        one(
            &state,
            &projects,
            ("run_id_a", &body.run_id_a),
            body.app_id_a.as_deref()
        ),
        one(
            &state,
            &projects,
            ("run_id_b", &body.run_id_b),
            body.app_id_b.as_deref()
        ),
    )?;
    let differences = differences(&a, &b);
    Ok(Json(Comparison { a, b, differences }))
}

async fn one(
    state: &QueryState,
    projects: &Projects,
    (field, run_id): (&str, &str),
    app_id: Option<&str>,
) -> Result<RunDetail, Refusal> {
    let found = whole(state, projects, app_id, run_id).await?;
    found.ok_or_else(|| {
        let message = format!("there is no such run as `{field}`, or it is not yours to see");
        Fault::not_found(message)
            .with_details(json!({"missing": field}))
            .into()
    })
}
