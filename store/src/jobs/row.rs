//! A job as it is kept.

use bytes::{Bytes, BytesMut};
use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::row_binary::Column;

/// The columns, in the order of [`JobRow`].
pub(super) const COLUMNS: &str = "job_id, version, kind, project_id, state, runner, parameters, checkpoint, done, total, changed, \
    report, error, created_at, started_at, updated_at, ended_at";
/// Bytes of an error that are kept.
const ERROR_BYTES: usize = 2000;

/// What kind of work a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Price runs again.
    Recalculate,
    /// Drop what is older than its project keeps.
    Retention,
    /// Fold the stored events again and put the result in place.
    Rebuild,
    /// The same, only to compare.
    Check,
}

impl JobKind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Recalculate, "recalculate"),
        (Self::Retention, "retention"),
        (Self::Rebuild, "rebuild"),
        (Self::Check, "check"),
    ];

    /// Its name on the API and in the table.
    pub fn as_str(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waits for a runner.
    Queued,
    /// A runner works on it.
    Running,
    /// Did what it was asked to.
    Done,
    /// Could not; `error` says why.
    Failed,
    /// Somebody ended it.
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

    /// Its name on the API and in the table.
    pub fn as_str(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Whether nothing more will happen.
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

/// A job. Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub job_id: String,
    /// Grows with every change.
    pub version: u64,
    /// What kind of work.
    pub kind: JobKind,
    /// The project it is limited to; empty for the whole deployment.
    pub project_id: String,
    /// Where it stands.
    pub state: JobState,
    /// Who works on it, empty before anyone does.
    pub runner: String,
    /// What it was asked to do: JSON of the kind's own shape.
    pub parameters: String,
    /// Where to go on: JSON of the kind's own shape, empty at the beginning.
    pub checkpoint: String,
    /// Pieces of work done; which pieces depends on the kind.
    pub done: u64,
    /// Pieces in all, as far as is known; 0 while it is not.
    pub total: u64,
    /// What it changed, or would.
    pub changed: u64,
    /// What came of it: JSON of the kind's own shape, empty before there is anything.
    pub report: String,
    /// Why it failed, empty unless it did.
    pub error: String,
    /// When it was asked for.
    pub created_at: i64,
    /// When a runner first took it.
    pub started_at: Option<i64>,
    /// When this version was written.
    pub updated_at: i64,
    /// When it was over.
    pub ended_at: Option<i64>,
}

impl Job {
    /// Whether work on this project (empty: on everything) touches what this job works on.
    pub fn overlaps(&self, project_id: &str) -> bool {
        self.project_id.is_empty() || project_id.is_empty() || self.project_id == project_id
    }
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

/// Writes a version of a job. As the body of an insert, not as parameters of a statement: those may have 128 KiB each,
/// and a job's row is no place for a failure that repeating cannot mend.
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
