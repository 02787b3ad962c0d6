//! Runs that report the same model call: decision 0028.

use super::{RunRecord, merged, scope, seek};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Projects, Value, time};
use crate::tables::decode::columns_of;

/// How far from the start of a run others of its call are looked for, milliseconds: instrumentations that see one call
/// begin within its time, and few calls take as long.
const AROUND_MS: i64 = 10 * 60 * 1000;

impl Store {
    /// Another run that reports the model call of this one, with input or output: the one that counts the call, if it
    /// has them.
    pub async fn other_report_of_call(
        &self,
        run: &RunRecord,
    ) -> Result<Option<RunRecord>, StoreError> {
        let counting = match run.counted_run_id.as_str() {
            "" => &run.run_id,
            counting => counting,
        };
        let mut at = scope(&Projects::Only(vec![run.project_id.clone()]));
        for (bound, name, start_ms) in [
            (">=", "first_ms", run.started_at.saturating_sub(AROUND_MS)),
            ("<=", "last_ms", run.started_at.saturating_add(AROUND_MS)),
        ] {
            let sql =
                format!("started_at {bound} fromUnixTimestamp64Milli({{{name}:Int64}}, 'UTC')");
            at.and_with(&sql, name, time(start_ms));
        }
        at.and_with(
            "app_id = {app:String}",
            "app",
            Value::Text(run.app_id.clone()),
        );
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {} \
             WHERE (run_id = {{counting:String}} OR counted_run_id = {{counting:String}}) AND run_id != {{own:String}} \
               AND (input_preview != '' OR output_preview != '') \
             ORDER BY counted_run_id, started_at, run_id LIMIT 1",
            columns_of::<RunRecord>(),
            at.sql(),
        );
        at.fill(merged(seek(self.bounded_query(&sql))))
            .param("counting", counting)
            .param("own", &run.run_id)
            .optional()
            .await
    }
}
