//! An embedded engine for one benchmark, with a migrated store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prometheus::Registry;
use store::engine::{Engine, EngineConfig, Program};
use store::metrics::Metrics;
use store::{Store, StoreConfig};

/// Database of every benchmark; a kept folder belongs to one of them.
const DATABASE: &str = "bench";

/// A running engine; ends when dropped.
pub(crate) struct BenchEngine {
    pub(crate) engine: Engine,
    pub(crate) store: Store,
    /// For statements that the store does not offer.
    pub(crate) client: clickhouse::Client,
}

impl BenchEngine {
    /// Starts an engine with its data in `folder` and applies the migrations.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let metrics = Metrics::register(&Registry::new())?;
        let program = Program {
            path: std::env::current_exe()?,
            arguments: vec!["engine".into()],
        };
        // The engine looks for its settings below its own folder.
        let folder = &std::path::absolute(folder)?;
        // Benchmarks use settings and functions that the server does not need.
        store::testing::grant_everything(folder)?;
        let engine = Engine::start(EngineConfig::new(program, folder), metrics.clone())?;
        let config = StoreConfig {
            // On a busy machine a slow query is a slow number, not an error.
            query_timeout: Duration::from_secs(60),
            ..engine.store_config(DATABASE)
        };
        let client = clickhouse::Client::default()
            .with_url(&config.url)
            .with_user(&config.user)
            .with_password(config.password.reveal())
            .with_database(DATABASE)
            .with_validation(false);
        let store = Store::connect(config, metrics)?;
        while store.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        store.migrate().await?;
        Ok(Self {
            engine,
            store,
            client,
        })
    }
}

/// An empty folder in `parent`, or in the system's folder for temporary files; removed on drop.
pub(crate) fn temporary_folder(parent: Option<PathBuf>) -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(parent.unwrap_or_else(std::env::temp_dir))
}
