//! Claims, numbers of instances, and instances themselves, under concurrency.

use std::collections::HashSet;
use std::time::Duration;

use store::Store;
use store::platform::claims::Holds;
use store::platform::instances::{InstanceQuery, InstanceRecord, Instances};
use store::reads::filter_sql::Projects;
use store::tables::rows::InstanceRow;

use crate::database;

/// 2026-11-21T00:00:00Z.
const NOW_MS: i64 = 1_795_219_200_000;

fn instance(project: &str, uuid: &str, started_at: i64) -> InstanceRecord {
    InstanceRecord {
        project_id: project.to_owned(),
        app_id: "shop".to_owned(),
        started_at,
        uuid: uuid.to_owned(),
        instance_id: 7,
        build_id: "b1".to_owned(),
        build_status: "COMMITTED".to_owned(),
        process: "Order [v2]".to_owned(),
        process_uuid: "p".to_owned(),
        state: "STARTED".to_owned(),
        tokens: "[]".to_owned(),
        input: r#"{"key1":"ä"}"#.to_owned(),
        platform: "web".to_owned(),
        started_by: "tok_1".to_owned(),
        fingerprint: "f".to_owned(),
        ..InstanceRecord::default()
    }
}

/// Stores its row, like a processor.
async fn store(store: &Store, one: &InstanceRecord) {
    let start = one.start();
    let row = InstanceRow::of(&one.project_id, &one.app_id, &start, &one.input);
    store.insert_instances([row].into_iter()).await.unwrap();
}

fn ours() -> Projects {
    Projects::Only(vec!["ours".to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_claim_a_name_at_once_at_most_one_has_it() {
    let database = database().await.unwrap();
    let store: Store = (*database).clone();
    for name in ["a", "b", "c", "d"] {
        let claims = (0..8).map(|by| {
            let store = store.clone();
            tokio::spawn(async move {
                let by = format!("p{by}");
                store.claim(name, &by, Holds::Forever).await.unwrap()
            })
        });
        let mut winners = 0;
        for claim in claims.collect::<Vec<_>>() {
            winners += usize::from(claim.await.unwrap());
        }
        assert!(winners <= 1, "{winners} have `{name}`");
        assert!(!store.claim(name, "late", Holds::Forever).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_its_holders_until_it_is_over_or_taken_back() {
    let database = database().await.unwrap();
    let long = Holds::For(Duration::from_secs(600));
    assert!(database.claim("n", "a", long).await.unwrap());
    assert!(database.claim("n", "a", long).await.unwrap(), "its own");
    assert!(!database.claim("n", "b", long).await.unwrap());
    assert!(database.claim("m", "b", long).await.unwrap());
    database.withdraw("n", "b").await.unwrap();
    database.withdraw("n", "a").await.unwrap();
    assert!(database.claim("n", "c", long).await.unwrap());
    let ended = Holds::For(Duration::ZERO);
    assert!(database.claim("short", "a", ended).await.unwrap());
    assert!(database.claim("short", "b", long).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_unique_over_processes_and_exact_in_javascript() {
    let database = database().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let instances = Instances::new((*database).clone());
        for _ in 0..3 {
            let instances = instances.clone();
            tasks.push(tokio::spawn(async move {
                let mut taken = Vec::new();
                for _ in 0..100 {
                    let first = instances.numbers(3).await.unwrap();
                    taken.extend(first..first + 3);
                }
                taken
            }));
        }
    }
    let mut all = HashSet::new();
    for task in tasks {
        for number in task.await.unwrap() {
            assert!(number < 1 << 53);
            assert!(all.insert(number), "{number} twice");
        }
    }
    assert_eq!(all.len(), 6 * 3 * 100 * 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_used_up_its_block_claims_another() {
    let database = database().await.unwrap();
    let instances = Instances::new((*database).clone());
    let first = instances.numbers(1 << 20).await.unwrap();
    let second = instances.numbers(1).await.unwrap();
    assert!(second >= first + (1 << 20));
    assert!(instances.numbers((1 << 20) + 1).await.is_err());
    let restarted = Instances::new((*database).clone());
    assert!(restarted.numbers(1).await.unwrap() >= second);
}

/// The identities on all pages.
async fn listed(instances: &Instances, mut query: InstanceQuery) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let page = instances.list(&ours(), &query).await.unwrap();
        seen.extend(page.iter().map(|one| one.uuid.clone()));
        let Some(last) = page.last() else {
            return seen;
        };
        assert_eq!(last.input, "");
        query.after = Some((last.started_at, last.uuid.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_started_here_is_found_before_its_row_is_there_and_once_afterwards_t1() {
    let database = database().await.unwrap();
    let instances = Instances::new((*database).clone());
    for number in 0..6 {
        let one = instance("ours", &format!("u{number}"), NOW_MS + number / 2);
        if number % 3 != 0 {
            store(&database, &one).await;
        }
        if number % 3 != 1 {
            instances.remember(one);
        }
    }
    instances.remember(instance("theirs", "x", NOW_MS));
    let query = InstanceQuery {
        app_id: Some("shop".to_owned()),
        limit: 2,
        ..InstanceQuery::default()
    };
    let seen = listed(&instances, query).await;
    assert_eq!(seen, ["u5", "u4", "u3", "u2", "u1", "u0"]);
    let of = async |projects: &Projects, uuid: &str| {
        let found = instances.one(projects, Some("shop"), uuid).await;
        found.unwrap().map(|one| one.input)
    };
    assert!(
        of(&ours(), "u0")
            .await
            .is_some_and(|input| !input.is_empty())
    );
    assert_eq!(of(&ours(), "x").await, None);
    for (filter, count) in [
        (
            InstanceQuery {
                process: Some("Order".to_owned()),
                ..InstanceQuery::default()
            },
            0,
        ),
        (
            InstanceQuery {
                build_id: Some("b2".to_owned()),
                ..InstanceQuery::default()
            },
            0,
        ),
        (
            InstanceQuery {
                app_id: Some("other".to_owned()),
                ..InstanceQuery::default()
            },
            0,
        ),
        (
            InstanceQuery {
                from_ms: Some(NOW_MS + 1),
                to_ms: Some(NOW_MS + 1),
                ..InstanceQuery::default()
            },
            2,
        ),
    ] {
        let query = InstanceQuery {
            limit: 100,
            ..filter
        };
        let page = instances.list(&ours(), &query).await.unwrap();
        assert_eq!(page.len(), count, "{query:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_read_back_as_it_was_stored_and_by_its_project_only_t1() {
    let database = database().await.unwrap();
    let instances = Instances::new((*database).clone());
    let new = instance("ours", "u1", NOW_MS);
    store(&database, &new).await;
    let found = instances.one(&ours(), None, "u1").await.unwrap().unwrap();
    assert_eq!(found.input, new.input);
    assert_eq!(
        (&found.process, found.instance_id, found.started_at),
        (&new.process, 7, NOW_MS)
    );
    let shop = instances.one(&ours(), Some("shop"), "u1").await.unwrap();
    assert_eq!(shop, Some(found));
    let theirs = Projects::Only(vec!["theirs".to_owned()]);
    assert_eq!(instances.one(&theirs, None, "u1").await.unwrap(), None);
    assert_eq!(instances.one(&ours(), None, "u2").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_every_instance_once_newest_first() {
    let database = database().await.unwrap();
    let instances = Instances::new((*database).clone());
    for number in 0..25 {
        // Three in each millisecond: the order continues by identity.
        let new = instance("ours", &format!("u{number:02}"), NOW_MS + number / 3);
        store(&database, &new).await;
    }
    store(&database, &instance("theirs", "x", NOW_MS)).await;
    let query = InstanceQuery {
        limit: 4,
        ..InstanceQuery::default()
    };
    let seen = listed(&instances, query).await;
    let expected: Vec<String> = (0..25)
        .rev()
        .map(|number| format!("u{number:02}"))
        .collect();
    assert_eq!(seen, expected);
    for (query, count) in [
        (
            InstanceQuery {
                from_ms: Some(NOW_MS + 1),
                to_ms: Some(NOW_MS + 2),
                ..InstanceQuery::default()
            },
            6,
        ),
        (
            InstanceQuery {
                app_id: Some("shop".to_owned()),
                build_id: Some("b1".to_owned()),
                process: Some("Order [v2]".to_owned()),
                ..InstanceQuery::default()
            },
            25,
        ),
        (
            InstanceQuery {
                process: Some("Order".to_owned()),
                ..InstanceQuery::default()
            },
            0,
        ),
    ] {
        let query = InstanceQuery {
            limit: 100,
            ..query
        };
        let page = instances.list(&ours(), &query).await.unwrap();
        assert_eq!(page.len(), count, "{query:?}");
    }
}
