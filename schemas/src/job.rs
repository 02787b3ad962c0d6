//! What long work is asked to do and what it reports: shapes that the API and the runner share through the table.

use serde::{Deserialize, Serialize};

use crate::timestamp::UnixMs;

/// Price model calls again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalculate {
    /// Earliest start of a run, inclusive.
    pub from_ms: Option<UnixMs>,
    /// Latest start, inclusive.
    pub to_ms: Option<UnixMs>,
    /// Only runs of this app.
    pub app_id: Option<String>,
    /// Only runs of this model.
    pub model: Option<String>,
    /// Say what would change and change nothing.
    pub dry_run: bool,
}

/// Drop what is older than its project keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Say what would go and drop nothing.
    pub dry_run: bool,
    /// Count ages from the clock even if it went forward by more than a day since retention last looked.
    #[serde(default)]
    pub trust_clock: bool,
}

/// Fold the stored events again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuild {
    /// Only this project; then nothing is put in place.
    pub project_id: Option<String>,
}

/// What a [`Recalculate`] came to, USD times 10^18 as text: sums go beyond what JSON numbers hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostReport {
    /// Cost of the runs looked at, as they were.
    pub before_units: String,
    /// The same by the price table of now.
    pub after_units: String,
}

/// What a [`Retention`] came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionReport {
    /// By project: what went, or would. At most a hundred of them.
    pub projects: Vec<ProjectRetention>,
    /// What went of all others, if there are more.
    #[serde(default)]
    pub others: Option<OtherProjects>,
    /// Days that changed too often while they were copied: they are left for the next time.
    pub days_left: u64,
    /// Events of what was saved while it was being dropped: they were processed again, and it is back.
    pub brought_back: u64,
    /// Start of the day that ages are counted from, RFC 3339.
    #[serde(default)]
    pub counted_from: String,
    /// Whole days by which the clock was ahead of that: it went forward by more than a day, and retention makes up for
    /// one day each day unless it is told to trust the clock.
    #[serde(default)]
    pub clock_ahead_days: u64,
}

/// What went of the projects that are not named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProjects {
    /// The most of them that something went of on one day.
    pub projects_at_least: u64,
    /// Days of which something went.
    pub days: u64,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
    /// Messages.
    pub messages: u64,
    /// Feedback.
    pub feedback: u64,
    /// Bytes on disk, nearly.
    pub bytes: u64,
}

/// What went of one project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRetention {
    /// The project.
    pub project_id: String,
    /// Days after which its data goes.
    pub retention_days: u32,
    /// Days of which something went.
    pub days: u64,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
    /// Messages.
    pub messages: u64,
    /// Feedback.
    pub feedback: u64,
    /// Bytes on disk, nearly.
    pub bytes: u64,
}

/// What a [`Rebuild`] came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// Runs of which there are events, but no row.
    pub missing: u64,
    /// Rows that the events make none like.
    pub extra: u64,
    /// Rows that the events make otherwise.
    pub different: u64,
    /// Rows that only cost something else because the price table changed: `spindle recalculate` mends them.
    pub repriced: u64,
    /// Rows of which no event is stored: they were brought over as they are.
    pub carried_over: u64,
    /// Some of those that differ.
    pub examples: Vec<DifferentRun>,
}

/// A run whose row is not what its events make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferentRun {
    /// The project.
    pub project_id: String,
    /// The app.
    pub app_id: String,
    /// The run.
    pub run_id: String,
    /// `missing`, `extra` or `different`.
    pub kind: String,
    /// The columns that differ.
    pub columns: Vec<String>,
}
