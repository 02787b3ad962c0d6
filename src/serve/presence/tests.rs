//! Processes over one topic in memory.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use eventlog::MemoryLog;
use prometheus::Registry;
use store::StoreError;

use super::*;
use crate::serve::health::Part;

/// A process whose one cache holds seven things.
struct Process {
    presence: Presence,
    control: Arc<OverLog>,
    entries: Arc<AtomicU64>,
    /// Its cache cannot be read again.
    is_away: Arc<AtomicBool>,
    /// Its cache is read again only after a permit is there, if it hangs.
    hangs: Arc<AtomicBool>,
    goes_on: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Process {
    fn new(log: &MemoryLog, role: Role) -> Self {
        let control = Arc::new(OverLog::new(Arc::new(log.clone()), &Registry::new()).unwrap());
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
            ..nothing()
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
        let who = who(role, format!("http://{}", role.name()));
        let health = Health::new(&[Part::Log]);
        Self {
            presence: Presence::of(who, health, (caches, Some(control.clone()))),
            control,
            entries,
            is_away,
            hangs,
            goes_on,
            stop: CancellationToken::new(),
        }
    }

    /// Hears, speaks, and does what it hears, as a server does.
    fn run(&self) {
        let (presence, control, stop) = (
            self.presence.clone(),
            self.control.clone(),
            self.stop.clone(),
        );
        let mut words = control.listen();
        tokio::spawn(async move {
            let carry_out = async {
                while let Ok(word) = words.recv().await {
                    if let Word::ClearCaches { names, order } = word {
                        presence.carry_out(&names, &order).await;
                    }
                }
            };
            tokio::select! {
                () = presence.run(&stop) => {}
                () = control.run(stop.clone()) => {}
                () = carry_out => {}
            }
        });
    }

    async fn clear(&self) -> Cleared {
        self.presence.clear(&[CORE_CACHE.to_owned()]).await.unwrap()
    }

    async fn knows(&self, processes: usize) {
        let known = async {
            while self.presence.processes().len() != processes {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), known)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_reaches_every_process_and_says_who_did_not_do_it() {
    let log = MemoryLog::new(1);
    let [here, there, third] =
        [Role::Query, Role::Ingest, Role::Processor].map(|role| Process::new(&log, role));
    for process in [&here, &there, &third] {
        process.run();
    }
    here.knows(3).await;
    let heard = here.presence.processes();
    let roles: Vec<&str> = heard
        .iter()
        .map(|heard| heard.present.role.as_str())
        .collect();
    assert_eq!(roles, ["query", "ingest", "processor"], "itself first");
    let missing = &heard[1].present.missing;
    assert_eq!(missing, &[("log".to_owned(), "starting".to_owned())]);
    assert_eq!(heard[1].present.caches[0].entries, 7);

    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (3, 3));
    for process in [&here, &there, &third] {
        assert_eq!(process.entries.load(Ordering::Relaxed), 0);
    }
    // Who said so said with it what is left.
    assert_eq!(here.presence.processes()[2].present.caches[0].entries, 0);

    third.is_away.store(true, Ordering::Relaxed);
    let since = Instant::now();
    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (2, 3));
    assert!(since.elapsed() >= CLEARED_WITHIN);
    assert!(since.elapsed() < 2 * CLEARED_WITHIN);

    // One that leaves is not waited for, nor one that cannot read its own caches again.
    third.presence.leave().await;
    third.stop.cancel();
    here.knows(2).await;
    here.is_away.store(true, Ordering::Relaxed);
    let cleared = here.clear().await;
    assert_eq!((cleared.confirmed, cleared.of), (1, 2));
    assert_eq!((cleared.here, cleared.is_told), (ClearedHere::Failed, true));
    here.stop.cancel();
    there.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_slow_here_is_told_at_once_and_carried_out_after_the_answer() {
    let log = MemoryLog::new(1);
    let [here, there] = [Role::Query, Role::Ingest].map(|role| Process::new(&log, role));
    here.run();
    there.run();
    here.knows(2).await;
    here.hangs.store(true, Ordering::Relaxed);
    let cleared = here.clear().await;
    assert_eq!(
        (cleared.here, cleared.is_told),
        (ClearedHere::UnderWay, true)
    );
    assert_eq!((cleared.confirmed, cleared.of), (1, 2));
    assert_eq!(there.entries.load(Ordering::Relaxed), 0);
    assert_eq!(here.entries.load(Ordering::Relaxed), 7);
    here.goes_on.add_permits(1);
    let done = async {
        while here.presence.present().cleared != [cleared.order.as_str()] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), done)
        .await
        .unwrap();
    assert_eq!(here.entries.load(Ordering::Relaxed), 0);
    let turns = || here.presence.0.turns.available_permits();
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
async fn a_process_alone_asks_nobody_and_orders_have_a_bound() {
    let alone = {
        let process = Process::new(&MemoryLog::new(1), Role::All);
        let who = process.presence.0.who.clone();
        let with = (process.presence.caches().clone(), None);
        Presence::of(who, Health::new(&[]), with)
    };
    let names = [CORE_CACHE.to_owned()];
    let cleared = Processes::clear(&alone, &names).await.unwrap();
    assert_eq!((cleared.confirmed, cleared.of), (1, 1));
    assert_eq!(alone.processes().len(), 1);
    alone.run(&CancellationToken::new()).await;
    let _all = alone.0.turns.acquire_many(ORDERS_MAX as u32).await.unwrap();
    let refused = Processes::clear(&alone, &names).await.unwrap_err();
    assert!(refused.contains("nothing was done"), "{refused}");
}

#[tokio::test]
async fn names_of_other_caches_and_orders_that_were_carried_out_empty_nothing() {
    let process = Process::new(&MemoryLog::new(1), Role::Query);
    let entries = || process.entries.load(Ordering::Relaxed);
    let presence = &process.presence;
    presence.carry_out(&["other".to_owned()], "a").await;
    assert_eq!(entries(), 7);
    for order in 0..ORDERS_REMEMBERED + 5 {
        let order = order.to_string();
        presence.carry_out(&[CORE_CACHE.to_owned()], &order).await;
    }
    let cleared = presence.present().cleared;
    assert_eq!(cleared.len(), ORDERS_REMEMBERED);
    assert_eq!(cleared[0], "5");
    process.entries.store(7, Ordering::Relaxed);
    presence.carry_out(&[CORE_CACHE.to_owned()], "20").await;
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
