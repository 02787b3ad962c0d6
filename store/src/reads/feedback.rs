//! Reads of feedback: the history of one run or message, and the newest rating of many.

use std::collections::HashMap;

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value};
use crate::reads::threads::chunks;

/// Maximum number of ratings in one history; the newest are kept.
const HISTORY: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct FeedbackRecord {
    /// The rated run or message.
    pub run_id: String,
    /// `positive` or `negative`; in a history empty for a comment alone.
    pub rating: String,
    /// Empty for none.
    pub comment: String,
    /// Unix milliseconds.
    pub timestamp: UnixMs,
}

impl Store {
    /// The newest 1000 ratings of a run or message of one project and app, oldest first.
    pub async fn feedback_history(
        &self,
        (project_id, app_id): (&str, &str),
        run_id: &str,
    ) -> Result<Vec<FeedbackRecord>, StoreError> {
        let sql = format!(
            "SELECT run_id, rating, comment, toUnixTimestamp64Milli(timestamp) FROM feedback \
             WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND run_id = {{run:String}} \
             ORDER BY timestamp DESC, event_id DESC LIMIT 1 BY event_id LIMIT {HISTORY}"
        );
        let mut history: Vec<FeedbackRecord> = self
            .bounded_query(&sql)
            .param("project", project_id)
            .param("app", app_id)
            .param("run", run_id)
            .rows()
            .await?;
        history.reverse();
        Ok(history)
    }

    /// The newest rating of each of these ids inside of `scope`. A comment alone does not undo a rating.
    pub(crate) async fn newest_ratings(
        &self,
        scope: &Conditions,
        ids: &[&str],
    ) -> Result<HashMap<String, FeedbackRecord>, StoreError> {
        let mut newest = HashMap::new();
        for ids in chunks(ids) {
            let mut at = scope.clone();
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            at.and_with("run_id IN {ids:Array(String)}", "ids", Value::Texts(ids));
            let sql = format!(
                "SELECT run_id, rating, comment, toUnixTimestamp64Milli(timestamp) FROM feedback \
                 WHERE {} AND rating != '' ORDER BY timestamp DESC, event_id DESC LIMIT 1 BY run_id",
                at.sql()
            );
            let rows: Vec<FeedbackRecord> = at.fill(self.bounded_query(&sql)).rows().await?;
            newest.extend(rows.into_iter().map(|row| (row.run_id.clone(), row)));
        }
        Ok(newest)
    }
}
