//! Caches of the tables, reloaded by order.

use schemas::credential::Scope;
use schemas::ids::ProjectId;
use schemas::price::rate::{Per, Rate};
use schemas::price::{PriceKey, PriceRow, Rates};
use store::Secret;
use store::credentials::{Created, Credentials, NewKey};
use store::prices::Prices;
use store::testing::TestDatabase;
use store::{Store, StoreConfig};

use crate::database;

/// Concurrent callers.
const ASKING: usize = 8;

async fn directory() -> (TestDatabase, Credentials) {
    let database = database().await.unwrap();
    let credentials = Credentials::new((*database).clone());
    credentials
        .put_project(&ProjectId::new("shop"), "web", &["open"])
        .await
        .unwrap();
    (database, credentials)
}

async fn key(credentials: &Credentials) -> Created {
    let new = NewKey {
        project: ProjectId::new("shop"),
        name: "ci".to_owned(),
        scopes: vec![Scope::Report],
        secret: None,
    };
    credentials.create_key(new).await.unwrap()
}

async fn is_known(credentials: &Credentials, secret: &Secret) -> bool {
    let found = credentials.authenticate(secret.reveal()).await;
    found.unwrap().is_some()
}

/// A store without a server.
fn away() -> Store {
    let config = StoreConfig {
        url: "http://127.0.0.1:1".to_owned(),
        ..StoreConfig::default()
    };
    let metrics = store::metrics::Metrics::register(&prometheus::Registry::new()).unwrap();
    Store::connect(config, metrics).unwrap()
}

#[tokio::test]
async fn a_key_that_was_changed_without_a_trace_is_seen_after_a_clear() {
    let (database, credentials) = directory().await;
    let created = key(&credentials).await;
    let revoke =
        "ALTER TABLE api_keys UPDATE revoked_at = now64(3) WHERE 1 SETTINGS mutations_sync = 2";
    database.run(revoke).await.unwrap();
    credentials.refresh().await.unwrap();
    assert!(is_known(&credentials, &created.secret).await, "no trace");
    credentials.clear().await.unwrap();
    assert!(!is_known(&credentials, &created.secret).await);
    assert_eq!(credentials.stats().entries, 0);
    assert!(credentials.keyless("open").is_some());
    // No state remains that would hide the next change.
    let second = key(&credentials).await;
    assert!(is_known(&credentials, &second.secret).await);
}

#[tokio::test]
async fn while_the_database_is_away_a_clear_fails_and_what_is_known_stays_r1() {
    let (_database, credentials) = directory().await;
    let created = key(&credentials).await;
    let alone = Credentials::new(away());
    let snapshot = credentials.snapshot(1000);
    alone.restore(&snapshot, 2000, 10_000).unwrap();
    assert!(alone.clear().await.is_err());
    assert!(is_known(&alone, &created.secret).await);
    assert!(alone.keyless("open").is_some());
    let prices = Prices::new(away()).unwrap();
    let (rows, used_bytes, max_bytes) = prices.sizes();
    assert!(prices.clear().await.is_err());
    assert_eq!(prices.sizes().0, rows);
    assert!(rows > 0 && used_bytes < max_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_looked_up_while_caches_are_emptied_does_not_come_back_afterwards() {
    let (database, here) = directory().await;
    let there = Credentials::new((*database).clone());
    for round in 0..20 {
        let created = key(&here).await;
        let asking = (0..ASKING).map(|_| {
            let (there, secret) = (there.clone(), created.secret.reveal().to_owned());
            tokio::spawn(async move { there.authenticate(&secret).await.unwrap() })
        });
        let asking: Vec<_> = asking.collect();
        here.revoke_key(&created.id).await.unwrap();
        there.clear().await.unwrap();
        for asked in asking {
            asked.await.unwrap();
        }
        assert!(!is_known(&there, &created.secret).await, "round {round}");
    }
}

#[tokio::test]
async fn a_price_that_was_changed_without_a_trace_is_seen_after_a_clear() {
    let database = database().await.unwrap();
    let prices = Prices::new((*database).clone()).unwrap();
    let rate = |text| Rate::read(text, Per::Million).unwrap();
    let row = PriceRow {
        key: PriceKey {
            model: "house".to_owned(),
            is_prefix: false,
            effective_from: None,
        },
        rates: Rates {
            input: rate("1"),
            output: rate("1"),
            cached_input: None,
            total: None,
            special: None,
        },
    };
    prices.put(&row).await.unwrap();
    let input = || {
        let table = prices.current();
        table
            .rates("house", 1_795_219_200_000)
            .map(|rates| rates.input)
    };
    let raise = "ALTER TABLE prices UPDATE input = input * 3 WHERE 1 SETTINGS mutations_sync = 2";
    database.run(raise).await.unwrap();
    prices.refresh().await.unwrap();
    assert_eq!(input(), Some(rate("1")), "no trace");
    let mut changes = prices.subscribe();
    prices.clear().await.unwrap();
    assert!(changes.has_changed().unwrap(), "subscribers are notified");
    changes.borrow_and_update();
    assert_eq!(input(), Some(rate("3")));
}
