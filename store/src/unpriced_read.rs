//! Model calls that cost nothing because nobody set a price for their model. Each run is counted once (P3).

use clickhouse::Row;
use schemas::filter::RunFilter;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Projects, Value, scope, start_bounds};
use crate::runs_read::{merged, seek};

/// Models that are told apart: those with the most tokens come first.
pub const MODELS_MAX: usize = 1000;
/// Rows up to which their keys are looked up one by one; beyond it everything in their span of time is merged. A set of
/// so many keys takes about 30 MB.
const CANDIDATES_MAX: u64 = 200_000;

/// A model without a price, and how much it was used.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct UnpricedModel {
    /// The model, as clients name it.
    pub model: String,
    /// Model calls.
    pub calls: u64,
    /// Their tokens of prompts, where known.
    pub prompt_tokens: u64,
    /// Their tokens of answers, where known.
    pub completion_tokens: u64,
    /// All their tokens, where known.
    pub total_tokens: u64,
    /// Start of the first of them, Unix milliseconds.
    pub first_seen: i64,
    /// Start of the last of them, Unix milliseconds.
    pub last_seen: i64,
}

#[derive(Row, Deserialize)]
struct Candidates {
    rows: u64,
    first: i64,
    last: i64,
}

impl Store {
    /// The models without a price in these projects, those with the most tokens first; at most one more than
    /// [`MODELS_MAX`]. Of the filter, the app and the bounds on the start count.
    pub async fn unpriced_models(
        &self,
        projects: &Projects,
        filter: &RunFilter,
    ) -> Result<Vec<UnpricedModel>, StoreError> {
        let mut at = scope(projects).with(&start_bounds(filter));
        if let Some(app) = &filter.app_id {
            at.and_with("app_id = {app:String}", "app", Value::Text(app.clone()));
        }
        let candidates = self.candidates(&at).await?;
        if candidates.rows == 0 {
            return Ok(Vec::new());
        }
        // All of these are part of the key, so they pick whole runs and never an older row of one.
        at.and("started_at >= fromUnixTimestamp64Milli({first:Int64}, 'UTC')");
        at.and("started_at <= fromUnixTimestamp64Milli({last:Int64}, 'UTC')");
        at.give("first", Value::Number(candidates.first));
        at.give("last", Value::Number(candidates.last));
        let keys = match candidates.rows {
            ..=CANDIDATES_MAX => format!(
                " AND (started_at, run_id) IN (SELECT started_at, run_id FROM runs WHERE {} AND {UNPRICED})",
                at.sql()
            ),
            _ => String::new(),
        };
        let sql = format!(
            "SELECT model, count() AS calls, sum(ifNull(prompt_tokens, 0)), sum(ifNull(completion_tokens, 0)), \
               sum(ifNull(runs.total_tokens, 0)) AS tokens, min(started_at), max(started_at) \
             FROM runs FINAL PREWHERE {}{keys} WHERE {UNPRICED} \
             GROUP BY model ORDER BY tokens DESC, calls DESC, model LIMIT {}",
            at.sql(),
            MODELS_MAX + 1,
        );
        at.fill(merged(seek(self.bounded_query(&sql)))).rows().await
    }

    /// Rows that say so, older ones of a run too: a bound on how many runs there are, and the time they span.
    async fn candidates(&self, at: &Conditions) -> Result<Candidates, StoreError> {
        let sql = format!(
            "SELECT count(), min(started_at), max(started_at) FROM runs WHERE {} AND {UNPRICED}",
            at.sql()
        );
        at.fill(seek(self.bounded_query(&sql))).one().await
    }
}

const UNPRICED: &str = "is_deleted = 0 AND cost_status = 'unpriced_model'";
