//! `GET /api/run`: a page of runs.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::cursor::Cursor;
use schemas::filter::RunQuery;
use schemas::run::RunPage;

use store::Store;

use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{PageParams, Pairs, RunFilterParams};
use crate::views;

/// List runs
///
/// Runs that match all conditions. `cursor` continues after a page, without duplicates or gaps while new runs arrive.
#[utoipa::path(
    get,
    path = "/api/run",
    operation_id = "list_runs",
    tag = "runs",
    params(RunFilterParams, PageParams),
    responses(
        (status = 200, description = "A page", body = RunPage),
        errors::AnyOf<(errors::Common, errors::Shared, errors::Paged)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<RunPage>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let query = RunQuery::from_pairs(pairs.iter())?;
    page(&store, &caller, &query).await
}

pub(crate) async fn page(
    store: &Store,
    caller: &Caller,
    query: &RunQuery,
) -> Result<Json<RunPage>, ErrorResponse> {
    let projects = caller.readable(query.project_id.as_deref())?;
    let cursor = query
        .cursor
        .as_deref()
        .map(|text| Cursor::decode(text, query))
        .transpose()?;
    let now_ms = now_ms();
    let count = async {
        match query.count {
            true => store.count_runs(&projects, query, now_ms).await.map(Some),
            false => Ok(None),
        }
    };
    let (page, count) = tokio::try_join!(
        store.list_runs(&projects, query, cursor.as_ref(), now_ms),
        count
    )?;
    Ok(Json(RunPage {
        data: page
            .runs
            .into_iter()
            .map(|run| views::run(run, &projects, now_ms))
            .collect(),
        has_more: page.next.is_some(),
        next_cursor: page.next.map(|cursor| cursor.encode(query)),
        count: count.map(|count| count.count),
        count_capped: count.map(|count| count.is_capped),
    }))
}
