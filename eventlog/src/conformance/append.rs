//! Checks of appending: order, durability, bounds, closing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Place, Reader, Subject, in_time, place, record};
use crate::{LogError, Position};

pub(super) async fn all(subject: &dyn Subject) {
    records_come_back_byte_for_byte(&*place(subject, 1).await).await;
    one_key_is_one_partition_in_order_l2(&*place(subject, 4).await).await;
    offsets_grow_strictly_with_many_appenders(&*place(subject, 3).await).await;
    appended_records_are_there_after_a_restart_l1(&*place(subject, 4).await).await;
    a_dropped_append_harms_nobody(&*place(subject, 1).await).await;
    a_closed_log_refuses_appends_and_keeps_what_was_in_flight(&*place(subject, 2).await).await;
    if let Some(place) = subject.place(1, Some(256 << 10)).await {
        a_full_log_says_so_at_once_and_takes_more_after_commits_x1(&*place).await;
    }
}

async fn records_come_back_byte_for_byte(place: &dyn Place) {
    let log = place.open().await;
    let mut sent = record("project/app", "{\"events\":[]}");
    let odd = bytes::Bytes::from_static(b"\x00\xff");
    sent.headers.push(("z-bytes".to_owned(), odd));
    let empty = crate::Record {
        key: bytes::Bytes::from_static(b"k"),
        headers: Vec::new(),
        payload: bytes::Bytes::new(),
    };
    let first = log.append(sent.clone()).await.expect("append");
    let second = log.append(empty.clone()).await.expect("append");
    let mut reader = Reader::join(&*log, "g").await;
    let got = reader.read(2).await;
    assert_eq!((got[0].position, &got[0].record), (first, &sent));
    assert_eq!((got[1].position, &got[1].record), (second, &empty));
}

async fn one_key_is_one_partition_in_order_l2(place: &dyn Place) {
    let log = place.open().await;
    let mut last: BTreeMap<String, Position> = BTreeMap::new();
    for i in 0..60 {
        let key = format!("app-{}", i % 6);
        let at = log.append(record(&key, &format!("{key}:{i:03}"))).await;
        let at = at.expect("append");
        assert!(at.partition < log.partitions());
        if let Some(before) = last.insert(key, at) {
            assert_eq!(before.partition, at.partition);
            assert!(before.offset < at.offset);
        }
    }
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(60).await;
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for payload in reader.payloads() {
        let key = payload.split(':').next().unwrap_or_default().to_owned();
        by_key.entry(key).or_default().push(payload);
    }
    assert_eq!(by_key.len(), 6);
    for payloads in by_key.values() {
        assert_eq!(payloads.len(), 10);
        assert!(payloads.is_sorted(), "{payloads:?}");
    }
}

async fn offsets_grow_strictly_with_many_appenders(place: &dyn Place) {
    let log = place.open().await;
    let mut tasks = Vec::new();
    for appender in 0..8 {
        let log = Arc::clone(&log);
        tasks.push(tokio::spawn(async move {
            let mut positions = Vec::new();
            for i in 0..25 {
                let record = record(&format!("app-{appender}"), &format!("{appender}-{i}"));
                positions.push(log.append(record).await.expect("append"));
            }
            positions
        }));
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        let positions = task.await.expect("appender");
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        all.extend(positions);
    }
    assert_eq!(all.len(), 200, "every record has a position of its own");
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(200).await;
    let read: BTreeSet<Position> = reader.got.iter().map(|stored| stored.position).collect();
    assert_eq!(read, all);
}

async fn appended_records_are_there_after_a_restart_l1(place: &dyn Place) {
    let mut sent = BTreeMap::new();
    for round in 0..3 {
        let log = place.open().await;
        for i in 0..10 {
            let payload = format!("{round}-{i}");
            let at = log.append(record(&format!("app-{i}"), &payload)).await;
            let before = sent.insert(at.expect("append"), payload);
            assert_eq!(before, None, "an offset was given twice");
        }
    }
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(30).await;
    let texts = reader.payloads();
    let got: BTreeMap<Position, String> = reader
        .got
        .iter()
        .map(|stored| stored.position)
        .zip(texts)
        .collect();
    assert_eq!(got, sent);
}

async fn a_dropped_append_harms_nobody(place: &dyn Place) {
    let log = place.open().await;
    for i in 0..20 {
        let mut append = log.append(record("app", &format!("dropped-{i}")));
        // Polled once, so it may be in flight; then dropped.
        let _ = futures::poll!(&mut append);
        drop(append);
        let kept = log.append(record("app", &format!("kept-{i}"))).await;
        kept.expect("append");
    }
    let mut reader = Reader::join(&*log, "g").await;
    let kept = |reader: &Reader| {
        let payloads = reader.payloads();
        let kept = payloads.into_iter().filter(|p| p.starts_with("kept"));
        kept.collect::<Vec<_>>()
    };
    in_time("all that was kept", async {
        while kept(&reader).len() < 20 {
            reader.step().await;
        }
    })
    .await;
    let expected: Vec<String> = (0..20).map(|i| format!("kept-{i}")).collect();
    assert_eq!(kept(&reader), expected);
}

async fn a_closed_log_refuses_appends_and_keeps_what_was_in_flight(place: &dyn Place) {
    let log = place.open().await;
    let appends = (0..10).map(|i| log.append(record(&format!("app-{i}"), "in flight")));
    let (answers, ()) = futures::join!(futures::future::join_all(appends), log.close());
    let kept = answers.iter().filter(|answer| answer.is_ok()).count();
    for answer in answers {
        if let Err(error) = answer {
            assert!(matches!(error, LogError::Closed), "{error}");
        }
    }
    let refused = log.append(record("app", "late")).await;
    assert!(matches!(refused, Err(LogError::Closed)), "{refused:?}");
    drop(log);
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(kept).await;
    log.append(record("app", "open again")).await.expect("open");
}

async fn a_full_log_says_so_at_once_and_takes_more_after_commits_x1(place: &dyn Place) {
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    let payload = "x".repeat(8000);
    let mut kept = 0;
    for _ in 0..3 {
        let error = loop {
            assert!(kept < 1000, "the bound is 256 KiB");
            match in_time("an answer", log.append(record("app", &payload))).await {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LogError::Full(_)), "{error}");
        assert!(error.is_retryable());
        reader.read(kept).await;
        reader.commit_all().await;
        in_time("room after the commits", async {
            loop {
                match log.append(record("app", &payload)).await {
                    Ok(_) => break,
                    Err(LogError::Full(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await;
        kept += 1;
    }
}
