//! Cached builds with their compiled schemas, so that a start does not query the database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::control::CacheReport;
use store::StoreError;
use store::platform::builds::{BuildRecord, Builds as StoredBuilds};
use store::reads::filter_sql::Projects;

use super::definition::{Definition, Process};
use super::schema::Schema;

/// Approximate bound on the cache in bytes (X1).
const CACHE_BYTES: u64 = 64 << 20;
/// Size of a compiled schema relative to its text.
const COMPILED_FACTOR: usize = 8;

/// The builds with the same app and id, one per project.
pub(super) type Builds = Arc<Vec<CachedBuild>>;

#[derive(PartialEq, Eq, Hash)]
struct CacheKey {
    /// Of the stored builds: entries of an old generation are not used any more.
    generation: u64,
    app_id: String,
    build_id: String,
    /// The reachable projects; `None` for all.
    projects: Option<Vec<String>>,
}

pub(crate) struct Registry {
    pub(super) stored: StoredBuilds,
    cached: Cache<CacheKey, Builds>,
    hits: AtomicU64,
    misses: AtomicU64,
}

pub(super) struct CachedBuild {
    pub(super) project_id: String,
    pub(super) status: String,
    pub(super) parent_app_id: Option<String>,
    pub(super) root_app_id: Option<String>,
    processes: HashMap<String, Arc<CachedProcess>>,
    bytes: usize,
}

pub(super) struct CachedProcess {
    pub(super) uuid: String,
    pub(super) start_nodes: Vec<String>,
    pub(super) roles: Vec<String>,
    schema: serde_json::Value,
    compiled: OnceLock<Result<Schema, String>>,
}

impl Registry {
    pub(crate) fn new(stored: StoredBuilds) -> Self {
        let bytes = |key: &CacheKey, builds: &Builds| {
            let projects = key.projects.iter().flatten().map(|one| one.len() + 24);
            let key = key.app_id.len() + key.build_id.len() + projects.sum::<usize>();
            let builds: usize = builds.iter().map(|build| build.bytes).sum();
            u32::try_from(key + builds).unwrap_or(u32::MAX)
        };
        Self {
            stored,
            cached: Cache::builder()
                .max_capacity(CACHE_BYTES)
                .weigher(bytes)
                // Evicts entries of old generations first.
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The builds with this app and id in these projects. A missing build is not cached, so that it is found as soon as it
    /// is registered on any server.
    pub(super) async fn builds(
        &self,
        app_id: &str,
        build_id: &str,
        projects: &Projects,
    ) -> Result<Builds, StoreError> {
        let key = CacheKey {
            generation: self.stored.generation(),
            app_id: app_id.to_owned(),
            build_id: build_id.to_owned(),
            projects: match projects {
                Projects::All => None,
                Projects::Only(projects) => Some(projects.clone()),
            },
        };
        if let Some(builds) = self.cached.get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(builds);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let found = self.stored.of_pair(app_id, build_id, projects).await?;
        let builds = found.iter().map(CachedBuild::of);
        let builds: Builds = Arc::new(builds.collect::<Result<_, _>>()?);
        if !builds.is_empty() {
            self.cached.insert(key, builds.clone());
        }
        Ok(builds)
    }

    /// Evicts all builds. A read that is running now is cached under an old generation.
    pub(crate) fn clear(&self) {
        self.stored.heard();
        self.cached.invalidate_all();
    }

    pub(crate) fn report(&self) -> CacheReport {
        self.cached.run_pending_tasks();
        CacheReport {
            name: "builds".to_owned(),
            entries: self.cached.entry_count(),
            used_bytes: self.cached.weighted_size(),
            max_bytes: CACHE_BYTES,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

impl CachedBuild {
    fn of(record: &BuildRecord) -> Result<Self, StoreError> {
        let definition: Definition = serde_json::from_str(&record.definition)
            .map_err(|error| StoreError::Shape(format!("a build: {error}")))?;
        let processes = definition.processes.into_iter().map(|process| {
            let Process {
                name,
                uuid,
                schema,
                start_nodes,
                roles,
            } = process;
            let cached = CachedProcess {
                uuid,
                start_nodes,
                roles,
                schema,
                compiled: OnceLock::new(),
            };
            (name, Arc::new(cached))
        });
        Ok(Self {
            project_id: record.project_id.clone(),
            status: record.status.clone(),
            parent_app_id: definition.parent_application_id,
            root_app_id: definition.root_application_id,
            processes: processes.collect(),
            bytes: record.definition.len() * COMPILED_FACTOR,
        })
    }

    pub(super) fn process(&self, name: &str) -> Option<&Arc<CachedProcess>> {
        self.processes.get(name)
    }
}

impl CachedProcess {
    /// The schema, compiled at the first call: call it on a thread of [`super::checks`].
    ///
    /// # Errors
    /// Why it cannot be compiled: it was registered by a version with other bounds.
    pub(super) fn schema(&self) -> Result<&Schema, &str> {
        let compiled = self.compiled.get_or_init(|| Schema::compile(&self.schema));
        compiled.as_ref().map_err(String::as_str)
    }
}
