//! Exports: runs as a stream of rows in a file format.
//!
//! Rows are read in chunks ([`store::reads::runs::RunExport`]), encoded while the next chunk is read, and sent as fast
//! as the client reads. An export holds a few chunks in memory, whatever its length.

mod body;
mod csv;
mod lines;
mod parquet;
mod permits;
pub(crate) mod query;
mod row;

use api::ErrorResponse;
use schemas::timestamp::UnixMs;
use store::reads::filter_sql::Projects;
use store::reads::runs::{ExportStart, RunExport, RunRecord};
use store::{Store, StoreError};

use crate::access::Authenticator;

pub(crate) use body::{Encoder, ExportFile, Head, ReadGrant, RowSource, respond};
pub(crate) use permits::Exports;
pub(crate) use query::{DatasetExportParams, ExportParams, ExportQuery, Format, RunExportParams};
pub(crate) use row::{Row, Shape, Whole};

#[derive(Clone)]
pub(crate) struct ExportState {
    /// Its reads yield to all others.
    pub(crate) store: Store,
    pub(crate) exports: Exports,
    pub(crate) authenticator: Authenticator,
}

/// Runs that are read at a time: usually 5 to 10 MB, so that a few exports fit in memory.
const CHUNK_RUNS: usize = 5_000;

/// The matching runs, up to the requested limit.
pub(crate) struct Records {
    export: RunExport,
    left: u64,
}

impl Records {
    pub(crate) fn begin(
        store: &Store,
        query: &ExportQuery,
        projects: &Projects,
        now_ms: UnixMs,
    ) -> Result<Self, ErrorResponse> {
        let left = query.limit.unwrap_or(u64::MAX);
        let start = ExportStart {
            after: query.position(projects)?,
            began_ms: query.began_at_ms,
            chunk: usize::try_from(left).unwrap_or(CHUNK_RUNS).min(CHUNK_RUNS),
        };
        let filter = &query.runs.filter;
        let export = store.export_runs(projects, filter, start, now_ms);
        Ok(Self { export, left })
    }

    /// The next runs; none at the end.
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
