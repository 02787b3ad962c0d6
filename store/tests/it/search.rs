//! Text search finds exactly what a scan finds, whether days are indexed or not.

use std::time::Duration;

use crate::database;
use proptest::prelude::*;
use schemas::filter::RunQuery;
use store::Store;
use store::reads::filter_sql::Projects;
use store::tables::rows::RunRow;

use crate::rows::{NOON_MS, run};

const DAY_MS: i64 = 86_400_000;

/// Texts that share pieces, differ in case, and contain special characters of patterns and grams.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("rate"),
        Just("RATE limit"),
        Just("imit"),
        Just("ä"),
        Just("Äpfel"),
        Just("%"),
        Just("_"),
        Just("\\"),
        Just("\n"),
        Just(" "),
        Just("\""),
        Just("'"),
        Just("日本語"),
        Just("ab"),
        Just("\u{0}"),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

type Texts = [String; 5];

fn any_runs() -> impl Strategy<Value = Vec<Texts>> {
    prop::collection::vec(prop::array::uniform5(any_text()), 1..30)
}

async fn found(store: &Store, text: &str) -> Vec<String> {
    let query = RunQuery::from_pairs([("q", text), ("limit", "1000")]).unwrap();
    let projects = Projects::Only(vec!["default".to_owned()]);
    let page = store
        .list_runs(&projects, &query, None, NOON_MS + DAY_MS)
        .await
        .unwrap();
    let mut ids: Vec<String> = page.runs.into_iter().map(|run| run.run_id).collect();
    ids.sort();
    ids
}

/// Indexes every day that ended, and waits for it.
async fn index_all(store: &Store) -> u32 {
    let mut days = 0;
    let all = async {
        loop {
            let ordered = store.index_texts(NOON_MS + 30 * DAY_MS).await.unwrap();
            days += u32::from(ordered.is_some());
            let open = "SELECT count() FROM system.mutations WHERE database = currentDatabase() AND NOT is_done";
            while store.bounded_query(open).one::<u64>().await.unwrap() > 0 {
                tokio::task::yield_now().await;
            }
            if ordered.is_none() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all)
        .await
        .unwrap();
    days
}

#[test]
fn search_finds_what_a_scan_finds_indexed_or_not() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(database()).unwrap();
    let config = ProptestConfig {
        cases: 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let searched =
        prop::collection::vec(any_text().prop_filter("empty", |text| !text.is_empty()), 12);
    proptest!(config, |((runs, searched) in (any_runs(), searched))| {
            runtime.block_on(async {
                store
    .run_on_shards("TRUNCATE TABLE runs{local}").await.unwrap();
                let names: Vec<String> = (0..runs.len()).map(|n| format!("r{n:02}")).collect();
                let row = |n: usize| {
                    let [name, error_name, error_message, input_preview, output_preview] = &runs[n];
                    RunRow {
                        name, error_name, error_message, input_preview, output_preview,
                        ..run("a", &names[n], 1, NOON_MS - n as i64 % 3 * DAY_MS)
                    }
                };
                let rows: Vec<RunRow<'_>> = (0..runs.len()).map(row).collect();
                store.insert_runs(rows.iter()).await.unwrap();
                for is_indexed in [false, true] {
                    if is_indexed {
                        assert!(index_all(&store).await > 0);
                        assert_eq!(index_all(&store).await, 0, "what is indexed is indexed again");
                    }
                    for text in &searched {
                        let small = text.to_lowercase();
                        let expected: Vec<&String> = runs
                            .iter()
                            .zip(&names)
                            .filter(|(texts, _)| texts.iter().any(|field| field.to_lowercase().contains(&small)))
                            .map(|(_, name)| name)
                            .collect();
                        let found = found(&store, text).await;
                        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{:?} {}", text, is_indexed);
                    }
                }
                Ok(())
            })?;
        });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_changed_is_found_by_what_it_says_now_p3() {
    let store = database().await.unwrap();
    let says = |version, output_preview| RunRow {
        output_preview,
        ..run("a", "r", version, NOON_MS)
    };
    store
        .insert_runs([says(1, "the first words")].into_iter())
        .await
        .unwrap();
    index_all(&store).await;
    store
        .insert_runs([says(2, "quite another thing")].into_iter())
        .await
        .unwrap();
    for is_indexed in [false, true] {
        if is_indexed {
            index_all(&store).await;
        }
        assert!(found(&store, "FIRST WORDS").await.is_empty());
        assert_eq!(found(&store, "another th").await, ["r"]);
    }
    // Neither an insert nor a merge builds the index.
    store
        .insert_runs([says(3, "third")].into_iter())
        .await
        .unwrap();
    store
        .run_on_shards("OPTIMIZE TABLE runs{local} FINAL")
        .await
        .unwrap();
    let indexed = "SELECT count() FROM mergeTreeTextIndex(currentDatabase(), 'runs', 'by_text')";
    assert_eq!(store.bounded_query(indexed).one::<u64>().await.unwrap(), 0);
    assert_eq!(found(&store, "third").await, ["r"]);
}
