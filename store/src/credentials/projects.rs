//! Creating and changing projects.
//!
//! At most one project accepts an app without a key. The table cannot enforce that, so each change of projects takes a
//! turn in the deployment, and reads all projects in it.

use schemas::ids::ProjectId;

use super::directory::Credentials;
use super::records::{ProjectRecord, now_micros};
use crate::error::StoreError;

/// Default days of retention, as in the migration.
const RETENTION_DAYS: u32 = 30;
/// Default app of events that name none.
const DEFAULT_APP: &str = "default";
/// Name of the turn for changes of projects.
const PROJECTS_TURN: &str = "projects";

/// A change of a project; `None` keeps the current value, or the default of a new project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectChange {
    /// App of events that name none.
    pub default_app: Option<String>,
    /// Apps whose events are accepted without a key.
    pub keyless_app_ids: Option<Vec<String>>,
    /// Days after which its data is dropped; 0 keeps it for ever.
    pub retention_days: Option<u32>,
}

impl Credentials {
    /// Creates a project or changes its apps.
    pub async fn put_project(
        &self,
        project: &ProjectId,
        default_app: &str,
        keyless_app_ids: &[&str],
    ) -> Result<(), StoreError> {
        let keyless = keyless_app_ids.iter().map(|app| (*app).to_owned());
        let change = ProjectChange {
            default_app: Some(default_app.to_owned()),
            keyless_app_ids: Some(keyless.collect()),
            retention_days: None,
        };
        self.change_project(project, change).await.map(|_| ())
    }

    /// Days after which the data of an existing project is dropped; 0 keeps it for ever.
    pub async fn set_retention(&self, project: &ProjectId, days: u32) -> Result<(), StoreError> {
        let mut known = self.projects().await?.into_iter();
        if !known.any(|known| known.project_id == project.as_str()) {
            return Err(StoreError::Invalid(format!(
                "there is no project `{project}`"
            )));
        }
        let change = ProjectChange {
            retention_days: Some(days),
            ..ProjectChange::default()
        };
        self.change_project(project, change).await.map(|_| ())
    }

    /// Creates or changes a project, and returns its new state.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another project accepts one of the apps without a key.
    pub async fn change_project(
        &self,
        project: &ProjectId,
        change: ProjectChange,
    ) -> Result<ProjectRecord, StoreError> {
        if !ProjectId::is_valid(project.as_str()) {
            return Err(StoreError::Invalid(format!(
                "`{project}` cannot name a project: 1 to 64 of a-z, 0-9 and -"
            )));
        }
        let (this, project) = (self.clone(), project.clone());
        let changed = async move { this.change_in_turn(&project, change).await };
        self.exclusively(PROJECTS_TURN, changed).await
    }

    async fn change_in_turn(
        &self,
        project: &ProjectId,
        change: ProjectChange,
    ) -> Result<ProjectRecord, StoreError> {
        let known = self.projects().await?;
        let (before, others): (Vec<ProjectRecord>, Vec<ProjectRecord>) = known
            .into_iter()
            .partition(|one| one.project_id == project.as_str());
        let before = before.into_iter().next();
        let keyless = match (change.keyless_app_ids, &before) {
            (Some(apps), _) => apps,
            (None, Some(before)) => before.keyless_app_ids.clone(),
            (None, None) => Vec::new(),
        };
        let mut taken = others.iter().flat_map(|other| &other.keyless_app_ids);
        if let Some(app) = taken.find(|app| keyless.contains(app)) {
            // The owner is not named: the caller may have no access to that project.
            return Err(StoreError::Conflict(format!(
                "app `{app}` is accepted without a key by another project already; take it from that project first"
            )));
        }
        let default_app = change
            .default_app
            .or(before.map(|before| before.default_app))
            .unwrap_or_else(|| DEFAULT_APP.to_owned());
        self.insert_project(project, &default_app, &keyless, change.retention_days)
            .await?;
        let now = self.projects().await?;
        now.into_iter()
            .find(|now| now.project_id == project.as_str())
            .ok_or_else(|| StoreError::Shape("the project is not there".to_owned()))
    }

    async fn insert_project(
        &self,
        project: &ProjectId,
        default_app: &str,
        keyless_app_ids: &[String],
        retention_days: Option<u32>,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO projects (project_id, version, default_app, keyless_app_ids, retention_days, created_at) \
                   SELECT {project:String}, greatest({now:UInt64}, max(version) + 1), {app:String}, {keyless:Array(String)}, \
                     multiIf({days:Int64} >= 0, toUInt32({days:Int64}), count() = 0, {usual:UInt32}, argMax(retention_days, version)), \
                     if(count() = 0, now64(3), min(created_at)) \
                   FROM projects WHERE project_id = {project:String}";
        self.store()
            .client
            .query_raw(sql)
            .param("project", project.as_str())
            .param("now", now_micros())
            .param("app", default_app)
            .param("keyless", keyless_app_ids)
            .param("days", retention_days.map_or(-1, i64::from))
            .param("usual", RETENTION_DAYS)
            .execute()
            .await?;
        self.reload().await
    }
}
