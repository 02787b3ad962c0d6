//! A real engine for tests: one per test process, one database per test.
//!
//! A test binary becomes its own engine: put [`engine_test_child!`](crate::engine_test_child) once into its root, then
//! call [`database`] in each test.

mod shards;

use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;
use std::sync::OnceLock;

use prometheus::Registry;

use crate::client::Store;
use crate::client::config::StoreConfig;
use crate::engine::{Engine, EngineConfig, Program};
use crate::error::StoreError;
use crate::metrics::Metrics;
pub use shards::sharded_database;

/// Name of the ignored test that turns the test binary into the engine.
const CHILD_TEST: &str = "spindle_engine_child";

/// Prefix of the folders of test engines, before the process id.
const FOLDER_PREFIX: &str = "spindle-test-engine-";

/// Lets this test binary become the engine of its own tests.
#[macro_export]
macro_rules! engine_test_child {
    () => {
        /// Not a test: the engine's process runs it.
        #[test]
        #[ignore = "started by the tests that need an engine"]
        fn spindle_engine_child() {
            $crate::engine::run()
        }
    };
}

/// How a test binary starts itself as the engine.
pub fn program() -> Result<Program, StoreError> {
    let path = std::env::current_exe().map_err(|error| StoreError::Engine(error.to_string()))?;
    let arguments = [CHILD_TEST, "--ignored", "--nocapture", "--test-threads=1"]
        .map(OsString::from)
        .to_vec();
    Ok(Program { path, arguments })
}

/// The engine of this test process, started by the first call; ends with the process.
pub fn engine() -> Result<&'static Engine, StoreError> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    let started = ENGINE.get_or_init(|| {
        sweep();
        let folder = std::env::temp_dir().join(format!("{FOLDER_PREFIX}{}", std::process::id()));
        let start = || {
            answer_ping(&folder)?;
            let config = EngineConfig {
                memory_bytes: 2 << 30,
                ..EngineConfig::new(program()?, folder)
            };
            Engine::start(config, Metrics::register(&Registry::new())?)
        };
        start().map_err(|error| error.to_string())
    });
    started
        .as_ref()
        .map_err(|error| StoreError::Engine(error.clone()))
}

/// Enables `/ping` of the engine in this folder, from its next start on: replicas are probed by it.
fn answer_ping(folder: &Path) -> Result<(), StoreError> {
    let handlers = "<clickhouse><http_handlers><rule_ping><methods>GET</methods><url>/ping</url>\
                    <handler><type>ping</type></handler></rule_ping></http_handlers></clickhouse>\n";
    write_override(&folder.join("config.d"), "ping.xml", handlers)
}

/// Grants the user of the engine in this folder everything, from the engine's next start on: what a separate server
/// allows and the embedded engine does not.
pub fn grant_everything(folder: &Path) -> Result<(), StoreError> {
    let user = crate::engine::USER;
    let users = format!(
        "<clickhouse><users><{user}><grants replace=\"replace\"><query>GRANT ALL ON *.*</query></grants>\
         </{user}></users></clickhouse>\n"
    );
    write_override(&folder.join("users.d"), "everything.xml", &users)
}

fn write_override(folder: &Path, name: &str, content: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, content))
        .map_err(|error| StoreError::file(&path, error))
}

/// Removes the folders of test processes that are gone: a process cannot remove what its own engine still uses.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX))
        else {
            continue;
        };
        let is_alive = std::path::Path::new("/proc").join(pid).exists();
        if cfg!(target_os = "linux") && !is_alive {
            // Another test process may do the same.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A new database, migrated, dropped with the value.
pub struct TestDatabase {
    store: Store,
    /// The same database on the other shards.
    others: Vec<Store>,
}

pub async fn database() -> Result<TestDatabase, StoreError> {
    let engine = tokio::task::spawn_blocking(engine)
        .await
        .map_err(|error| StoreError::Engine(error.to_string()))??;
    let name = format!("test_{:016x}", rand::random::<u64>());
    let store = Store::connect(
        engine.store_config(&name),
        Metrics::register(&Registry::new())?,
    )?;
    store.migrate().await?;
    Ok(TestDatabase {
        store,
        others: Vec::new(),
    })
}

impl TestDatabase {
    /// The same database for a process of a deployment of several.
    pub fn of_several(&self) -> Result<Store, StoreError> {
        let config = StoreConfig {
            standalone: false,
            ..self.store.config().clone()
        };
        Store::connect(config, Metrics::register(&Registry::new())?)
    }

    /// Executes a statement as it is: for rows that this program would never write.
    pub async fn run(&self, sql: &str) -> Result<(), StoreError> {
        let limit = std::time::Duration::from_secs(60);
        self.store.execute(sql, limit).await
    }

    /// [`TestDatabase::run`] on every shard; `{local}` becomes the suffix of a shard's tables.
    pub async fn run_on_shards(&self, sql: &str) -> Result<(), StoreError> {
        let limit = std::time::Duration::from_secs(60);
        for store in [&self.store].into_iter().chain(&self.others) {
            let sql = sql.replace("{local}", self.local());
            store.execute(&sql, limit).await?;
        }
        Ok(())
    }

    /// Number of parts of a table, over all shards.
    pub async fn parts(&self, table: &str) -> Result<u64, StoreError> {
        let sql = "SELECT count() FROM system.parts WHERE active AND database = currentDatabase() AND table = {table:String}";
        let table = format!("{table}{}", self.local());
        let mut parts = 0;
        for store in [&self.store].into_iter().chain(&self.others) {
            let query = store.bounded_query(sql).param("table", &table);
            parts += query.one::<u64>().await?;
        }
        Ok(parts)
    }

    fn local(&self) -> &'static str {
        if self.config.cluster.is_some() {
            "_local"
        } else {
            ""
        }
    }
}

impl Deref for TestDatabase {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // The engine's folder is removed with the process; dropping the database only keeps it small.
        let stores: Vec<Store> = [self.store.clone()]
            .into_iter()
            .chain(self.others.drain(..))
            .collect();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for store in stores {
                    let drop = format!("DROP DATABASE IF EXISTS {} SYNC", store.config.database);
                    let _ = store
                        .execute(&drop, std::time::Duration::from_secs(30))
                        .await;
                }
            });
        }
    }
}
