//! What the tiers of a deployment stand on: a real broker, and an engine as a ClickHouse server over HTTP. One of each
//! for all tests of this process; topics and database are each test's own.

use std::path::PathBuf;
use std::sync::OnceLock;

use eventlog::KafkaConfig;
use eventlog::conformance::broker::Cluster;
use prometheus::Registry;
use store::StoreConfig;
use store::engine::{Engine, EngineConfig, Program};
use store::metrics::Metrics;

/// What folders of engines are called, before the process id.
const FOLDER_PREFIX: &str = "spindle-live-engine-";
/// Bytes of memory for an engine.
const ENGINE_MEMORY_BYTES: u64 = 2 << 30;

/// Topics and a database.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    brokers: String,
    prefix: String,
    clickhouse: StoreConfig,
}

impl Backing {
    pub(crate) async fn new() -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let started = tokio::task::spawn_blocking(move || Self {
            brokers: Cluster::shared().bootstrap(),
            clickhouse: engine().store_config(&name),
            prefix: name,
        });
        started.await.unwrap()
    }

    /// Settings, as variables, of a process that uses it.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let given = [
            ("KAFKA__BROKERS", self.brokers.as_str()),
            ("KAFKA__TOPIC_PREFIX", &self.prefix),
            ("KAFKA__PARTITIONS", "4"),
            // So that a killed processor's partitions do not wait for long.
            ("KAFKA__SESSION_TIMEOUT", "6s"),
            ("CLICKHOUSE__URL", &self.clickhouse.url),
            ("CLICKHOUSE__USER", &self.clickhouse.user),
            ("CLICKHOUSE__PASSWORD", self.clickhouse.password.reveal()),
            ("CLICKHOUSE__DATABASE", &self.clickhouse.database),
        ];
        let variable = |(key, value): (&str, &str)| (format!("SPINDLE_{key}"), value.to_owned());
        given.map(variable).into()
    }

    /// The port of the ClickHouse server.
    pub(crate) fn clickhouse_port(&self) -> u16 {
        port_of(&self.clickhouse)
    }

    /// Runs a statement behind the back of the tiers.
    pub(crate) async fn run(&self, sql: String) {
        let config = &self.clickhouse;
        let request = reqwest::Client::new()
            .post(format!("{}/?database={}", config.url, config.database))
            .header("x-clickhouse-user", &config.user)
            .header("x-clickhouse-key", config.password.reveal())
            .body(sql);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{}", answer.text().await.unwrap());
    }

    /// A topic of it, to look into or to write to behind the back of the tiers.
    pub(crate) fn topic(&self, name: &str) -> KafkaConfig {
        KafkaConfig::new(&self.brokers, format!("{}.{name}", self.prefix))
    }
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        sweep();
        let folder = format!("{FOLDER_PREFIX}{}", std::process::id());
        start_engine(std::env::temp_dir().join(folder))
    })
}

/// An engine in this folder. Blocks.
pub(crate) fn start_engine(folder: PathBuf) -> Engine {
    let program = Program {
        path: PathBuf::from(env!("CARGO_BIN_EXE_spindle")),
        arguments: vec!["engine".into()],
    };
    let config = EngineConfig {
        memory_bytes: ENGINE_MEMORY_BYTES,
        ..EngineConfig::new(program, folder)
    };
    Engine::start(config, Metrics::register(&Registry::new()).unwrap()).unwrap()
}

/// The port of a server's address.
pub(crate) fn port_of(clickhouse: &StoreConfig) -> u16 {
    let (_, port) = clickhouse.url.rsplit_once(':').unwrap();
    port.parse().unwrap()
}

/// Removes the folders of test processes that are gone: a process cannot remove what its own engine still uses.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX))
        else {
            continue;
        };
        if !std::path::Path::new("/proc").join(pid).exists() {
            // Another test process may be sweeping too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
