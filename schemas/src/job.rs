//! Parameters and reports of jobs, which the API and the runner share through the table.

use serde::{Deserialize, Serialize};

use crate::timestamp::UnixMs;

/// Reprices model calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalculate {
    /// Earliest start of a run, inclusive.
    pub from_ms: Option<UnixMs>,
    /// Latest start, inclusive.
    pub to_ms: Option<UnixMs>,
    pub app_id: Option<String>,
    pub model: Option<String>,
    /// Report what would change, and change nothing.
    pub dry_run: bool,
}

/// Drops data older than its project keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Report what would be dropped, and drop nothing.
    pub dry_run: bool,
    /// Count ages from the clock even if it jumped forward by more than a day since the last retention.
    #[serde(default)]
    pub trust_clock: bool,
}

/// Folds the stored events again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuild {
    /// Only this project; then the tables are not exchanged.
    pub project_id: Option<String>,
}

/// Report of a [`Recalculate`], USD times 10^18 as text: sums exceed the range of JSON numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostReport {
    /// Previous cost of the runs.
    pub before_units: String,
    /// Cost by the current price table.
    pub after_units: String,
}

/// Report of a [`Retention`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionReport {
    /// What was dropped, or would be, by project. At most a hundred projects.
    pub projects: Vec<ProjectRetention>,
    /// What was dropped of further projects.
    #[serde(default)]
    pub others: Option<OtherProjects>,
    /// Days that changed too often while they were copied: left for the next retention.
    pub days_left: u64,
    /// Events of runs that were saved while they were being dropped: they were processed again, and are back.
    pub brought_back: u64,
    /// Start of the day that ages are counted from, RFC 3339.
    #[serde(default)]
    pub counted_from: String,
    /// Whole days by which the clock was ahead of that: it jumped forward by more than a day, and retention makes up
    /// for one day each day unless the job trusts the clock.
    #[serde(default)]
    pub clock_ahead_days: u64,
}

/// What was dropped of the projects that are not named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProjects {
    /// The highest number of these projects on one day.
    pub projects_at_least: u64,
    /// Days with dropped data.
    pub days: u64,
    pub runs: u64,
    pub events: u64,
    pub messages: u64,
    pub feedback: u64,
    /// Approximate bytes on disk.
    pub bytes: u64,
}

/// What was dropped of one project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRetention {
    pub project_id: String,
    pub retention_days: u32,
    /// Days with dropped data.
    pub days: u64,
    pub runs: u64,
    pub events: u64,
    pub messages: u64,
    pub feedback: u64,
    /// Approximate bytes on disk.
    pub bytes: u64,
}

/// Report of a [`Rebuild`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// Runs with events and without a row.
    pub missing: u64,
    /// Rows that the events do not yield.
    pub extra: u64,
    /// Rows that differ from what the events yield.
    pub different: u64,
    /// Rows that differ only in cost, because the price table changed: `spindle recalculate` corrects them.
    pub repriced: u64,
    /// Rows without stored events: carried over as they are.
    pub carried_over: u64,
    /// Some of the differing runs.
    pub examples: Vec<DifferentRun>,
}

/// A run whose row differs from what its events yield.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferentRun {
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
    /// `missing`, `extra` or `different`.
    pub kind: String,
    /// The columns that differ.
    pub columns: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, asked: &T) {
        let golden = crate::golden::check(name, &serde_json::to_vec(asked).unwrap());
        assert_eq!(serde_json::from_slice::<T>(&golden).unwrap(), *asked);
    }

    #[test]
    fn parameters_have_the_bytes_that_the_tables_hold() {
        check(
            "job_parameters.recalculate.json",
            &Recalculate {
                from_ms: Some(1_795_168_800_000),
                app_id: Some("shop".to_owned()),
                dry_run: true,
                ..Recalculate::default()
            },
        );
        check(
            "job_parameters.retention.json",
            &Retention {
                dry_run: false,
                trust_clock: true,
            },
        );
        check(
            "job_parameters.rebuild.json",
            &Rebuild {
                project_id: Some("acme".to_owned()),
            },
        );
        let older = crate::golden::bytes("job_parameters.retention.older.json");
        let older: Retention = serde_json::from_slice(&older).unwrap();
        assert!(older.dry_run && !older.trust_clock);
    }
}
