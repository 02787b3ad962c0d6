//! `GET /api/run/{run_id}`: one run with the fields of its events.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::price::PriceTable;
use schemas::run::RunDetail;
use store::Store;
use store::prices::Prices;
use store::reads::filter_sql::Projects;

use super::run_not_found;
use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::{AppParams, Pairs, RunPath};
use crate::views::run_detail::{self, Present};
use crate::views::with_project;

/// Get a run
///
/// The run with input, output, metadata and events. If several apps use the id, the newest run is returned unless
/// `app_id` selects one.
#[utoipa::path(
    get,
    path = "/api/run/{run_id}",
    operation_id = "get_run",
    tag = "runs",
    params(RunPath, AppParams),
    responses(
        (status = 200, description = "The run", body = RunDetail),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(store): State<Store>,
    State(prices): State<Prices>,
    caller: Caller,
    RunPath { run_id }: RunPath,
    pairs: Pairs,
) -> Result<Json<RunDetail>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let AppParams { app_id, project_id } = AppParams::read(&pairs)?;
    let projects = caller.readable(project_id.as_deref())?;
    let runs = RunViews {
        store: &store,
        projects: &projects,
        prices: &prices.current(),
    };
    let found = runs.find(app_id.as_deref(), &run_id).await?;
    Ok(Json(found.ok_or_else(run_not_found)?))
}

/// Runs as this caller sees them.
pub(crate) struct RunViews<'a> {
    pub(crate) store: &'a Store,
    pub(crate) projects: &'a Projects,
    pub(crate) prices: &'a PriceTable,
}

impl RunViews<'_> {
    /// The newest run with this id.
    pub(crate) async fn find(
        &self,
        app_id: Option<&str>,
        run_id: &str,
    ) -> Result<Option<RunDetail>, ErrorResponse> {
        let Self {
            store,
            projects,
            prices,
        } = *self;
        let mut found = store
            .runs_by_id(projects, app_id, run_id)
            .await?
            .into_iter();
        let Some(run) = found.next() else {
            return Ok(None);
        };
        let also_in_apps = found
            .filter(|other| other.project_id == run.project_id)
            .map(|other| other.app_id)
            .collect();
        let at = (run.project_id.as_str(), run.app_id.as_str());
        let (events, feedback) = tokio::try_join!(
            run_detail::events(store, &run),
            store.feedback_history(at, &run.run_id)
        )?;
        let present = Present {
            now_ms: now_ms(),
            prices,
        };
        let other = match run_detail::lacks_content(&run) {
            true => store.other_report_of_call(&run).await?,
            false => None,
        };
        let mut detail = run_detail::assemble(run, events, feedback, present);
        if let Some(other) = other {
            let events = run_detail::events(store, &other).await?;
            run_detail::take_content(&mut detail, &other, &events);
        }
        detail.run = with_project(detail.run, projects);
        detail.also_in_apps = also_in_apps;
        Ok(Some(detail))
    }
}
