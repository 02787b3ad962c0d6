//! Looks up messages of conversations.

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Projects, Value, scope};

impl Store {
    /// Project and app of the newest message with this id.
    pub async fn app_of_message(
        &self,
        projects: &Projects,
        app_id: Option<&str>,
        run_id: &str,
    ) -> Result<Option<(String, String)>, StoreError> {
        let mut at = scope(projects);
        let run = Value::Text(run_id.to_owned());
        at.and_with("run_id = {run:String}", "run", run);
        if let Some(app_id) = app_id {
            let app = Value::Text(app_id.to_owned());
            at.and_with("app_id = {app:String}", "app", app);
        }
        let sql = format!(
            "SELECT project_id, app_id FROM messages WHERE {} ORDER BY timestamp DESC, project_id, app_id LIMIT 1",
            at.sql()
        );
        at.fill(self.bounded_query(&sql)).optional().await
    }
}
