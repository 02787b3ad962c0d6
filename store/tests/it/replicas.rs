//! Several replicas: addresses of one engine, of which some are dead, or die.

use std::net::SocketAddr;
use std::time::Duration;

use prometheus::Registry;
use store::metrics::Metrics;
use store::{Store, StoreConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::database;
use crate::rows::{NOON_MS, run};

/// An address that handles connections in some way until it is dropped.
struct Door {
    address: SocketAddr,
    _work: JoinSet<()>,
}

impl Door {
    async fn at(address: SocketAddr, engine: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut work = JoinSet::new();
        work.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(engine) = engine else {
                    continue;
                };
                open.spawn(async move {
                    let mut behind = TcpStream::connect(engine).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
                });
            }
        });
        Self {
            address,
            _work: work,
        }
    }

    /// Closes every connection at once, without a response.
    async fn slammed() -> Self {
        Self::at(any(), None).await
    }

    async fn open(address: SocketAddr, store: &Store) -> Self {
        let engine = store.config().url.trim_start_matches("http://").to_owned();
        Self::at(address, Some(engine.parse().unwrap())).await
    }
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// An address without a listener.
async fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind(any()).await.unwrap();
    listener.local_addr().unwrap()
}

struct Reached {
    store: Store,
    registry: Registry,
}

impl Reached {
    fn through(store: &Store, addresses: &[SocketAddr]) -> Self {
        let registry = Registry::new();
        let urls: Vec<String> = addresses.iter().map(|at| format!("http://{at}")).collect();
        let config = StoreConfig {
            url: urls[0].clone(),
            more_urls: urls[1..].to_vec(),
            ..store.config().clone()
        };
        let metrics = Metrics::register(&registry).unwrap();
        Self {
            store: Store::connect(config, metrics).unwrap(),
            registry,
        }
    }

    fn gauge(&self, name: &str, address: SocketAddr) -> i64 {
        let address = address.to_string();
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let of = family.unwrap().get_metric().iter().find(|metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.value() == address)
        });
        of.unwrap().get_gauge().get_value() as i64
    }

    async fn runs(&self) -> Result<u64, store::StoreError> {
        let query = self.store.bounded_query("SELECT count() FROM runs");
        query.one().await
    }

    /// Waits until the metric is 1.
    async fn until(&self, name: &str, address: SocketAddr) {
        let wait = async {
            while self.gauge(name, address) != 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait)
            .await
            .unwrap();
    }
}

const IN_USE: &str = "spindle_store_replica_in_use";
const UP: &str = "spindle_store_replica_up";

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_replica_is_passed_over_without_an_error() {
    let store = database().await.unwrap();
    let (dead, alive) = (unused_address().await, Door::open(any(), &store).await);
    let reached = Reached::through(&store, &[dead, alive.address]);
    let rows = [run("app", "r", 1, NOON_MS)];
    reached.store.insert_runs(rows.into_iter()).await.unwrap();
    assert_eq!(reached.runs().await.unwrap(), 1);
    assert_eq!(reached.gauge(IN_USE, alive.address), 1);
    assert_eq!(
        (reached.gauge(IN_USE, dead), reached.gauge(UP, dead)),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_connections_and_closes_them_is_left() {
    let store = database().await.unwrap();
    let (liar, alive) = (Door::slammed().await, Door::open(any(), &store).await);
    let reached = Reached::through(&store, &[liar.address, alive.address]);
    assert_eq!(reached.runs().await.unwrap(), 0, "a read is asked again");
    assert_eq!(reached.gauge(IN_USE, alive.address), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_back_is_used_when_the_other_one_goes() {
    let store = database().await.unwrap();
    let first = unused_address().await;
    let second = Door::open(any(), &store).await;
    let reached = Reached::through(&store, &[first, second.address]);
    reached.runs().await.unwrap();
    assert_eq!(reached.gauge(UP, first), 0);
    let first = Door::open(first, &store).await;
    reached.until(UP, first.address).await;
    assert_eq!(reached.gauge(IN_USE, second.address), 1, "it is kept to");
    let gone = second.address;
    drop(second);
    reached.until(IN_USE, first.address).await;
    assert_eq!(reached.runs().await.unwrap(), 0);
    assert_eq!(reached.gauge(UP, gone), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_query_moves_nobody() {
    let store = database().await.unwrap();
    let doors = [
        Door::open(any(), &store).await,
        Door::open(any(), &store).await,
    ];
    let reached = Reached::through(&store, &[doors[0].address, doors[1].address]);
    let wrong = reached
        .store
        .bounded_query("SELECT no_such_column FROM runs");
    wrong.one::<u64>().await.unwrap_err();
    assert_eq!(reached.gauge(IN_USE, doors[0].address), 1);
    assert_eq!(reached.gauge(UP, doors[0].address), 1);
}

#[tokio::test]
async fn when_all_replicas_are_away_the_error_says_so_and_can_be_tried_again() {
    let store = database().await.unwrap();
    let reached = Reached::through(&store, &[unused_address().await, unused_address().await]);
    let error = reached.runs().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}
