//! Processes over one topic in memory.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use eventlog::MemoryLog;
use prometheus::Registry;
use store::StoreError;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::serve::health::Part;

/// A process with one cache of seven entries.
struct Process {
    deployment: Deployment,
    topic: ControlTopic,
    entries: Arc<AtomicU64>,
    /// Reloading its cache fails.
    is_away: Arc<AtomicBool>,
    /// Reloading its cache waits for a permit.
    hangs: Arc<AtomicBool>,
    goes_on: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Process {
    fn new(log: &MemoryLog, role: Role) -> Self {
        let topic = ControlTopic::new(Arc::new(log.clone()), &Registry::new()).unwrap();
        let caches = Caches::new(&Registry::new()).unwrap();
        let (entries, is_away) = (
            Arc::new(AtomicU64::new(7)),
            Arc::new(AtomicBool::new(false)),
        );
        let (read, emptied, fails) = (entries.clone(), entries.clone(), is_away.clone());
        let hangs = Arc::new(AtomicBool::new(false));
        let goes_on = Arc::new(Semaphore::new(0));
        let (waits, until) = (hangs.clone(), goes_on.clone());
        let report = move || CacheReport {
            entries: read.load(Ordering::Relaxed),
            ..CacheReport::default()
        };
        caches.add_read_again(CacheName::Credentials, report, move || {
            let is_away = fails.load(Ordering::Relaxed);
            let waits = waits.load(Ordering::Relaxed);
            let (emptied, until) = (emptied.clone(), until.clone());
            async move {
                if waits {
                    until.acquire().await.unwrap().forget();
                }
                if !is_away {
                    emptied.store(0, Ordering::Relaxed);
                }
                match is_away {
                    true => Err(StoreError::Unavailable("away".to_owned())),
                    false => Ok(()),
                }
            }
        });
        let endpoint = format!("http://{}", role.name());
        let health = Health::new(&[Part::Log]);
        Self {
            deployment: Deployment::of(role, endpoint, health, Some(topic.clone()), caches),
            topic,
            entries,
            is_away,
            hangs,
            goes_on,
            stop: CancellationToken::new(),
        }
    }

    /// Exchanges messages and carries out orders, as a server does.
    fn run(&self) {
        let (deployment, topic) = (self.deployment.clone(), self.topic.clone());
        let (stop, stopped) = (self.stop.clone(), self.stop.clone());
        let mut messages = topic.subscribe();
        let driver = deployment.driver(None).unwrap();
        tokio::spawn(async move {
            while let Ok(message) = messages.recv().await {
                if let ControlMessage::ClearCaches { names, order } = message {
                    deployment.carry_out(&names, &order).await;
                }
            }
        });
        tokio::spawn(async move { tokio::join!(topic.run(stop), driver.run(stopped)) });
    }

    async fn clear(&self) -> Cleared {
        self.deployment
            .clear(&[CORE_CACHE.to_owned()])
            .await
            .unwrap()
    }

    async fn knows(&self, processes: usize) {
        let known = async {
            while self.deployment.processes().len() != processes {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), known)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_reaches_every_process_and_names_those_that_did_not_confirm() {
    let log = MemoryLog::new(1);
    let [here, there, third] =
        [Role::Query, Role::Ingest, Role::Processor].map(|role| Process::new(&log, role));
    for process in [&here, &there, &third] {
        process.run();
    }
    here.knows(3).await;
    let known = here.deployment.processes();
    let roles: Vec<&str> = known
        .iter()
        .map(|known| known.heartbeat.role.as_str())
        .collect();
    assert_eq!(roles, ["query", "ingest", "processor"], "itself first");
    let missing = &known[1].heartbeat.missing;
    assert_eq!(missing, &[("log".to_owned(), "starting".to_owned())]);
    assert_eq!(known[1].heartbeat.caches[0].entries, 7);

    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (3, 3));
    for process in [&here, &there, &third] {
        assert_eq!(process.entries.load(Ordering::Relaxed), 0);
    }
    // The heartbeat that confirms shows the remaining entries.
    assert_eq!(
        here.deployment.processes()[2].heartbeat.caches[0].entries,
        0
    );

    third.is_away.store(true, Ordering::Relaxed);
    let since = Instant::now();
    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (2, 3));
    assert!(since.elapsed() >= CLEARED_WITHIN);
    assert!(since.elapsed() < 2 * CLEARED_WITHIN);

    // A process that shuts down is not waited for, nor one that cannot reload its caches.
    third.deployment.leave();
    third.stop.cancel();
    here.knows(2).await;
    here.is_away.store(true, Ordering::Relaxed);
    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (1, 2));
    assert_eq!(
        (cleared.here, cleared.is_published),
        (ClearedHere::Failed, true)
    );
    here.stop.cancel();
    there.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_slow_here_is_published_at_once_and_carried_out_after_the_answer() {
    let log = MemoryLog::new(1);
    let [here, there] = [Role::Query, Role::Ingest].map(|role| Process::new(&log, role));
    here.run();
    there.run();
    here.knows(2).await;
    here.hangs.store(true, Ordering::Relaxed);
    let cleared = here.clear().await;
    assert_eq!(
        (cleared.here, cleared.is_published),
        (ClearedHere::UnderWay, true)
    );
    assert_eq!((cleared.confirmed, cleared.of), (1, 2));
    assert_eq!(there.entries.load(Ordering::Relaxed), 0);
    assert_eq!(here.entries.load(Ordering::Relaxed), 7);
    here.goes_on.add_permits(1);
    let done = async {
        while here.deployment.heartbeat().cleared != [cleared.order.as_str()] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), done)
        .await
        .unwrap();
    assert_eq!(here.entries.load(Ordering::Relaxed), 0);
    let turns = || here.deployment.0.turns.available_permits();
    let free = async {
        while turns() != ORDERS_MAX {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), free)
        .await
        .unwrap();
    here.stop.cancel();
    there.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_alone_waits_for_no_other_and_orders_have_a_bound() {
    let alone = {
        let process = Process::new(&MemoryLog::new(1), Role::All);
        let caches = process.deployment.caches().clone();
        Deployment::of(
            Role::All,
            "http://a".to_owned(),
            Health::new(&[]),
            None,
            caches,
        )
    };
    let names = [CORE_CACHE.to_owned()];
    let cleared = Processes::clear(&alone, &names).await.unwrap();
    assert_eq!((cleared.confirmed, cleared.of), (1, 1));
    assert_eq!(alone.processes().len(), 1);
    assert!(alone.driver(None).is_none());
    let _all = alone.0.turns.acquire_many(ORDERS_MAX as u32).await.unwrap();
    let refused = Processes::clear(&alone, &names).await.unwrap_err();
    assert!(refused.contains("nothing was done"), "{refused}");
}

#[tokio::test]
async fn names_of_other_caches_and_orders_that_were_carried_out_empty_nothing() {
    let process = Process::new(&MemoryLog::new(1), Role::Query);
    let entries = || process.entries.load(Ordering::Relaxed);
    let deployment = &process.deployment;
    deployment.carry_out(&["other".to_owned()], "a").await;
    assert_eq!(entries(), 7);
    for order in 0..ORDERS_REMEMBERED + 5 {
        let order = order.to_string();
        deployment.carry_out(&[CORE_CACHE.to_owned()], &order).await;
    }
    let cleared = deployment.heartbeat().cleared;
    assert_eq!(cleared.len(), ORDERS_REMEMBERED);
    assert_eq!(cleared[0], "5");
    process.entries.store(7, Ordering::Relaxed);
    deployment.carry_out(&[CORE_CACHE.to_owned()], "20").await;
    assert_eq!(entries(), 7, "done before");
}

#[test]
fn a_process_that_listens_everywhere_is_known_by_its_machine() {
    let at = |ip: Ipv4Addr| endpoint((ip, 7070).into(), Some("query-1"));
    assert_eq!(at(Ipv4Addr::UNSPECIFIED), "http://query-1:7070");
    assert_eq!(at(Ipv4Addr::new(10, 0, 0, 7)), "http://10.0.0.7:7070");
    let unnamed = endpoint((Ipv4Addr::UNSPECIFIED, 1).into(), None);
    assert_eq!(unnamed, "http://0.0.0.0:1");
}
