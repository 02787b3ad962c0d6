//! Specific to a cluster: rows on several shards, and work that it cannot do.

use store::StoreError;
use store::reads::states::StoredRun;

use crate::database;
use crate::it::rows::{NOON_MS, event, run};

#[tokio::test]
async fn an_app_lies_on_one_shard_and_apps_on_all_of_them() {
    let store = database().await.unwrap();
    let apps: Vec<String> = (0..20).map(|n| format!("app-{n}")).collect();
    let runs = apps.iter().flat_map(|app| {
        [
            run(app, "a", 1, NOON_MS),
            run(app, "a", 2, NOON_MS),
            run(app, "b", 1, NOON_MS + 86_400_000),
        ]
    });
    store.insert_runs(runs).await.unwrap();
    let events = apps.iter().map(|app| event(app, "a", 1, NOON_MS));
    store.insert_events(events).await.unwrap();
    for (table, all) in [("runs", 60), ("events", 20)] {
        let sql = format!(
            "SELECT app_id, uniqExact(_shard_num), count() FROM {table} GROUP BY app_id ORDER BY app_id"
        );
        let places: Vec<(String, u64, u64)> = store.bounded_query(&sql).rows().await.unwrap();
        assert_eq!(places.len(), apps.len());
        assert!(
            places.iter().all(|(_, shards, _)| *shards == 1),
            "{places:?}"
        );
        assert_eq!(places.iter().map(|(_, _, rows)| rows).sum::<u64>(), all);
        let sql = format!("SELECT uniqExact(_shard_num) FROM {table}");
        assert_eq!(store.bounded_query(&sql).one::<u64>().await.unwrap(), 2);
    }
    let both = "SELECT uniqExact(r._shard_num, e._shard_num) FROM runs AS r, events AS e WHERE r.app_id = e.app_id AND r._shard_num != e._shard_num";
    assert_eq!(store.bounded_query(both).one::<u64>().await.unwrap(), 0);
    for app in &apps {
        let found = store.load_states("default", app, &["a", "b", "c"]).await;
        let mut versions: Vec<(String, u64)> = found
            .unwrap()
            .into_iter()
            .map(
                |StoredRun {
                     run_id, version, ..
                 }| (run_id, version),
            )
            .collect();
        versions.sort();
        assert_eq!(versions, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn work_over_whole_tables_of_one_server_is_refused_and_says_what_to_do() {
    let store = database().await.unwrap();
    let rebuild = store.rebuild(None).prepare().await.unwrap_err();
    let retention = store.retention().prepare().await.unwrap_err();
    for (error, instead) in [(rebuild, "replay"), (retention, "TTL")] {
        assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(instead), "{error}");
    }
    assert_eq!(store.index_texts(NOON_MS).await.unwrap(), None);
}
