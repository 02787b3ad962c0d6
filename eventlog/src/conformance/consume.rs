//! Checks of reading and committing with one member.

use std::time::Duration;

use super::{Place, Reader, Subject, fetch, in_time, place, record};
use crate::{Delivery, Fetch, Log, LogError};

pub(super) async fn all(subject: &dyn Subject) {
    a_new_group_begins_at_the_oldest_record(&*place(subject, 2).await).await;
    a_group_resumes_at_its_commit(&*place(subject, 1).await).await;
    what_is_not_committed_comes_again(&*place(subject, 2).await).await;
    commits_never_move_backwards_p1(&*place(subject, 1).await).await;
    groups_are_independent(&*place(subject, 1).await).await;
    lag_is_the_distance_to_the_end(&*place(subject, 2).await).await;
    a_fetch_is_bounded_but_never_empty(&*place(subject, 1).await).await;
    an_idle_member_is_told_so_and_woken_by_an_append(&*place(subject, 1).await).await;
    a_dropped_next_loses_no_record(&*place(subject, 2).await).await;
    commits_survive_a_restart(&*place(subject, 3).await).await;
    a_partition_of_another_is_not_committed(&*place(subject, 1).await).await;
}

async fn append(log: &dyn Log, payloads: std::ops::Range<usize>) {
    for i in payloads {
        let done = log
            .append(record(&format!("app-{}", i % 5), &format!("{i:04}")))
            .await;
        done.expect("append");
    }
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("{i:04}")).collect()
}

fn sorted(mut payloads: Vec<String>) -> Vec<String> {
    payloads.sort_unstable();
    payloads
}

async fn a_new_group_begins_at_the_oldest_record(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..20).await;
    let mut reader = Reader::join(&*log, "late").await;
    reader.read(20).await;
    assert_eq!(sorted(reader.payloads()), numbers(0..20));
}

async fn a_group_resumes_at_its_commit(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..10).await;
    let mut reader = Reader::join(&*log, "g").await;
    let next = reader.read(10).await[3].position.offset + 1;
    reader.member.commit(0, next).await.expect("commit");
    drop(reader);
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(6).await;
    assert_eq!(reader.payloads(), numbers(4..10));
}

async fn what_is_not_committed_comes_again(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..10).await;
    for _ in 0..2 {
        let mut reader = Reader::join(&*log, "g").await;
        reader.read(10).await;
        assert_eq!(sorted(reader.payloads()), numbers(0..10));
    }
}

async fn commits_never_move_backwards_p1(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..10).await;
    let mut reader = Reader::join(&*log, "g").await;
    let offsets: Vec<u64> = {
        let got = reader.read(10).await;
        got.iter().map(|stored| stored.position.offset).collect()
    };
    reader.member.commit(0, offsets[7]).await.expect("commit");
    // Whether this is an error is the implementation's choice; that the offset does not move is not.
    let _ = reader.member.commit(0, offsets[2]).await;
    let lag = log.lag("g").await.expect("lag");
    assert_eq!(lag[0].committed, offsets[7]);
    drop(reader);
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(3).await;
    assert_eq!(reader.payloads(), numbers(7..10));
}

async fn groups_are_independent(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..5).await;
    let mut one = Reader::join(&*log, "one").await;
    let mut two = Reader::join(&*log, "two").await;
    one.read(5).await;
    one.commit_all().await;
    two.read(5).await;
    assert_eq!(one.payloads(), numbers(0..5));
    assert_eq!(two.payloads(), numbers(0..5));
    let lag = log.lag("two").await.expect("lag");
    assert_ne!(lag[0].committed, lag[0].end);
}

async fn lag_is_the_distance_to_the_end(place: &dyn Place) {
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    append(&*log, 0..12).await;
    reader.read(12).await;
    let behind = |lag: &[crate::Lag]| lag.iter().map(|l| l.end - l.committed).sum::<u64>();
    let lag = log.lag("g").await.expect("lag");
    assert_eq!(lag.len(), 2);
    assert!(behind(&lag) >= 12);
    reader.commit_all().await;
    let lag = log.lag("g").await.expect("lag");
    assert_eq!(behind(&lag), 0, "{lag:?}");
}

async fn a_fetch_is_bounded_but_never_empty(place: &dyn Place) {
    let log = place.open().await;
    for _ in 0..10 {
        let done = log.append(record("app", &"x".repeat(1000))).await;
        done.expect("append");
    }
    let mut member = log.join("g").await.expect("join");
    for (max_bytes, most) in [(1, 1), (2500, 3), (usize::MAX, 10)] {
        let fetch = Fetch {
            max_bytes,
            max_wait: Duration::from_millis(50),
        };
        let count = in_time("records", async {
            loop {
                if let Delivery::Records(records) = member.next(fetch).await.expect("next") {
                    break records.len();
                }
            }
        })
        .await;
        assert!((1..=most).contains(&count), "{count} in {max_bytes} bytes");
    }
}

async fn an_idle_member_is_told_so_and_woken_by_an_append(place: &dyn Place) {
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    in_time("idle", async {
        while !matches!(reader.step().await, Delivery::Idle) {}
    })
    .await;
    reader.own(1).await;
    let patient = Fetch {
        max_wait: super::PATIENCE * 2,
        ..fetch()
    };
    let (delivery, ()) = in_time("the appended record", async {
        futures::join!(reader.member.next(patient), append(&*log, 0..1))
    })
    .await;
    assert!(matches!(delivery, Ok(Delivery::Records(_))), "{delivery:?}");
}

async fn a_dropped_next_loses_no_record(place: &dyn Place) {
    let log = place.open().await;
    let mut reader = Reader::join(&*log, "g").await;
    reader.own(2).await;
    for i in 0..50 {
        append(&*log, i..i + 1).await;
        let mut next = reader.member.next(fetch());
        // Polled once and dropped, unless it is ready at once: then it counts.
        if let std::task::Poll::Ready(Ok(Delivery::Records(records))) = futures::poll!(&mut next) {
            drop(next);
            for stored in records {
                let at = stored.position;
                reader.own.insert(at.partition, at.offset + 1);
                reader.got.push(stored);
            }
        }
    }
    reader.read(50).await;
    assert_eq!(sorted(reader.payloads()), numbers(0..50));
}

async fn commits_survive_a_restart(place: &dyn Place) {
    for round in 0..3 {
        let log = place.open().await;
        append(&*log, round * 10..round * 10 + 10).await;
        let mut reader = Reader::join(&*log, "g").await;
        reader.read(10).await;
        assert_eq!(
            sorted(reader.payloads()),
            numbers(round * 10..round * 10 + 10)
        );
        reader.commit_all().await;
    }
}

async fn a_partition_of_another_is_not_committed(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..3).await;
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(3).await;
    let refused = reader.member.commit(7, 1).await;
    assert!(
        matches!(refused, Err(LogError::NotAssigned(7))),
        "{refused:?}"
    );
}
