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
