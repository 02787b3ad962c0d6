//! Brokers that die and return, and topics that do not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eventlog::conformance::broker::Cluster;
use eventlog::{Delivery, Fetch, KafkaLog, Log, LogError, Position, Record, StoredRecord};
use prometheus::Registry;
use tokio::sync::watch;

use super::membership::Owner;
use super::{append, config, in_time, open, record};

/// Everything in the topic.
async fn contents(log: &KafkaLog) -> Vec<StoredRecord> {
    let bounds = log.bounds().await.unwrap();
    let count: u64 = bounds.iter().map(|bounds| bounds.end - bounds.begin).sum();
    let begins = bounds.iter().map(|bounds| Position {
        partition: bounds.partition,
        offset: bounds.begin,
    });
    let mut reader = log.reader(begins.collect()).await.unwrap();
    let fetch = Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(100),
    };
    let mut all = Vec::new();
    in_time("the whole topic", async {
        while (all.len() as u64) < count {
            match reader.next(fetch).await {
                Ok(records) => all.extend(records),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await;
    all
}

/// Appends numbered records of one key until stopped, with retries, as a client would. Returns the positions of the
/// acknowledged ones, in order.
async fn load(log: KafkaLog, key: String, stop: watch::Receiver<bool>) -> Vec<(Position, String)> {
    let mut kept = Vec::new();
    let mut number = 0;
    while !*stop.borrow() {
        let payload = format!("{key}:{number:06}");
        match log.append(record(&key, &payload)).await {
            Ok(at) => {
                kept.push((at, payload));
                number += 1;
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    kept
}

/// Every acknowledged record is at its position, and the first copies of a key's records are in order.
async fn assert_kept(log: &KafkaLog, loads: Vec<Vec<(Position, String)>>) {
    let all: BTreeMap<Position, String> = contents(log)
        .await
        .into_iter()
        .map(|stored| {
            let payload = stored.record.payload.to_vec();
            (stored.position, String::from_utf8(payload).unwrap())
        })
        .collect();
    for kept in loads {
        assert!(
            kept.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "order of a key (L2)"
        );
        for (at, payload) in kept {
            assert_eq!(all.get(&at), Some(&payload), "acknowledged at {at:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_record_is_lost_with_the_leader_of_its_partition() {
    let cluster = tokio::task::spawn_blocking(|| Arc::new(Cluster::start(3)));
    let cluster = cluster.await.unwrap();
    let mut config = config(&cluster.bootstrap(), 2);
    config.replication = 3;
    config.min_insync_replicas = 2;
    let log = open(&config).await;
    let (stop, stopped) = watch::channel(false);
    let loads: Vec<_> = (0..4)
        .map(|i| tokio::spawn(load(log.clone(), format!("app-{i}"), stopped.clone())))
        .collect();
    let end = |log: KafkaLog| async move {
        let bounds = log.bounds().await;
        bounds.map_or(0, |bounds| {
            bounds.iter().map(|bounds| bounds.end).sum::<u64>()
        })
    };
    let grows = |by: u64| {
        let log = log.clone();
        async move {
            let before = end(log.clone()).await;
            in_time("appends that get through", async {
                while end(log.clone()).await < before + by {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        }
    };
    grows(200).await;
    for partition in 0..2 {
        let topic = config.topic.clone();
        let brokers = Arc::clone(&cluster);
        let killed = tokio::task::spawn_blocking(move || {
            let leader = brokers.leader(&topic, partition);
            let leader = leader.expect("the partition has a leader");
            brokers.kill(leader);
            leader
        });
        let killed = killed.await.unwrap();
        // The others continue without it.
        grows(200).await;
        let brokers = Arc::clone(&cluster);
        let back = tokio::task::spawn_blocking(move || brokers.restart(killed));
        back.await.unwrap();
        grows(200).await;
    }
    stop.send_replace(true);
    let mut kept = Vec::new();
    for load in loads {
        kept.push(load.await.unwrap());
    }
    assert_kept(&log, kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_comes_back_finds_everybody_waiting() {
    let cluster = tokio::task::spawn_blocking(|| Arc::new(Cluster::start(1)));
    let cluster = cluster.await.unwrap();
    let mut config = config(&cluster.bootstrap(), 2);
    config.append_timeout = Duration::from_secs(3);
    config.session_timeout = Duration::from_secs(20);
    let log = open(&config).await;
    append(&log, 10).await;
    let mut member = log.join("g").await.unwrap();
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let mut next = async |count: u64| {
        in_time("records at the member", async {
            while seen.values().sum::<u64>() < count {
                let fetch = Fetch {
                    max_bytes: 1 << 20,
                    max_wait: Duration::from_millis(50),
                };
                match member.next(fetch).await {
                    Ok(Delivery::Records(records)) => {
                        for stored in records {
                            let next = stored.position.offset + 1;
                            seen.insert(stored.position.partition, next);
                        }
                        for (partition, next) in &seen {
                            // Rejected at most during the rebalance.
                            let _ = member.commit(*partition, *next).await;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        })
        .await;
    };
    next(10).await;
    let brokers = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || brokers.kill(0))
        .await
        .unwrap();

    let asked = Instant::now();
    let refused = log.append(record("app", "away")).await;
    assert!(
        matches!(refused, Err(LogError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(
        asked.elapsed() < config.append_timeout * 2,
        "{:?}",
        asked.elapsed()
    );
    let bounds = log.bounds().await;
    assert!(
        matches!(bounds, Err(LogError::Unavailable(_))),
        "{bounds:?}"
    );

    let brokers = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || brokers.restart(0))
        .await
        .unwrap();
    in_time("an append", async {
        while let Err(error) = log.append(record("app-1", "back")).await {
            assert!(error.is_retryable(), "{error}");
        }
    })
    .await;
    let end = in_time("bounds", async {
        loop {
            match log.bounds().await {
                Ok(bounds) => break bounds.iter().map(|bounds| bounds.end).sum(),
                // The client's metadata of leaders may be old.
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await;
    next(end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_partitions_are_noticed_by_appends_and_members() {
    let cluster = Cluster::shared();
    let log = open(&config(&cluster.bootstrap(), 2)).await;
    append(&log, 10).await;
    let mut member = log.join("g").await.unwrap();
    let mut own = BTreeSet::new();
    let mut owns = async |count: usize| {
        let fetch = Fetch {
            max_bytes: 1 << 20,
            max_wait: Duration::from_millis(50),
        };
        in_time("partitions", async {
            while own.len() < count {
                if let Delivery::Assigned(positions) = member.next(fetch).await.unwrap() {
                    own.extend(positions.iter().map(|at| at.partition));
                }
            }
        })
        .await;
    };
    owns(2).await;
    cluster.grow(log.topic(), 4).await;
    owns(4).await;
    in_time("the new number", async {
        while log.partitions() != 4 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let at = log.append_to(3, record("app", "new")).await.unwrap();
    assert_eq!(at.partition, 3);
    assert_eq!(log.bounds().await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_takes_too_little_is_refused_with_what_to_do() {
    let mut config = config(&Cluster::shared().bootstrap(), 1);
    config.max_record_bytes = 100_000;
    open(&config).await;
    config.max_record_bytes = 200_000;
    let error = KafkaLog::open(config.clone(), &Registry::new())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, LogError::Settings(_)), "{error}");
    assert!(error.to_string().contains("max.message.bytes"), "{error}");
    // Fewer partitions than configured are no error: the topic keeps its own number.
    config.max_record_bytes = 100_000;
    config.partitions = 8;
    assert_eq!(open(&config).await.partitions(), 1);
    // More replicas than brokers are an error.
    let mut config = super::config(&Cluster::shared().bootstrap(), 1);
    config.replication = 3;
    let error = KafkaLog::open(config, &Registry::new())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, LogError::Settings(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_the_address_is_an_error_in_time() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut config = config(&address, 1);
    config.append_timeout = Duration::from_millis(500);
    let asked = Instant::now();
    let error = KafkaLog::open(config, &Registry::new())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_compression_and_the_largest_record_get_through() {
    for compression in [
        eventlog::Compression::None,
        eventlog::Compression::Lz4,
        eventlog::Compression::Zstd,
    ] {
        let mut config = config(&Cluster::shared().bootstrap(), 1);
        config.compression = compression;
        config.max_record_bytes = 1 << 20;
        config.max_prefetch_bytes = 256 << 10;
        let log = open(&config).await;
        // Incompressible bytes.
        let noise: Vec<u8> = (0..(1 << 20) - 1024).map(|_| rand::random()).collect();
        let largest = Record {
            payload: Bytes::from(noise),
            ..record("app", "")
        };
        for _ in 0..3 {
            log.append(largest.clone()).await.unwrap();
        }
        let all = contents(&log).await;
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|stored| stored.record == largest));
    }
}

/// Time-out of a commit of the members that return.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Two members whose sessions end while the broker is away; `meanwhile` is done to them before it returns. They must not
/// wait until the broker has forgotten their former sessions.
async fn they_return_at_once(
    session: Duration,
    meanwhile: impl AsyncFnOnce(&mut Vec<Owner>, [&KafkaLog; 2]),
) {
    let cluster = tokio::task::spawn_blocking(|| Arc::new(Cluster::start(1)));
    let cluster = cluster.await.unwrap();
    let mut config = config(&cluster.bootstrap(), 2);
    config.session_timeout = session;
    config.append_timeout = TIMEOUT;
    let (one, other) = (open(&config).await, open(&config).await);
    let mut owners = vec![Owner::join(&one).await, Owner::join(&other).await];
    own(&mut owners, 1).await;
    let brokers = Arc::clone(&cluster);
    let killed = tokio::task::spawn_blocking(move || brokers.kill(0));
    killed.await.unwrap();
    meanwhile(&mut owners, [&one, &other]).await;
    let brokers = Arc::clone(&cluster);
    let back = tokio::task::spawn_blocking(move || brokers.restart(0));
    back.await.unwrap();
    let back = Instant::now();
    own(&mut owners, 1).await;
    // The broker remembers the former sessions for so long.
    assert!(
        back.elapsed() < config.session_timeout,
        "{:?}",
        back.elapsed()
    );
}

/// Waits until each owner has this many partitions.
async fn own(owners: &mut [Owner], count: usize) {
    in_time("partitions", async {
        while owners.iter().any(|owner| owner.own.len() != count) {
            for owner in owners.iter_mut() {
                owner.step().await.unwrap();
            }
        }
    })
    .await;
}

/// As a worker does that joins again: it drops its member first.
async fn join_again(owners: &mut Vec<Owner>, logs: [&KafkaLog; 2]) {
    owners.clear();
    for log in logs {
        owners.push(Owner::join(log).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_whose_sessions_ended_with_the_broker_away_return_without_waiting_for_them_r1() {
    they_return_at_once(Duration::from_secs(20), async |owners, _| {
        own(owners, 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successors_of_members_whose_sessions_ended_do_not_wait_for_them_r1() {
    they_return_at_once(Duration::from_secs(20), async |owners, logs| {
        own(owners, 0).await;
        join_again(owners, logs).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_without_an_answer_say_when_the_session_has_ended_r1() {
    they_return_at_once(Duration::from_secs(12), async |owners, logs| {
        let began = Instant::now();
        let commits = owners.iter_mut().map(async |owner| {
            let partition = *owner.own.first().unwrap();
            loop {
                match owner.member.commit(partition, 1).await {
                    Err(LogError::NotAssigned(_)) => return,
                    other => assert!(matches!(other, Err(LogError::Unavailable(_))), "{other:?}"),
                }
            }
        });
        futures::future::join_all(commits).await;
        // Not when the second commit has waited for its time-out.
        assert!(began.elapsed() < TIMEOUT * 3 / 2, "{:?}", began.elapsed());
        join_again(owners, logs).await;
    })
    .await;
}
