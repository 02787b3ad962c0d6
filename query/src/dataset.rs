//! Datasets: the saved runs, as a list and as files to work on with other programs.

mod calls;
mod chat;
pub(crate) mod items;
mod whole;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use schemas::filter::{RunQuery, invalid_parameter};
use schemas::run::RunPage;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::export::{
    Asker, ExportParams, Format, Head, Question, Records, Shape, names_project, respond,
};
use crate::params::{Pairs, RunFilterParams};
use crate::runs;
use crate::state::{QueryState, now_ms};
use calls::{ChatLines, ChatReport, ModelCalls};
use whole::{Reader, WholeRuns};

/// List the dataset
///
/// The saved runs: the run list with `saved=true`, in the same shape and with the same paging.
#[utoipa::path(
    get,
    path = "/api/dataset",
    operation_id = "list_dataset",
    tag = "datasets",
    params(
        RunFilterParams,
        ("sort" = Option<String>, Query, description = "`-started_at` (default), `started_at`, `-latency_s`, `-total_cost`, `-total_tokens`",
            pattern = "^(-started_at|started_at|-latency_s|-total_cost|-total_tokens)$"),
        ("limit" = Option<u32>, Query, description = "Runs on the page, 50 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with the same filter and sort", min_length = 1, max_length = 1024),
        ("count" = Option<bool>, Query, description = "Whether to count all matching runs, up to 10,000"),
    ),
    responses(
        (status = 200, description = "A page", body = RunPage),
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
) -> Result<Json<RunPage>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let mut query = RunQuery::from_pairs(pairs.iter())?;
    only_saved(&mut query)?;
    runs::page(&state, &caller, &query).await
}

/// Export the dataset
///
/// Streams every saved run that matches, whole: with input, output and metadata. As `openai-jsonl` it is a line
/// `{"messages": [...]}` for each model call that can be shown so; with `check=true` the answer says how many can, and
/// why others cannot.
#[utoipa::path(
    get,
    path = "/api/dataset/export",
    operation_id = "export_dataset",
    tag = "datasets",
    params(
        ("format" = Option<String>, Query, description = "`jsonl` (default), `openai-jsonl`, `csv` or `parquet`", pattern = "^(jsonl|openai-jsonl|csv|parquet)$"),
        ("include" = Option<String>, Query, description = "For `openai-jsonl`: `children` takes the model calls below a saved run that is none itself", pattern = "^children$"),
        ("check" = Option<bool>, Query, description = "For `openai-jsonl`: says what the export would hold instead of making it"),
        ExportParams,
        RunFilterParams,
    ),
    responses(
        (status = 200, description = "The runs, or the report of `check=true`", content(
            (String = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"),
            (ChatReport = "application/json")
        ), headers(
            ("Content-Disposition" = String, description = "A name for the file"),
            ("X-Export-Began-At" = String, description = "Give it as `began_at` to go on after this export"),
        )),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant; the message names both and what is allowed", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or enough exports are running", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn export(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Response, Refusal> {
    let state = state.on_behalf_of(&caller);
    let formats = [
        Format::JsonLines,
        Format::OpenAi,
        Format::Csv,
        Format::Parquet,
    ];
    let mut question = Question::read(&pairs, &formats)?;
    only_saved(&mut question.runs)?;
    let projects = caller.readable(question.runs.project_id.as_deref())?;
    let now_ms = now_ms();
    let records = Records::begin(&state, &question, &projects, now_ms)?;
    let head = Head::new(question.format, "dataset", question.began_ms(now_ms));
    let shape = Shape {
        names_project: names_project(&projects),
        is_whole: true,
    };
    let reader = Reader {
        store: state.store().clone(),
        projects: projects.clone(),
        now_ms,
    };
    let asker = Asker {
        caller,
        chosen: question.runs.project_id.clone(),
        projects,
    };
    if question.format != Format::OpenAi {
        let source = WholeRuns::new(records, reader);
        return respond(&state, asker, source, (question.encoder(shape)?, head)).await;
    }
    let calls = ModelCalls::new(records, reader, question.chat.with_children);
    if question.chat.is_check {
        let _place = state.exports().take(&asker.caller, "check")?;
        return Ok(Json(calls::report(calls).await?).into_response());
    }
    respond(&state, asker, calls, (Box::new(ChatLines), head)).await
}

fn only_saved(query: &mut RunQuery) -> Result<(), Fault> {
    if query.filter.saved == Some(false) {
        let allowed = "`true`: a dataset holds the saved runs";
        return Err(invalid_parameter("saved", "false", allowed));
    }
    query.filter.saved = Some(true);
    Ok(())
}
