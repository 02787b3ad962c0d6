//! The builds that processes are started in, with what was compiled of them: a start costs no question to the database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::control::CacheReport;
use store::StoreError;
use store::builds::{BuildRecord, Builds};
use store::filter_sql::Projects;

use super::definition::{Definition, Process};
use super::schema::Schema;

/// Bytes of builds that are kept, nearly (X1). The least used go.
const KEPT_BYTES: u64 = 64 << 20;
/// What a compiled schema takes, against its text.
const COMPILED_FACTOR: usize = 8;

/// The builds of an app and id, one of each project that has it.
pub(super) type Pair = Arc<Vec<Ready>>;

/// What was known, of which app and build, in which projects.
type Key = (u64, String, String, Option<Vec<String>>);

/// The builds of this process of the deployment.
pub(crate) struct Registry {
    pub(super) builds: Builds,
    known: Cache<Key, Pair>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A build whose processes can be started.
pub(super) struct Ready {
    pub(super) project_id: String,
    pub(super) status: String,
    pub(super) parent_app_id: Option<String>,
    pub(super) root_app_id: Option<String>,
    processes: HashMap<String, Arc<ReadyProcess>>,
    bytes: usize,
}

/// A process that can be started.
pub(super) struct ReadyProcess {
    pub(super) uuid: String,
    pub(super) start_nodes: Vec<String>,
    pub(super) roles: Vec<String>,
    schema: serde_json::Value,
    compiled: OnceLock<Result<Schema, String>>,
}

impl Registry {
    pub(crate) fn new(builds: Builds) -> Self {
        let bytes = |(_, app_id, build_id, projects): &Key, pair: &Pair| {
            let projects = projects.iter().flatten().map(|one| one.len() + 24);
            let key = app_id.len() + build_id.len() + projects.sum::<usize>();
            let builds: usize = pair.iter().map(|build| build.bytes).sum();
            u32::try_from(key + builds).unwrap_or(u32::MAX)
        };
        Self {
            builds,
            known: Cache::builder()
                .max_capacity(KEPT_BYTES)
                .weigher(bytes)
                // Those kept under a number that nobody asks for any more go first.
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The builds of this app and id in these projects. One that is not there is asked for each time: it is known as
    /// soon as it is registered, wherever that was.
    pub(super) async fn pair(
        &self,
        app_id: &str,
        build_id: &str,
        projects: &Projects,
    ) -> Result<Pair, StoreError> {
        let within = match projects {
            Projects::All => None,
            Projects::Only(projects) => Some(projects.clone()),
        };
        let generation = self.builds.generation();
        let key = (generation, app_id.to_owned(), build_id.to_owned(), within);
        if let Some(pair) = self.known.get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(pair);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let found = self.builds.of_pair(app_id, build_id, projects).await?;
        let pair: Pair = Arc::new(found.iter().map(Ready::of).collect::<Result<_, _>>()?);
        if !pair.is_empty() {
            self.known.insert(key, pair.clone());
        }
        Ok(pair)
    }

    /// Forgets everything; the next starts ask the database. What is being read now is kept under a number that nobody
    /// asks for any more.
    pub(crate) fn clear(&self) {
        self.builds.heard();
        self.known.invalidate_all();
    }

    /// How it is doing.
    pub(crate) fn report(&self) -> CacheReport {
        self.known.run_pending_tasks();
        CacheReport {
            name: "builds".to_owned(),
            entries: self.known.entry_count(),
            used_bytes: self.known.weighted_size(),
            max_bytes: KEPT_BYTES,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

impl Ready {
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
            let ready = ReadyProcess {
                uuid,
                start_nodes,
                roles,
                schema,
                compiled: OnceLock::new(),
            };
            (name, Arc::new(ready))
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

    /// The process of this name.
    pub(super) fn process(&self, name: &str) -> Option<&Arc<ReadyProcess>> {
        self.processes.get(name)
    }
}

impl ReadyProcess {
    /// Its schema, compiled at the first call: on a thread of [`super::checks`].
    ///
    /// # Errors
    /// It cannot be compiled, though it could when it was registered, or it was registered before there were bounds.
    pub(super) fn schema(&self) -> Result<&Schema, &str> {
        let compiled = self.compiled.get_or_init(|| Schema::compile(&self.schema));
        compiled.as_ref().map_err(String::as_str)
    }
}
