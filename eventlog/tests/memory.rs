//! The faults of the memory log: each is what it says, and only that.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use eventlog::{Delivery, Fault, Fetch, Log, LogError, Member, MemoryLog, Record};

fn record(payload: &'static str) -> Record {
    Record {
        key: Bytes::from_static(b"project/app"),
        headers: Vec::new(),
        payload: Bytes::from_static(payload.as_bytes()),
    }
}

async fn next(member: &mut Box<dyn Member>) -> Delivery {
    let fetch = Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::ZERO,
    };
    member.next(fetch).await.unwrap()
}

fn payloads(log: &MemoryLog) -> Vec<Bytes> {
    let contents = log.contents();
    contents.into_iter().map(|s| s.record.payload).collect()
}

#[tokio::test]
async fn an_append_fails_as_ordered_and_only_once() {
    let log = MemoryLog::new(1);
    log.fail_next_append(Fault::Full);
    log.fail_next_append(Fault::Unavailable);
    log.fail_next_append(Fault::UnavailableYetDone);
    assert!(matches!(
        log.append(record("a")).await,
        Err(LogError::Full(_))
    ));
    let away = log.append(record("b")).await;
    assert!(matches!(away, Err(LogError::Unavailable(_))));
    let unsure = log.append(record("c")).await;
    assert!(matches!(unsure, Err(LogError::Unavailable(_))));
    log.append(record("d")).await.unwrap();
    assert_eq!(payloads(&log), ["c", "d"]);
}

#[tokio::test]
async fn held_appends_wait_until_they_are_released() {
    let log = MemoryLog::new(1);
    log.hold_appends();
    let mut append = log.append(record("a"));
    assert!(futures::poll!(&mut append).is_pending());
    assert!(payloads(&log).is_empty());
    log.release_appends();
    append.await.unwrap();
    assert_eq!(payloads(&log), ["a"]);
}

#[tokio::test]
async fn lost_partitions_are_told_and_not_committed() {
    let log = MemoryLog::new(1);
    log.append(record("a")).await.unwrap();
    let mut member = log.join("g").await.unwrap();
    assert!(matches!(next(&mut member).await, Delivery::Assigned(_)));
    assert!(matches!(next(&mut member).await, Delivery::Records(_)));
    log.lose_partitions("g");
    let refused = member.commit(0, 1).await;
    assert!(matches!(refused, Err(LogError::NotAssigned(0))));
    assert!(matches!(next(&mut member).await, Delivery::Lost(p) if p == [0]));
    assert!(matches!(next(&mut member).await, Delivery::Assigned(_)));
    assert!(matches!(next(&mut member).await, Delivery::Records(r) if r.len() == 1));
}

#[tokio::test]
async fn what_is_not_committed_is_delivered_again_on_demand() {
    let log = MemoryLog::new(1);
    for payload in ["a", "b"] {
        log.append(record(payload)).await.unwrap();
    }
    let mut member = log.join("g").await.unwrap();
    next(&mut member).await;
    assert!(matches!(next(&mut member).await, Delivery::Records(r) if r.len() == 2));
    log.fail_next_commit(Fault::Unavailable);
    assert!(member.commit(0, 2).await.is_err());
    member.commit(0, 1).await.unwrap();
    assert_eq!(log.committed("g"), [1]);
    log.redeliver();
    let Delivery::Records(again) = next(&mut member).await else {
        panic!("records come again");
    };
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].record.payload, "b");
}

#[tokio::test]
async fn a_read_fails_as_ordered() {
    let log = MemoryLog::new(1);
    log.append(record("a")).await.unwrap();
    let mut member = log.join("g").await.unwrap();
    next(&mut member).await;
    log.fail_next_read(Fault::Damaged);
    let fetch = Fetch {
        max_bytes: 1,
        max_wait: Duration::ZERO,
    };
    let failed = member.next(fetch).await;
    assert!(matches!(failed, Err(LogError::Damaged(_))));
    assert!(matches!(next(&mut member).await, Delivery::Records(_)));
}
