//! `/api/dataset`: the saved runs, as a list and as files.

mod calls;
mod chat;
pub(crate) mod whole;

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemas::api_error::ApiError;
use schemas::filter::{RunQuery, invalid_parameter};
use schemas::run::RunPage;
use store::Store;

use crate::access::{Caller, is_one};
use crate::clock::now_ms;
use crate::export::{
    DatasetExportParams, ExportFile, ExportParams, ExportQuery, ExportState, Format, Head,
    ReadGrant, Records, Shape, respond,
};
use crate::params::{PageParams, Pairs, RunFilterParams};
use crate::runs::list;
use calls::{ChatLines, ChatReport, ModelCalls};
use whole::{Reader, WholeRuns};

/// List the dataset
///
/// The run list with `saved=true`.
#[utoipa::path(
    get,
    path = "/api/dataset",
    operation_id = "list_dataset",
    tag = "datasets",
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
    let mut query = RunQuery::from_pairs(pairs.iter())?;
    only_saved(&mut query)?;
    list::page(&store, &caller, &query).await
}

/// Export the dataset
///
/// Streams all matching saved runs with input, output and metadata. `openai-jsonl` has one line `{"messages": [...]}`
/// for each model call that the format can represent; `check=true` returns the number of these lines and the reasons
/// of the others.
#[utoipa::path(
    get,
    path = "/api/dataset/export",
    operation_id = "export_dataset",
    tag = "datasets",
    params(
        DatasetExportParams,
        ExportParams,
        RunFilterParams,
    ),
    responses(
        (status = 200, description = "The runs, or the report of `check=true`", content(
            (String = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"),
            (ChatReport = "application/json")
        ), headers(
            ("Content-Disposition" = String, description = "File name"),
            ("X-Export-Began-At" = String, description = "Value of `began_at` to continue this export"),
        )),
        errors::AnyOf<(errors::Common, errors::Shared, errors::Export)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn export(
    State(state): State<ExportState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Response, ErrorResponse> {
    let store = state.store.on_behalf_of(caller.holder());
    let (own, pairs) = DatasetExportParams::split(&pairs)?;
    let chat = own.chat()?;
    let mut query = ExportQuery::read(own.format.unwrap_or(Format::JsonLines), &pairs)?;
    only_saved(&mut query.runs)?;
    let projects = caller.readable(query.runs.project_id.as_deref())?;
    let now_ms = now_ms();
    let records = Records::begin(&store, &query, &projects, now_ms)?;
    let head = Head::new(query.format, "dataset", query.began_ms(now_ms));
    let shape = Shape {
        names_project: !is_one(&projects),
        is_whole: true,
    };
    let reader = Reader {
        store,
        projects: projects.clone(),
        now_ms,
    };
    let grant = ReadGrant {
        caller,
        chosen: query.runs.project_id.clone(),
        projects,
    };
    if query.format != Format::OpenAi {
        let source = WholeRuns::new(records, reader);
        let file = ExportFile {
            head,
            encoder: query.encoder(shape)?,
        };
        return respond(&state, grant, source, file).await;
    }
    let calls = ModelCalls::new(records, reader, chat.with_children);
    if chat.is_check {
        let _permit = state.exports.acquire(&grant.caller, "check")?;
        return Ok(Json(calls::report(calls).await?).into_response());
    }
    let file = ExportFile {
        head,
        encoder: Box::new(ChatLines),
    };
    respond(&state, grant, calls, file).await
}

fn only_saved(query: &mut RunQuery) -> Result<(), ApiError> {
    if query.filter.saved == Some(false) {
        let allowed = "`true`; a dataset contains only saved runs";
        return Err(invalid_parameter("saved", "false", allowed));
    }
    query.filter.saved = Some(true);
    Ok(())
}
