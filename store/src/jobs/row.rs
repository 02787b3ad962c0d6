//! A job's row.

use bytes::{Bytes, BytesMut};
use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::tables::row_binary::Column;

/// The columns, in the order of [`JobRow`].
pub(super) const COLUMNS: &str = "job_id, version, kind, project_id, state, runner, parameters, checkpoint, done, total, changed, \
    report, error, created_at, started_at, updated_at, ended_at";
/// Bytes of a stored error.
const ERROR_BYTES: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Reprice runs.
    Recalculate,
    /// Drop data older than its project keeps.
    Retention,
    /// Fold the stored events again and exchange the tables.
    Rebuild,
    /// Like a rebuild, only to compare.
    Check,
}

impl JobKind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Recalculate, "recalculate"),
        (Self::Retention, "retention"),
        (Self::Rebuild, "rebuild"),
        (Self::Check, "check"),
    ];

    /// The name on the API and in the table.
    pub fn as_str(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waits for a runner.
    Queued,
    Running,
    Done,
    /// `error` has the reason.
    Failed,
    Cancelled,
}

impl JobState {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Queued, "queued"),
        (Self::Running, "running"),
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (Self::Cancelled, "cancelled"),
    ];

    /// The name on the API and in the table.
    pub fn as_str(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

fn name<T: PartialEq + Copy>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter()
        .find(|(known, _)| *known == value)
        .map_or("", |(_, name)| name)
}

fn named<T: Copy>(all: &[(T, &'static str)], text: &str) -> Result<T, StoreError> {
    all.iter()
        .find(|(_, name)| *name == text)
        .map(|(value, _)| *value)
        .ok_or_else(|| StoreError::Shape(format!("a job is `{text}`, which is not known")))
}

/// Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub job_id: String,
    /// Grows with every change.
    pub version: u64,
    pub kind: JobKind,
    /// The project that it is limited to; empty for the whole deployment.
    pub project_id: String,
    pub state: JobState,
    /// The runner that has the job; empty before one takes it.
    pub runner: String,
    /// JSON of the kind's own format.
    pub parameters: String,
    /// JSON of the kind's own format, empty at the beginning.
    pub checkpoint: String,
    /// Completed pieces of work; their unit depends on the kind.
    pub done: u64,
    /// Pieces in all; 0 while unknown.
    pub total: u64,
    /// What it changed, or would change.
    pub changed: u64,
    /// JSON of the kind's own format; may be empty.
    pub report: String,
    /// Empty unless it failed.
    pub error: String,
    pub created_at: i64,
    /// When a runner first took it.
    pub started_at: Option<i64>,
    /// When this version was written.
    pub updated_at: i64,
    pub ended_at: Option<i64>,
}

#[derive(Row, Deserialize)]
pub(super) struct JobRow {
    job_id: String,
    version: u64,
    kind: String,
    project_id: String,
    state: String,
    runner: String,
    parameters: String,
    checkpoint: String,
    done: u64,
    total: u64,
    changed: u64,
    report: String,
    error: String,
    created_at: i64,
    started_at: Option<i64>,
    updated_at: i64,
    ended_at: Option<i64>,
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(row: JobRow) -> Result<Self, StoreError> {
        Ok(Self {
            kind: named(&JobKind::ALL, &row.kind)?,
            state: named(&JobState::ALL, &row.state)?,
            job_id: row.job_id,
            version: row.version,
            project_id: row.project_id,
            runner: row.runner,
            parameters: row.parameters,
            checkpoint: row.checkpoint,
            done: row.done,
            total: row.total,
            changed: row.changed,
            report: row.report,
            error: row.error,
            created_at: row.created_at,
            started_at: row.started_at,
            updated_at: row.updated_at,
            ended_at: row.ended_at,
        })
    }
}

/// Writes a version of a job. As the body of an insert, not as parameters of a statement, which are limited to 128 KiB
/// each: a failure that no retry can fix must not prevent writing a job's row.
pub(super) async fn insert(store: &Store, job: &Job) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO jobs ({COLUMNS}) FORMAT RowBinary");
    let mut insert = store
        .client
        .insert_formatted_with(sql)
        .with_timeouts(
            Some(store.config.send_timeout),
            Some(store.config.insert_timeout),
        )
        .with_setting("async_insert", "0");
    let sent = async {
        insert.send(encoded(job)).await?;
        insert.end().await
    };
    sent.await.map_err(|error| match StoreError::from(error) {
        StoreError::TimedOut(_) => StoreError::TimedOut(store.config.insert_timeout),
        other => other,
    })
}

/// The row, in the order of [`COLUMNS`].
fn encoded(job: &Job) -> Bytes {
    let mut row = BytesMut::new();
    let error: String = job.error.chars().take(ERROR_BYTES).collect();
    job.job_id.as_str().put(&mut row);
    job.version.put(&mut row);
    for text in [
        job.kind.as_str(),
        &job.project_id,
        job.state.as_str(),
        &job.runner,
        &job.parameters,
        &job.checkpoint,
    ] {
        text.put(&mut row);
    }
    for number in [job.done, job.total, job.changed] {
        number.put(&mut row);
    }
    job.report.as_str().put(&mut row);
    error.as_str().put(&mut row);
    job.created_at.put(&mut row);
    job.started_at.put(&mut row);
    job.updated_at.put(&mut row);
    job.ended_at.put(&mut row);
    row.freeze()
}
