//! Builds of applications, with the processes that can be started in them.
//!
//! A build's definition of its processes is JSON that this crate does not parse. The newest version of a build counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;
use tokio::sync::{Mutex, watch};

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Projects, scope};
use crate::tables::row_binary::table_row;

/// Builds of one project: a hundred a day for a year and a half (X1).
pub const BUILDS_MAX: u64 = 50_000;
/// Builds in one result of [`Builds::of_app`].
pub const BUILDS_LISTED_MAX: usize = 200;
/// Maximum number of projects in the look-up of a pair of app and build.
const PROJECTS_OF_PAIR: usize = 100;

/// A build to store.
#[derive(Clone, Copy, Debug)]
pub struct NewBuild<'a> {
    /// The project.
    pub project_id: &'a str,
    pub app_id: &'a str,
    pub build_id: &'a str,
    /// For example `COMMITTED`.
    pub status: &'a str,
    /// JSON: a list `processes` of objects with a `name`, and further fields of the caller.
    pub definition: &'a str,
    /// Public identifier of the credential that registers it.
    pub changed_by: &'a str,
    /// Unix milliseconds.
    pub now_ms: UnixMs,
}

/// A stored build.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct BuildRecord {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    pub build_id: String,
    pub status: String,
    /// As in [`NewBuild`].
    pub definition: String,
    /// Unix milliseconds.
    pub changed_at: UnixMs,
    /// Public identifier of the credential that registered it.
    pub changed_by: String,
}

/// A build in a list.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct BuildSummary {
    /// The project.
    pub project_id: String,
    pub build_id: String,
    pub status: String,
    /// Names of its processes.
    pub processes: Vec<String>,
    /// Unix milliseconds.
    pub changed_at: UnixMs,
    /// Public identifier of the credential that registered it.
    pub changed_by: String,
}

table_row! {
    struct BuildRow<'a> in "process_builds" {
        project_id: &'a str,
        app_id: &'a str,
        build_id: &'a str,
        version: u64,
        status: &'a str,
        definition: &'a str,
        changed_at: i64,
        changed_by: &'a str,
    }
}

/// Changes whenever the table does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Row, Deserialize)]
struct Marks {
    rows: u64,
    version: u64,
}

#[derive(Row, Deserialize)]
struct Kept {
    builds: u64,
    version: u64,
}

const MARKS: &str = "SELECT count() AS rows, max(version) AS version FROM process_builds";
/// The number of other builds of the project, and the greatest version of this one.
const KEPT: &str = "SELECT uniqExactIf((app_id, build_id), NOT (app_id = {app:String} AND build_id = {build:String})) AS builds, \
      maxIf(version, app_id = {app:String} AND build_id = {build:String}) AS version \
    FROM process_builds WHERE project_id = {project:String}";

/// Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Builds {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// Number of changes that this process made.
    made_here: watch::Sender<u64>,
    /// Number of observed changes, local and remote.
    generation: AtomicU64,
    /// State of the table at the last check.
    seen: Mutex<Option<Marks>>,
    /// One change at a time: each is a read and then a write.
    turn: Mutex<()>,
}

impl Builds {
    pub fn new(store: Store) -> Self {
        let inner = Inner {
            store,
            made_here: watch::Sender::new(0),
            generation: AtomicU64::new(0),
            seen: Mutex::default(),
            turn: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Changes whenever a build may have changed: data cached under another number may be outdated. Read it before the
    /// data.
    pub fn generation(&self) -> u64 {
        self.inner.generation.load(Ordering::Acquire)
    }

    /// Changes whenever this process registered a build, so that it is published to the others.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.inner.made_here.subscribe()
    }

    /// Call when another process may have changed a build.
    pub fn heard(&self) {
        self.inner.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Checks whether another process changed a build. Call it every few seconds; an error leaves everything unchanged.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        let marks: Marks = self.inner.store.bounded_query(MARKS).one().await?;
        if seen.replace(marks) != Some(marks) {
            self.heard();
        }
        Ok(())
    }

    /// Upserts a build by project, app and id. Valid in this process when it returns.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the project has [`BUILDS_MAX`] other builds.
    pub async fn put(&self, build: NewBuild<'_>) -> Result<(), StoreError> {
        let _turn = self.inner.turn.lock().await;
        let kept = self.inner.store.bounded_query(KEPT);
        let kept: Kept = kept
            .param("project", build.project_id)
            .param("app", build.app_id)
            .param("build", build.build_id)
            .one()
            .await?;
        if kept.builds >= BUILDS_MAX {
            return Err(StoreError::Invalid(format!(
                "the project has {BUILDS_MAX} builds already, which is the most there may be"
            )));
        }
        let now_micros = u64::try_from(build.now_ms).unwrap_or_default() * 1000;
        let row = BuildRow {
            project_id: build.project_id,
            app_id: build.app_id,
            build_id: build.build_id,
            version: now_micros.max(kept.version + 1),
            status: build.status,
            definition: build.definition,
            changed_at: build.now_ms,
            changed_by: build.changed_by,
        };
        let put = self
            .inner
            .store
            .insert::<BuildRow<'_>, _>([row].into_iter())
            .await;
        // On an error it may be stored too.
        self.heard();
        self.inner.made_here.send_modify(|count| *count += 1);
        put.map(|_| ())
    }

    /// The builds of this app and id, of every project in `projects` that has one.
    pub async fn of_pair(
        &self,
        app_id: &str,
        build_id: &str,
        projects: &Projects,
    ) -> Result<Vec<BuildRecord>, StoreError> {
        let scope = scope(projects);
        let sql = format!(
            "SELECT project_id, app_id, build_id, status, definition, changed_at, changed_by FROM process_builds FINAL \
             WHERE {} AND app_id = {{app:String}} AND build_id = {{build:String}} ORDER BY project_id LIMIT {PROJECTS_OF_PAIR}",
            scope.sql()
        );
        let query = scope.fill(self.inner.store.bounded_query(&sql));
        query
            .param("app", app_id)
            .param("build", build_id)
            .rows()
            .await
    }

    /// The builds of an app, last changed first, at most [`BUILDS_LISTED_MAX`] and one more if there are more.
    pub async fn of_app(
        &self,
        app_id: &str,
        projects: &Projects,
    ) -> Result<Vec<BuildSummary>, StoreError> {
        let scope = scope(projects);
        let sql = format!(
            "SELECT project_id, build_id, status, \
               arrayMap(one -> JSONExtractString(one, 'name'), JSONExtractArrayRaw(definition, 'processes')) AS processes, \
               changed_at, changed_by \
             FROM process_builds FINAL WHERE {} AND app_id = {{app:String}} \
             ORDER BY changed_at DESC, project_id, build_id LIMIT {}",
            scope.sql(),
            BUILDS_LISTED_MAX + 1
        );
        let query = scope.fill(self.inner.store.bounded_query(&sql));
        query.param("app", app_id).rows().await
    }
}
