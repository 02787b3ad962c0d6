//! `GET /api/run/{run_id}/calls`: the model calls of a run, page by page.

use std::collections::HashMap;

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::ApiError;
use schemas::cursor::{self, Position};
use schemas::fold::{ModelCall, Previews, RunState, Stamp};
use schemas::ids::EventId;
use schemas::run::{RunCall, RunCalls};
use serde::{Deserialize, Serialize};
use store::Store;
use store::prices::Prices;
use store::reads::events::EventsOfRun;
use store::reads::runs::RunRecord;

use super::run_not_found;
use crate::access::Caller;
use crate::params::{Limit, Pairs, RunPath, Text, query_params};
use crate::views::run_detail;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

query_params! {
    pub(crate) struct CallParams {
        /// App
        app_id: Text,
        /// Largest page size, default 100
        limit: Limit<LIMIT_MAX>,
        /// `next_cursor` of the previous page, of the same run
        cursor: Text,
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

/// Position in the list of a run's calls: the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CallPosition(Stamp);

impl Position for CallPosition {
    const LIST: u8 = 5;
}

/// List the model calls of a run
///
/// Its own calls in order of time, also of a run with more events than one answer has.
#[utoipa::path(
    get,
    path = "/api/run/{run_id}/calls",
    operation_id = "list_run_calls",
    tag = "runs",
    params(RunPath, CallParams),
    responses(
        (status = 200, description = "A page", body = RunCalls),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound, errors::Paged)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn calls(
    State(store): State<Store>,
    State(prices): State<Prices>,
    caller: Caller,
    RunPath { run_id }: RunPath,
    pairs: Pairs,
) -> Result<Json<RunCalls>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let params = CallParams::read(&pairs)?;
    let projects = caller.readable(params.project_id.as_deref())?;
    let found = store
        .runs_by_id(&projects, params.app_id.as_deref(), &run_id)
        .await?;
    let run = found.into_iter().next().ok_or_else(run_not_found)?;
    // Without an app in the request, the newest run may be another one by the next page.
    let fingerprint = cursor::fingerprint(&[&run.project_id, &run.app_id, &run_id]);
    let after = params
        .cursor
        .map(|text| cursor::decode::<CallPosition>(&text, fingerprint))
        .transpose()?
        .map(|CallPosition(stamp)| stamp);
    let state = state_of(&store, &run).await?;
    let prices = prices.current();
    let all = state.model_calls(&prices);
    let total = all.len();
    let rest = all
        .into_iter()
        .filter(|call| after.is_none_or(|after| call.stamp > Some(after)));
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let mut page: Vec<ModelCall<'_>> = rest.take(limit + 1).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let ids = event_ids(&store, &run, &page).await?;
    let last = page.last().filter(|_| has_more);
    let next_cursor = last
        .and_then(|call| call.stamp)
        .map(|stamp| cursor::encode(&CallPosition(stamp), fingerprint));
    let call = |call: ModelCall<'_>| run_detail::call(call, &ids, &run);
    Ok(Json(RunCalls {
        data: page.into_iter().map(call).collect::<Vec<RunCall>>(),
        next_cursor,
        has_more,
        count: total as u64,
    }))
}

/// What the run was folded to: all of its calls, of which its events in one answer may be some.
async fn state_of(store: &Store, run: &RunRecord) -> Result<RunState, ErrorResponse> {
    let placed = [(run.run_id.as_str(), run.started_at)];
    let rows = store
        .load_states_at(&run.project_id, &run.app_id, &placed)
        .await?;
    let newest = rows.into_iter().max_by_key(|row| row.version);
    let row = newest
        .filter(|row| row.is_deleted == 0)
        .ok_or_else(run_not_found)?;
    let previews = Previews {
        input: &row.input_preview,
        output: &row.output_preview,
    };
    RunState::decode(&row.state, previews).map_err(|error| {
        tracing::error!(error.message = %error, "the state of a run cannot be read");
        ApiError::internal().into()
    })
}

/// Identities of the events that complete these calls.
async fn event_ids(
    store: &Store,
    run: &RunRecord,
    page: &[ModelCall<'_>],
) -> Result<HashMap<Stamp, EventId>, ErrorResponse> {
    let times: Vec<i64> = page
        .iter()
        .filter_map(|call| Some(call.stamp?.timestamp_ms()))
        .collect();
    let (Some(first_ms), Some(last_ms)) = (times.iter().min(), times.iter().max()) else {
        return Ok(HashMap::new());
    };
    let of = EventsOfRun {
        project: &run.project_id,
        app: &run.app_id,
        run_id: &run.run_id,
        first_ms: *first_ms,
        last_ms: *last_ms,
    };
    let events = store.event_ids_at(of, &times).await?;
    let ids = events.into_iter().map(|(event_id, timestamp)| {
        let id = EventId(event_id);
        (Stamp::new(timestamp, id), id)
    });
    Ok(ids.collect())
}
