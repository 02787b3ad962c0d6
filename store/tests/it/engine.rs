//! The engine's life cycle, and queries that end with their clients.

use std::time::Duration;

use prometheus::Registry;
use store::Store;
use store::credentials::Credentials;
use store::engine::{Engine, EngineConfig, Liveness};
use store::metrics::Metrics;
use store::tables::rows::EventRow;
use store::testing::program;

use crate::database;

use crate::rows::{NOON_MS, event};

async fn start(folder: &std::path::Path, metrics: &Metrics) -> Engine {
    let config = EngineConfig::new(program().unwrap(), folder);
    let metrics = metrics.clone();
    tokio::task::spawn_blocking(move || Engine::start(config, metrics))
        .await
        .unwrap()
        .unwrap()
}

async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("it never came true");
}

fn counter(registry: &Registry, name: &str) -> f64 {
    let family = registry
        .gather()
        .into_iter()
        .find(|family| family.name() == name)
        .unwrap();
    let metric = &family.get_metric()[0];
    metric
        .get_counter()
        .get_value()
        .max(metric.get_gauge().get_value())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_engine_comes_back_by_itself_with_every_row_r1() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let engine = start(folder.path(), &metrics).await;
    let store = Store::connect(engine.store_config("spindle"), metrics).unwrap();
    store.migrate().await.unwrap();
    let credentials = Credentials::new(store.clone());
    let key = credentials
        .bootstrap(Default::default())
        .await
        .unwrap()
        .api_key
        .unwrap();
    store
        .insert_events((0..1000).map(|n| event("app", "r", n, NOON_MS)))
        .await
        .unwrap();

    let pid = engine.process_id().unwrap();
    signal(pid, rustix::process::Signal::KILL);
    until(async || engine.process_id() != Some(pid) || store.ping().await.is_err()).await;
    assert!(
        credentials
            .authenticate(key.reveal())
            .await
            .unwrap()
            .is_some(),
        "known keys work while it is away"
    );
    until(async || store.ping().await.is_ok()).await;
    let rows: u64 = store
        .bounded_query("SELECT count() FROM events")
        .one()
        .await
        .unwrap();
    assert_eq!(rows, 1000);
    assert_ne!(engine.process_id(), Some(pid));
    assert_eq!(
        counter(&registry, "spindle_store_engine_restarts_total"),
        1.0
    );
    tokio::task::spawn_blocking(move || engine.shutdown())
        .await
        .unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A separate engine with short supervisor time-outs.
async fn start_watched(folder: &std::path::Path, metrics: &Metrics) -> Engine {
    let liveness = Liveness {
        interval: Duration::from_millis(200),
        timeout: Duration::from_secs(3),
        // Long after the client's own limit, also on a busy machine.
        overrun: Duration::from_secs(10),
        failures: 2,
    };
    let config = EngineConfig {
        liveness,
        ..EngineConfig::new(program().unwrap(), folder)
    };
    let metrics = metrics.clone();
    tokio::task::spawn_blocking(move || Engine::start(config, metrics))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_stands_still_is_started_again_r1() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let engine = start_watched(folder.path(), &metrics).await;
    let store = Store::connect(engine.store_config("spindle"), metrics).unwrap();
    let pid = engine.process_id().unwrap();
    signal(pid, rustix::process::Signal::STOP);
    until(async || engine.process_id() != Some(pid) && store.ping().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_a_damaged_part_ends_for_the_client_and_for_the_engine() {
    // (Q1) The engine searches for a flipped bit by hashing the block once for each of its bits, and cannot be
    // canceled.
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let engine = start_watched(folder.path(), &metrics).await;
    let store = Store::connect(engine.store_config("spindle"), metrics).unwrap();
    store.migrate().await.unwrap();
    // One compressed block of about half a megabyte: the search would take minutes.
    let payloads: Vec<String> = (0..2)
        .map(|_| {
            let digits = (0..40_000).map(|_| format!("{:08x}", rand::random::<u32>()));
            digits.collect()
        })
        .collect();
    let events = payloads.iter().zip(0..).map(|(payload, n)| EventRow {
        payload: payload.as_bytes(),
        ..event("app", "damaged", n, NOON_MS)
    });
    store.insert_events(events).await.unwrap();
    flip_two_bytes(&largest_data_file(&folder.path().join("data/store")));

    let bounds = store::ReadBounds {
        time: Duration::from_secs(1),
        ..Default::default()
    };
    let read = store.bounded_query_within("SELECT payload FROM events", bounds);
    let mut rows = read.cursor::<String>().await.unwrap();
    let error = loop {
        match rows.next().await {
            Ok(row) => assert!(row.is_some(), "the damage is not seen"),
            Err(error) => break error,
        }
    };
    drop(rows);
    assert!(matches!(error, store::StoreError::TimedOut(_)), "{error}");
    until(async || {
        let sql =
            "SELECT count() FROM system.processes WHERE query LIKE 'SELECT payload FROM events%'";
        let running = store.bounded_query(sql).one::<u64>().await;
        running.is_ok_and(|running| running == 0)
    })
    .await;
}

fn largest_data_file(folder: &std::path::Path) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == "data.bin" => {
                    files.push((entry.metadata().unwrap().len(), entry.path()))
                }
                false => {}
            }
        }
    }
    files.into_iter().max().unwrap().1
}

/// Two, because the search would find one.
fn flip_two_bytes(path: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut bytes = [0; 2];
    file.read_exact_at(&mut bytes, middle).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), middle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_never_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let engine = start(folder.path(), &metrics).await;
    let config = EngineConfig::new(program().unwrap(), folder.path());
    let second = tokio::task::spawn_blocking(move || Engine::start(config, metrics))
        .await
        .unwrap();
    let error = second.unwrap_err().to_string();
    assert!(error.contains("another engine is running"), "{error}");
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anonymous_user_can_read_nothing() {
    let store = database().await.unwrap();
    let config = store::StoreConfig {
        user: "default".into(),
        password: Default::default(),
        ..store.config().clone()
    };
    let stranger = Store::connect(config, Metrics::register(&Registry::new()).unwrap()).unwrap();
    for sql in [
        "SELECT count() FROM events",
        "SELECT 1 FROM system.tables WHERE name = 'events' LIMIT 1",
    ] {
        let seen = stranger.bounded_query(sql).optional::<u64>().await;
        assert!(!matches!(seen, Ok(Some(_))), "{sql}: {seen:?}");
    }
    assert!(stranger.migrate().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_when_nobody_waits_for_it_any_more_q1() {
    let store = database().await.unwrap();
    let sql =
        "SELECT count() FROM numbers(1000000000000000) WHERE sipHash64(number, 'abandoned') = 0";
    let running = async || {
        let sql = "SELECT count() FROM system.processes WHERE query LIKE '%abandoned%' AND query NOT LIKE '%processes%'";
        store.bounded_query(sql).one::<u64>().await.unwrap()
    };
    // Far longer than the test waits: the query ends because its client leaves.
    let bounds = store::ReadBounds {
        time: Duration::from_secs(600),
        ..Default::default()
    };
    let asking = tokio::spawn(store.bounded_query_within(sql, bounds).one::<u64>());
    until(async || running().await == 1).await;
    asking.abort();
    until(async || running().await == 0).await;
}

#[tokio::test]
async fn a_query_over_its_time_is_stopped_by_the_server_q1() {
    let store = database().await.unwrap();
    let bounds = store::ReadBounds {
        time: Duration::from_millis(300),
        ..Default::default()
    };
    let sql = "SELECT count() FROM numbers(1000000000000000) WHERE sipHash64(number) = 0";
    let error = store
        .bounded_query_within(sql, bounds)
        .one::<u64>()
        .await
        .unwrap_err();
    assert!(
        matches!(error, store::StoreError::TooExpensive { code: 159, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn values_from_outside_are_values_whatever_they_hold() {
    let store = database().await.unwrap();
    for text in [
        "'; DROP TABLE events; --",
        "\\",
        "\n\t\0",
        "{x:String}",
        "?",
        "\\N",
        "null",
        "é🦀",
    ] {
        let back: String = store
            .bounded_query("SELECT {text:String}")
            .param("text", text)
            .one()
            .await
            .unwrap();
        assert_eq!(back, text);
        let listed: Vec<String> = store
            .bounded_query("SELECT arrayJoin({texts:Array(String)})")
            .param("texts", &[text][..])
            .rows()
            .await
            .unwrap();
        assert_eq!(listed, [text]);
    }
}
