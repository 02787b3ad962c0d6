//! Builds of applications, with the processes that can be started in them, as they are kept.
//!
//! What a build says of its processes is JSON that this crate does not read. The newest version of a build counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;
use tokio::sync::{Mutex, watch};

use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Projects, scope};
use crate::row_binary::row_binary;

/// Builds of one project: a hundred a day for a year and a half (X1).
pub const BUILDS_MAX: u64 = 50_000;
/// Builds in one answer of [`Builds::of_app`].
pub const BUILDS_LISTED_MAX: usize = 200;
/// Projects in which one pair of app and build is looked for, at most.
const PROJECTS_OF_PAIR: usize = 100;

/// A build to keep.
#[derive(Clone, Copy, Debug)]
pub struct NewBuild<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The application.
    pub app_id: &'a str,
    /// The build.
    pub build_id: &'a str,
    /// Its status, such as `COMMITTED`.
    pub status: &'a str,
    /// JSON: a list `processes` of objects with a `name`, and whatever else the caller keeps.
    pub definition: &'a str,
    /// Public identifier of the credential that registers it.
    pub changed_by: &'a str,
    /// Now, Unix milliseconds.
    pub now_ms: UnixMs,
}

/// A build as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct BuildRecord {
    /// The tenant.
    pub project_id: String,
    /// The application.
    pub app_id: String,
    /// The build.
    pub build_id: String,
    /// Its status.
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
    /// The tenant.
    pub project_id: String,
    /// The build.
    pub build_id: String,
    /// Its status.
    pub status: String,
    /// Names of its processes.
    pub processes: Vec<String>,
    /// Unix milliseconds.
    pub changed_at: UnixMs,
    /// Public identifier of the credential that registered it.
    pub changed_by: String,
}

struct BuildRow<'a> {
    project_id: &'a str,
    app_id: &'a str,
    build_id: &'a str,
    version: u64,
    status: &'a str,
    definition: &'a str,
    changed_at: i64,
    changed_by: &'a str,
}

row_binary!(BuildRow in "process_builds" {
    project_id, app_id, build_id, version, status, definition, changed_at, changed_by
});

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
/// How many other builds the project has, and the greatest version of this one.
const KEPT: &str = "SELECT uniqExactIf((app_id, build_id), NOT (app_id = {app:String} AND build_id = {build:String})) AS builds, \
      maxIf(version, app_id = {app:String} AND build_id = {build:String}) AS version \
    FROM process_builds WHERE project_id = {project:String}";

/// The builds of one process. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Builds {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// Counts what this process itself changed.
    made_here: watch::Sender<u64>,
    /// Counts changes that were seen, whoever made them.
    generation: AtomicU64,
    /// What the table looked like when it was looked at last.
    seen: Mutex<Option<Marks>>,
    /// One change at a time: each is a look and then a write.
    turn: Mutex<()>,
}

impl Builds {
    /// The builds in this store.
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

    /// Changes whenever a build may have changed: what was read under another number may be old. Read it before what
    /// is kept under it.
    pub fn generation(&self) -> u64 {
        self.inner.generation.load(Ordering::Acquire)
    }

    /// Changes whenever this process registered a build: others have to hear of it.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.inner.made_here.subscribe()
    }

    /// Whatever was read may be old.
    pub fn heard(&self) {
        self.inner.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks whether another process changed a build. Call it every few seconds; an error leaves everything as it is.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        let marks: Marks = self.inner.store.bounded_query(MARKS).one().await?;
        if seen.replace(marks) != Some(marks) {
            self.heard();
        }
        Ok(())
    }

    /// Keeps a build, in the place of the one of the same project, app and id. In this process it counts when this
    /// returns.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the project has [`BUILDS_MAX`] others already.
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
        // Even on an error it may be there.
        self.heard();
        self.inner.made_here.send_modify(|count| *count += 1);
        put.map(|_| ())
    }

    /// The builds of this app and id, of every project of `projects` that has one.
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

    /// The builds of an app, those changed last first, at most [`BUILDS_LISTED_MAX`] and one more if there are more.
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
