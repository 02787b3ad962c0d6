//! Two real engines as the shards of one cluster: without replicas, which the library does not support.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use prometheus::Registry;

use super::{FOLDER_PREFIX, TestDatabase, grant_everything, program, sweep, write_override};
use crate::client::Store;
use crate::client::cluster::Cluster;
use crate::client::config::StoreConfig;
use crate::engine::{self, Engine, EngineConfig};
use crate::error::StoreError;
use crate::metrics::Metrics;

/// The cluster's name in the engines' settings.
const CLUSTER: &str = "two_shards";

fn engines() -> Result<&'static [Engine; 2], StoreError> {
    static ENGINES: OnceLock<Result<[Engine; 2], String>> = OnceLock::new();
    let started = ENGINES.get_or_init(|| start().map_err(|error| error.to_string()));
    started
        .as_ref()
        .map_err(|error| StoreError::Engine(error.clone()))
}

fn start() -> Result<[Engine; 2], StoreError> {
    sweep();
    let root = std::env::temp_dir().join(format!("{FOLDER_PREFIX}{}", std::process::id()));
    let folders: [PathBuf; 2] = [root.join("shard-1"), root.join("shard-2")];
    let ports = [free_port(&root)?, free_port(&root)?];
    let mut shards = String::new();
    for (folder, port) in folders.iter().zip(ports) {
        let password = engine::prepared_password(folder)?;
        shards.push_str(&format!(
            "<shard><internal_replication>true</internal_replication><replica><host>127.0.0.1</host>\
             <port>{port}</port><user>{}</user><password>{}</password></replica></shard>",
            engine::USER,
            password.reveal()
        ));
    }
    let start = |folder: &Path, port: u16| {
        let settings = format!(
            "<clickhouse><tcp_port>{port}</tcp_port>\
             <remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers></clickhouse>\n"
        );
        write_override(&folder.join("config.d"), "shards.xml", &settings)?;
        grant_everything(folder)?;
        let config = EngineConfig {
            memory_bytes: 2 << 30,
            ..EngineConfig::new(program()?, folder)
        };
        Engine::start(config, Metrics::register(&Registry::new())?)
    };
    Ok([start(&folders[0], ports[0])?, start(&folders[1], ports[1])?])
}

fn free_port(root: &Path) -> Result<u16, StoreError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| StoreError::file(root, error))
}

/// A database for one test whose tables of events and runs are sharded over two engines. The small tables are on the
/// first one.
pub async fn sharded_database() -> Result<TestDatabase, StoreError> {
    let engines = tokio::task::spawn_blocking(engines)
        .await
        .map_err(|error| StoreError::Engine(error.to_string()))??;
    let name = format!("test_{:016x}", rand::random::<u64>());
    let mut stores = Vec::new();
    for engine in engines {
        let config = StoreConfig {
            cluster: Some(Cluster {
                name: CLUSTER.to_owned(),
                replicated: false,
            }),
            // Two engines on a machine that runs other suites beside.
            query_timeout: Duration::from_secs(60),
            ..engine.store_config(&name)
        };
        let store = Store::connect(config, Metrics::register(&Registry::new())?)?;
        let listen = "SYSTEM START LISTEN TCP";
        let limit = Duration::from_secs(30);
        let mut outside = store.clone();
        outside.client = store.client.clone().with_database("system");
        outside.execute(listen, limit).await?;
        store.migrate().await?;
        stores.push(store);
    }
    Ok(TestDatabase {
        store: stores.swap_remove(0),
        others: stores,
    })
}
