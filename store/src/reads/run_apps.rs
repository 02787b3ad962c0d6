//! The apps of runs, for events that name no app.

use std::time::Duration;

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::client::query::ReadBounds;
use crate::error::StoreError;
use crate::reads::threads::chunks;

/// A report waits for these look-ups, and gives up earlier.
const BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(5),
    result_rows: 100_000,
    result_bytes: 64 << 20,
    memory_bytes: 512 << 20,
    threads: 2,
};

/// A run or a message, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct AppOfRun {
    pub run_id: String,
    pub app_id: String,
    /// The start of the run, or the time of the message.
    pub started_at: UnixMs,
}

impl Store {
    /// Whether the project has runs or messages in other apps than this one.
    pub async fn has_other_apps(&self, project: &str, app: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM runs WHERE project_id = {project:String} AND app_id != {app:String} LIMIT 1 UNION ALL \
                   SELECT 1 FROM messages WHERE project_id = {project:String} AND app_id != {app:String} LIMIT 1";
        let query = self.bounded_query_within(sql, BOUNDS);
        let found = query.param("project", project).param("app", app);
        Ok(found.optional::<u8>().await?.is_some())
    }

    /// The runs and messages with these ids in all apps of a project, one for each app, in no order. Marks on runs that
    /// were never seen are none.
    pub async fn apps_of_runs(
        &self,
        project: &str,
        run_ids: &[&str],
    ) -> Result<Vec<AppOfRun>, StoreError> {
        let sql = "SELECT run_id, app_id, toUnixTimestamp64Milli(max(at)) FROM (\
               SELECT run_id, app_id, maxIf(started_at, is_deleted = 0) AS at FROM runs \
               WHERE project_id = {project:String} AND run_id IN {ids:Array(String)} \
               GROUP BY run_id, app_id HAVING min(is_deleted) = 0 UNION ALL \
               SELECT run_id, app_id, min(timestamp) AS at FROM messages \
               WHERE project_id = {project:String} AND run_id IN {ids:Array(String)} GROUP BY run_id, app_id) \
             GROUP BY run_id, app_id";
        let mut found = Vec::new();
        for ids in chunks(run_ids) {
            let query = self.bounded_query_within(sql, BOUNDS);
            let runs: Vec<AppOfRun> = query
                .param("project", project)
                .param("ids", ids)
                .rows()
                .await?;
            found.extend(runs);
        }
        Ok(found)
    }
}
