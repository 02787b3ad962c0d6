//! `GET /api/run/export`: every run that matches, streamed.
//!
//! Rows are read in chunks ([`store::runs_read::RunExport`]), encoded while the next chunk is read, and sent as fast
//! as the client takes them. Memory is a few chunks, whatever the length of the export.

mod body;
mod csv;
mod lines;
mod parquet;
mod permits;
pub(crate) mod question;
mod row;

use axum::extract::State;
use axum::response::Response;
use schemas::timestamp::UnixMs;
use store::StoreError;
use store::filter_sql::Projects;
use store::runs_read::{ExportStart, RunExport, RunRecord};

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, RunFilterParams};
use crate::runs::with_project;
use crate::state::{QueryState, now_ms};

pub(crate) use body::{Asker, Encoder, Head, Source, respond};
pub(crate) use permits::Exports;
pub(crate) use question::{ExportParams, Format, Question};
pub(crate) use row::{Row, Shape, Whole};

/// Runs read at a time: 5 to 10 MB of them as a rule, so that a few exports side by side stay small.
const CHUNK_RUNS: usize = 5_000;

/// Export runs
///
/// Streams every matching run with the fields of the list, oldest start first, in any number. A stream that ends
/// without its last chunk is cut off: go on with the three `after_` values of the last whole row and `began_at`.
#[utoipa::path(
    get,
    path = "/api/run/export",
    operation_id = "export_runs",
    tag = "runs",
    params(
        ("format" = Option<String>, Query, description = "`jsonl` (default), `csv` or `parquet`", pattern = "^(jsonl|csv|parquet)$"),
        ExportParams,
        RunFilterParams,
    ),
    responses(
        (status = 200, description = "The runs", content(
            (String = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet")
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
pub(crate) async fn runs(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Response, Refusal> {
    let state = state.on_behalf_of(&caller);
    let question = Question::read(&pairs, &[Format::JsonLines, Format::Csv, Format::Parquet])?;
    let projects = caller.readable(question.runs.project_id.as_deref())?;
    let now_ms = now_ms();
    let source = Runs::begin(&state, &question, &projects, now_ms)?;
    let shape = Shape {
        names_project: names_project(&projects),
        is_whole: false,
    };
    let head = Head::new(question.format, "runs", question.began_ms(now_ms));
    let encoder = question.encoder(shape)?;
    let asker = Asker {
        caller,
        chosen: question.runs.project_id,
        projects,
    };
    respond(&state, asker, source, (encoder, head)).await
}

/// Whether rows name their project: where the caller reaches more than one.
pub(crate) fn names_project(projects: &Projects) -> bool {
    !matches!(projects, Projects::Only(projects) if projects.len() == 1)
}

/// The matching runs as records, at most as many as were asked for.
pub(crate) struct Records {
    export: RunExport,
    left: u64,
}

impl Records {
    /// Begins to read.
    pub(crate) fn begin(
        state: &QueryState,
        question: &Question,
        projects: &Projects,
        now_ms: UnixMs,
    ) -> Result<Self, Refusal> {
        let left = question.limit.unwrap_or(u64::MAX);
        let start = ExportStart {
            after: question.position(projects)?,
            began_ms: question.began_at_ms,
            chunk: usize::try_from(left).unwrap_or(CHUNK_RUNS).min(CHUNK_RUNS),
        };
        let filter = &question.runs.filter;
        let export = state.store().export_runs(projects, filter, start, now_ms);
        Ok(Self { export, left })
    }

    /// The next ones; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<RunRecord>, StoreError> {
        if self.left == 0 {
            return Ok(Vec::new());
        }
        let mut records = self.export.next().await?;
        records.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= records.len() as u64;
        Ok(records)
    }
}

/// The matching runs as rows.
struct Runs {
    records: Records,
    projects: Projects,
    now_ms: UnixMs,
}

impl Runs {
    fn begin(
        state: &QueryState,
        question: &Question,
        projects: &Projects,
        now_ms: UnixMs,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            records: Records::begin(state, question, projects, now_ms)?,
            projects: projects.clone(),
            now_ms,
        })
    }
}

impl Source for Runs {
    async fn next(&mut self) -> Result<Vec<Row>, StoreError> {
        let records = self.records.next().await?;
        let row = |record: RunRecord| Row {
            run: with_project(record.into_run(self.now_ms), &self.projects),
            whole: None,
        };
        Ok(records.into_iter().map(row).collect())
    }
}
