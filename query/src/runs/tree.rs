//! `GET /api/run/{run_id}/tree`: a run and its descendants.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::run::RunTree;

use super::run_not_found;
use store::Store;

use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{AppParams, Pairs, RunPath};
use crate::views;

/// Get the tree of a run
#[utoipa::path(
    get,
    path = "/api/run/{run_id}/tree",
    operation_id = "get_run_tree",
    tag = "runs",
    params(RunPath, AppParams),
    responses(
        (status = 200, description = "The run and its descendants, at most 10,000", body = RunTree),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn tree(
    State(store): State<Store>,
    caller: Caller,
    RunPath { run_id }: RunPath,
    pairs: Pairs,
) -> Result<Json<RunTree>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let AppParams { app_id, project_id } = AppParams::read(&pairs)?;
    let projects = caller.readable(project_id.as_deref())?;
    let found = store
        .runs_by_id(&projects, app_id.as_deref(), &run_id)
        .await?;
    let run = found.into_iter().next().ok_or_else(run_not_found)?;
    let tree = store.tree(run).await?;
    let now_ms = now_ms();
    Ok(Json(RunTree {
        run_id,
        data: tree
            .runs
            .into_iter()
            .map(|run| views::run(run, &projects, now_ms))
            .collect(),
        truncated: tree.truncated,
    }))
}
