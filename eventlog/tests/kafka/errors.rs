//! Rare errors of brokers, ordered from the client library's mock of a cluster.

use std::time::{Duration, Instant};

use eventlog::{Delivery, Fetch, KafkaConfig, KafkaLog, Log, LogError, Member, Position};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{append, config, in_time, open, record};

type Mock = MockCluster<'static, DefaultProducerContext>;

/// A mock with a topic of two partitions. It creates no topics on request.
fn mock() -> (Mock, KafkaConfig) {
    let mock = MockCluster::new(1).unwrap();
    let mut config = config(&mock.bootstrap_servers(), 2);
    config.manage_topic = false;
    mock.create_topic(&config.topic, 2, 1).unwrap();
    (mock, config)
}

fn fetch() -> Fetch {
    Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(50),
    }
}

async fn payloads(log: &KafkaLog, count: usize) -> Vec<String> {
    let from = (0..2).map(|partition| Position {
        partition,
        offset: 0,
    });
    let mut reader = log.reader(from.collect()).await.unwrap();
    let mut all = Vec::new();
    in_time("records", async {
        while all.len() < count {
            for stored in reader.next(fetch()).await.unwrap() {
                all.push(String::from_utf8(stored.record.payload.to_vec()).unwrap());
            }
        }
    })
    .await;
    // Nothing comes behind them.
    assert!(reader.next(fetch()).await.unwrap().is_empty());
    all.sort_unstable();
    all
}

async fn owner(log: &KafkaLog) -> Box<dyn Member> {
    let mut member = log.join("g").await.unwrap();
    in_time("partitions", async {
        while !matches!(member.next(fetch()).await.unwrap(), Delivery::Assigned(_)) {}
    })
    .await;
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_moment_neither_lose_nor_double_a_record() {
    use RDKafkaRespErr as Error;
    let (mock, config) = mock();
    let log = open(&config).await;
    for (round, error) in [
        Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Error::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Error::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        Error::RD_KAFKA_RESP_ERR__TRANSPORT,
    ]
    .into_iter()
    .enumerate()
    {
        mock.request_errors(RDKafkaApiKey::Produce, &[error, error]);
        let start = round * 10;
        let appends = (start..start + 10).map(|i| {
            let record = record(&format!("app-{}", i % 3), &format!("{i:04}"));
            log.append(record)
        });
        for done in futures::future::join_all(appends).await {
            done.unwrap_or_else(|failed| panic!("{error:?}: {failed}"));
        }
    }
    let expected: Vec<String> = (0..60).map(|i| format!("{i:04}")).collect();
    assert_eq!(payloads(&log, 60).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_was_given_up_is_made_anew() {
    use RDKafkaRespErr as Error;
    let (mock, config) = mock();
    let log = open(&config).await;
    append(&log, 5).await;
    for error in [
        Error::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
        Error::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        Error::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
    ] {
        mock.request_errors(RDKafkaApiKey::Produce, &[error]);
        let first = log.append(record("app", "first")).await;
        if let Err(first) = first {
            assert!(matches!(first, LogError::Unavailable(_)), "{first}");
        }
        let second = in_time("an answer", log.append(record("app", "second"))).await;
        second.unwrap_or_else(|failed| panic!("{error:?}: {failed}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_takes_too_long_is_answered_in_time() {
    let (mock, mut config) = mock();
    config.append_timeout = Duration::from_secs(2);
    let log = open(&config).await;
    // On a busy computer the first one may take as long.
    let first = record("app", "first");
    in_time("an append", async {
        while log.append(first.clone()).await.is_err() {}
    })
    .await;
    mock.broker_round_trip_time(-1, Duration::from_secs(20))
        .unwrap();
    let asked = Instant::now();
    let refused = log.append(record("app", "slow")).await;
    assert!(
        matches!(refused, Err(LogError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_over_the_bound_in_flight_is_refused_at_once_x1() {
    let (mock, mut config) = mock();
    config.max_record_bytes = 10_000;
    config.max_in_flight_bytes = 25_000;
    let log = open(&config).await;
    append(&log, 1).await;
    mock.broker_round_trip_time(-1, Duration::from_millis(1500))
        .unwrap();
    let large = record("app", &"x".repeat(9000));
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let log = log.clone();
        let large = large.clone();
        waiting.push(tokio::spawn(async move { log.append(large).await }));
    }
    in_time("two in flight and one refused at once", async {
        loop {
            let asked = Instant::now();
            let small = record("app", &"x".repeat(8000));
            let third = tokio::time::timeout(Duration::from_millis(200), log.append(small)).await;
            if let Ok(Err(error)) = third {
                assert!(matches!(error, LogError::Full(_)), "{error}");
                if asked.elapsed() < Duration::from_millis(200) {
                    break;
                }
            }
        }
    })
    .await;
    mock.broker_round_trip_time(-1, Duration::ZERO).unwrap();
    for waiting in waiting {
        let done = waiting.await.unwrap();
        assert!(!matches!(done, Err(LogError::Unavailable(_))), "{done:?}");
    }
    in_time("room again", async {
        while let Err(error) = log.append(large.clone()).await {
            assert!(matches!(error, LogError::Full(_)), "{error}");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_outlives_a_coordinator_that_is_away_for_a_moment() {
    use RDKafkaRespErr as Error;
    let (mock, mut config) = mock();
    // Errors are ordered here, not silences: a busy computer must not cause one.
    config.session_timeout = Duration::from_secs(20);
    let log = open(&config).await;
    append(&log, 10).await;
    let mut member = owner(&log).await;
    for (offset, error) in [
        Error::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        Error::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        Error::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        Error::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
        Error::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ]
    .into_iter()
    .enumerate()
    {
        mock.request_errors(RDKafkaApiKey::OffsetCommit, &[error]);
        let next = offset as u64 + 1;
        in_time("a commit", async {
            loop {
                match member.commit(0, next).await {
                    Ok(()) => break,
                    // A busy machine may find the coordinator so late that the library gives its partitions up: they
                    // come again.
                    Err(LogError::NotAssigned(0)) => assigned_again(&mut *member).await,
                    Err(failed) => assert!(failed.is_retryable(), "{error:?}: {failed}"),
                }
            }
        })
        .await;
        assert_eq!(log.lag("g").await.unwrap()[0].committed, next, "{error:?}");
    }
}

async fn assigned_again(member: &mut dyn Member) {
    loop {
        if let Ok(Delivery::Assigned(_)) = member.next(fetch()).await {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_the_broker_does_not_know_loses_and_joins_again() {
    use RDKafkaRespErr as Error;
    let (mock, config) = mock();
    let log = open(&config).await;
    append(&log, 10).await;
    let mut member = owner(&log).await;
    for (next, error) in [
        (1, Error::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID),
        (2, Error::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION),
    ] {
        mock.request_errors(RDKafkaApiKey::OffsetCommit, &[error]);
        let refused = member.commit(0, next).await;
        assert!(
            matches!(refused, Err(LogError::NotAssigned(0))),
            "{refused:?}"
        );
        let (mut lost, mut again) = (false, false);
        in_time("Lost, then Assigned", async {
            while !again {
                match member.next(fetch()).await.unwrap() {
                    Delivery::Lost(_) => lost = true,
                    Delivery::Assigned(_) => again = lost,
                    _ => {}
                }
            }
        })
        .await;
        member.commit(0, next).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_commits_have_no_answer_until_the_deadline_has_lost_its_partitions() {
    let (mock, mut config) = mock();
    config.append_timeout = Duration::from_secs(1);
    config.session_timeout = Duration::from_secs(4);
    let log = open(&config).await;
    let mut member = owner(&log).await;
    member.commit(0, 1).await.unwrap();
    // The session goes on: only commits fail.
    let away = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[away; 1000]);
    let failing = Instant::now();
    let refused = in_time("the deadline", async {
        loop {
            match member.commit(0, 2).await {
                Ok(()) => panic!("no commit gets through"),
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => break error,
            }
        }
    })
    .await;
    assert!(matches!(refused, LogError::NotAssigned(0)), "{refused}");
    assert!(failing.elapsed() >= config.session_timeout);
    assert!(member.lease().await.is_err(), "nothing more may be stored");
    let lost = member.next(fetch()).await.unwrap();
    assert!(
        matches!(&lost, Delivery::Lost(lost) if lost.len() == 2),
        "{lost:?}"
    );
}

/// Two members, the first of which was told a revocation and has not come back: the library is in the middle of a
/// rebalance. Gives the partition that stays.
async fn in_a_rebalance(log: &KafkaLog) -> (Box<dyn Member>, Box<dyn Member>, u32) {
    let mut first = owner(log).await;
    let mut second = log.join("g").await.unwrap();
    let revoked = in_time("a revocation", async {
        loop {
            let (delivery, _) = futures::join!(first.next(fetch()), second.next(fetch()));
            if let Delivery::Revoked(partitions) = delivery.unwrap() {
                break partitions;
            }
        }
    })
    .await;
    assert_eq!(revoked.len(), 1);
    (first, second, 1 - revoked[0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_outlives_a_new_generation_of_the_group() {
    in_a_try("a commit", commits_in_an_old_generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_committed_in_a_rebalance_comes_again() {
    in_a_try("a refused commit", refused_and_assigned_again).await;
}

/// On a machine so slow that the group goes on without the member meanwhile, the member rightly loses its partitions:
/// `false`, and it is tried again.
async fn in_a_try(what: &str, tried: impl AsyncFn() -> bool) {
    for _ in 0..8 {
        if tried().await {
            return;
        }
    }
    panic!("waited in vain for: {what}");
}

async fn commits_in_an_old_generation() -> bool {
    let (mock, mut config) = mock();
    config.session_timeout = Duration::from_secs(20);
    let log = open(&config).await;
    append(&log, 10).await;
    let (mut first, _second, stays) = in_a_rebalance(&log).await;
    let old = RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[old, old]);
    let is_committed = commits(first.as_mut(), stays).await;
    let lags = log.lag("g").await.unwrap();
    assert!(!is_committed || lags[stays as usize].committed == 1);
    is_committed
}

async fn refused_and_assigned_again() -> bool {
    let (mock, mut config) = mock();
    config.session_timeout = Duration::from_secs(6);
    let log = open(&config).await;
    let (mut first, mut second, stays) = in_a_rebalance(&log).await;
    // A proof of membership that is fresh: it is not asked for another one.
    if !commits(first.as_mut(), stays).await {
        return false;
    }
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[unknown]);
    match first.commit(stays, 2).await {
        Err(LogError::NotAssigned(at)) if at == stays => {}
        Err(error) if error.is_retryable() => return false,
        answer => panic!("{answer:?}"),
    }
    let lost = first.next(fetch()).await.unwrap();
    assert!(
        matches!(&lost, Delivery::Lost(lost) if lost.contains(&stays)),
        "{lost:?}"
    );
    in_time("Assigned again, to either", async {
        let assigned = |delivery: &Delivery| matches!(delivery, Delivery::Assigned(all) if all.iter().any(|at| at.partition == stays));
        loop {
            let (one, two) = futures::join!(first.next(fetch()), second.next(fetch()));
            if assigned(&one.unwrap()) || assigned(&two.unwrap()) {
                break;
            }
        }
    })
    .await;
    true
}

/// Commits 1, or finds that the member has lost the partition.
async fn commits(member: &mut dyn Member, partition: u32) -> bool {
    in_time("a commit", async {
        loop {
            match member.commit(partition, 1).await {
                Ok(()) => return true,
                Err(LogError::NotAssigned(_)) => return false,
                Err(failed) => assert!(failed.is_retryable(), "{failed}"),
            }
        }
    })
    .await
}
