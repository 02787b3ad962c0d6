//! `GET /api/run/export`: all matching runs as a file.

use api::{ErrorResponse, errors};
use axum::extract::State;
use axum::response::Response;
use schemas::timestamp::UnixMs;
use store::reads::filter_sql::Projects;
use store::reads::runs::RunRecord;
use store::{Store, StoreError};

use crate::access::{Caller, is_one};
use crate::clock::now_ms;
use crate::export::{
    ExportFile, ExportParams, ExportQuery, ExportState, Format, Head, ReadGrant, Records, Row,
    RowSource, RunExportParams, Shape, respond,
};
use crate::params::{Pairs, RunFilterParams};
use crate::views::with_project;

/// Export runs
///
/// Streams all matching runs with the fields of the list, oldest start first, without a limit on their number. To
/// continue an incomplete stream, send the `after_` values of its last complete row and `began_at`.
#[utoipa::path(
    get,
    path = "/api/run/export",
    operation_id = "export_runs",
    tag = "runs",
    params(
        RunExportParams,
        ExportParams,
        RunFilterParams,
    ),
    responses(
        (status = 200, description = "The runs", content(
            (String = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet")
        ), headers(
            ("Content-Disposition" = String, description = "File name"),
            ("X-Export-Began-At" = String, description = "Value of `began_at` to continue this export"),
        )),
        errors::AnyOf<(errors::Common, errors::Shared, errors::Export)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn runs(
    State(state): State<ExportState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Response, ErrorResponse> {
    let store = state.store.on_behalf_of(caller.holder());
    let (own, pairs) = RunExportParams::split(&pairs)?;
    let query = ExportQuery::read(own.format.unwrap_or(Format::JsonLines), &pairs)?;
    let projects = caller.readable(query.runs.project_id.as_deref())?;
    let now_ms = now_ms();
    let source = Runs::begin(&store, &query, &projects, now_ms)?;
    let shape = Shape {
        names_project: !is_one(&projects),
        is_whole: false,
    };
    let head = Head::new(query.format, "runs", query.began_ms(now_ms));
    let file = ExportFile {
        head,
        encoder: query.encoder(shape)?,
    };
    let grant = ReadGrant {
        caller,
        chosen: query.runs.project_id,
        projects,
    };
    respond(&state, grant, source, file).await
}

struct Runs {
    records: Records,
    projects: Projects,
    now_ms: UnixMs,
}

impl Runs {
    fn begin(
        store: &Store,
        query: &ExportQuery,
        projects: &Projects,
        now_ms: UnixMs,
    ) -> Result<Self, ErrorResponse> {
        Ok(Self {
            records: Records::begin(store, query, projects, now_ms)?,
            projects: projects.clone(),
            now_ms,
        })
    }
}

impl RowSource for Runs {
    async fn next(&mut self) -> Result<Vec<Row>, StoreError> {
        let records = self.records.next().await?;
        let row = |record: RunRecord| Row {
            run: with_project(record.into_run(self.now_ms), &self.projects),
            whole: None,
        };
        Ok(records.into_iter().map(row).collect())
    }
}
