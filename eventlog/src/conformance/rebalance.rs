//! Checks of members that join and leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;

use super::{Place, Reader, Subject, in_time, place, record};
use crate::{Delivery, Log, LogError, Position};

pub(super) async fn all(subject: &dyn Subject) {
    a_second_member_takes_over_half(&*place(subject, 4).await).await;
    a_revoked_member_may_commit_until_it_comes_back(&*place(subject, 2).await).await;
    three_members_share_and_nothing_is_lost(&*place(subject, 6).await).await;
    partitions_added_while_a_revocation_waits_are_shared_out(&*place(subject, 4).await).await;
    partitions_added_while_a_member_joins_are_shared_out(&*place(subject, 4).await).await;
    what_a_member_was_asked_for_when_it_ended_gets_an_owner(&*place(subject, 4).await).await;
    a_member_that_ends_with_a_commit_in_flight_keeps_nothing(&*place(subject, 4).await).await;
}

async fn append(log: &dyn Log, range: std::ops::Range<usize>) {
    for i in range {
        let done = log
            .append(record(&format!("app-{}", i % 24), &format!("{i:04}")))
            .await;
        done.expect("append");
    }
}

/// Steps all members in turn until each owns this many partitions.
async fn settle(readers: &mut [&mut Reader], counts: &[usize]) {
    in_time(&format!("a share of {counts:?}"), async {
        loop {
            for reader in readers.iter_mut() {
                reader.step().await;
            }
            no_partition_is_at_two_members(readers);
            let settled = readers.iter().all(|reader| reader.revoked.is_empty());
            let mut shares: Vec<usize> = readers.iter().map(|r| r.own.len()).collect();
            shares.sort_unstable();
            if settled && shares == counts {
                break;
            }
        }
    })
    .await;
}

/// Steps both until the first is asked for partitions; it has not come back then.
async fn revocation(one: &mut Reader, two: &mut Reader) -> Vec<u32> {
    in_time("a revocation", async {
        loop {
            let (delivery, _) = futures::join!(one.step(), two.step());
            if let Delivery::Revoked(partitions) = delivery {
                break partitions;
            }
        }
    })
    .await
}

fn no_partition_is_at_two_members(readers: &[&mut Reader]) {
    let mut seen = BTreeSet::new();
    for partition in readers.iter().flat_map(|reader| reader.own.keys()) {
        assert!(seen.insert(*partition), "{partition} is at two members");
    }
}

async fn a_second_member_takes_over_half(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..48).await;
    let mut one = Reader::join(&*log, "g").await;
    one.read(48).await;
    one.commit_all().await;
    let kept: BTreeSet<u32> = one.own.keys().copied().collect();
    assert_eq!(kept.len(), 4);

    let mut two = Reader::join(&*log, "g").await;
    settle(&mut [&mut one, &mut two], &[2, 2]).await;
    append(&*log, 48..96).await;
    in_time("the new records at both", async {
        while one.got.len() + two.got.len() < 96 {
            one.step().await;
            two.step().await;
        }
    })
    .await;
    // Everything was committed before the rebalance, so nothing is delivered twice.
    let all: BTreeSet<Position> = one.got.iter().chain(&two.got).map(|s| s.position).collect();
    assert_eq!(all.len(), 96);
    assert!(!two.got.is_empty());

    drop(one);
    two.own(4).await;
}

async fn a_revoked_member_may_commit_until_it_comes_back(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..24).await;
    let mut one = Reader::join(&*log, "g").await;
    one.read(24).await;
    let mut two = Reader::join(&*log, "g").await;
    let revoked = revocation(&mut one, &mut two).await;
    assert_eq!(revoked.len(), 1);
    let partition = revoked[0];
    assert!(!two.own.contains_key(&partition), "not given away yet");
    let next = one.own[&partition];
    let done = one.member.commit(partition, next).await;
    done.expect("a revoked partition may be committed");

    settle(&mut [&mut one, &mut two], &[1, 1]).await;
    assert!(two.own.contains_key(&partition));
    let refused = one.member.commit(partition, next).await;
    assert!(
        matches!(refused, Err(LogError::NotAssigned(p)) if p == partition),
        "{refused:?}"
    );
    let twice = two.got.iter().any(|s| s.position.partition == partition);
    assert!(!twice, "it was committed, so it does not come again");
}

async fn three_members_share_and_nothing_is_lost(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..60).await;
    let mut one = Reader::join(&*log, "g").await;
    let mut two = Reader::join(&*log, "g").await;
    let mut three = Reader::join(&*log, "g").await;
    settle(&mut [&mut one, &mut two, &mut three], &[2, 2, 2]).await;
    append(&*log, 60..120).await;
    drop(two);
    settle(&mut [&mut one, &mut three], &[3, 3]).await;
    append(&*log, 120..180).await;
    let mut four = Reader::join(&*log, "g").await;
    settle(&mut [&mut one, &mut three, &mut four], &[2, 2, 2]).await;
    // Uncommitted records are delivered to the current owners again.
    consume(&*log, &mut [&mut one, &mut three, &mut four]).await;
}

/// Steps all members until they have everything, and commits it: no partition is left out.
async fn consume(log: &dyn Log, readers: &mut [&mut Reader]) {
    let ends: Vec<u64> = {
        let lag = log.lag("g").await.expect("lag");
        lag.iter().map(|lag| lag.end).collect()
    };
    in_time("everything to the end", async {
        loop {
            let mut done = true;
            for reader in readers.iter_mut() {
                reader.step().await;
                done &= reader
                    .own
                    .iter()
                    .all(|(partition, next)| *next >= ends[*partition as usize]);
            }
            if done {
                break;
            }
        }
    })
    .await;
    for reader in readers {
        reader.commit_all().await;
    }
    let lag = log.lag("g").await.expect("lag");
    assert!(lag.iter().all(|lag| lag.committed == lag.end), "{lag:?}");
}

/// 48 records, and a reader that owns all four partitions.
async fn with_one_owner(place: &dyn Place) -> (Arc<dyn Log>, Reader) {
    let log = place.open().await;
    append(&*log, 0..48).await;
    let mut one = Reader::join(&*log, "g").await;
    one.own(4).await;
    (log, one)
}

async fn partitions_added_while_a_revocation_waits_are_shared_out(place: &dyn Place) {
    let (log, mut one) = with_one_owner(place).await;
    let mut two = Reader::join(&*log, "g").await;
    revocation(&mut one, &mut two).await;
    if !place.grow(&*log, 6).await {
        return;
    }
    append(&*log, 48..96).await;
    let mut three = Reader::join(&*log, "g").await;
    settle(&mut [&mut one, &mut two, &mut three], &[2, 2, 2]).await;
    consume(&*log, &mut [&mut one, &mut two, &mut three]).await;
}

async fn partitions_added_while_a_member_joins_are_shared_out(place: &dyn Place) {
    let (log, mut one) = with_one_owner(place).await;
    // It has no partitions yet, and the first member does not know of it.
    let mut two = Reader::join(&*log, "g").await;
    if !place.grow(&*log, 6).await {
        return;
    }
    append(&*log, 48..96).await;
    settle(&mut [&mut one, &mut two], &[3, 3]).await;
    consume(&*log, &mut [&mut one, &mut two]).await;
}

/// Between two owners a partition belongs to no member; no end of a member may leave it so.
async fn what_a_member_was_asked_for_when_it_ended_gets_an_owner(place: &dyn Place) {
    let (log, mut one) = with_one_owner(place).await;
    let mut two = Reader::join(&*log, "g").await;
    revocation(&mut one, &mut two).await;
    drop(one);
    let mut three = Reader::join(&*log, "g").await;
    settle(&mut [&mut two, &mut three], &[2, 2]).await;
    consume(&*log, &mut [&mut two, &mut three]).await;
}

async fn a_member_that_ends_with_a_commit_in_flight_keeps_nothing(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..48).await;
    let mut one = Reader::join(&*log, "g").await;
    one.read(48).await;
    let (partition, next) = one.own.pop_first().expect("it has all partitions");
    // It waits for no answer, as one that gives up an unanswered commit.
    let _ = one.member.commit(partition, next).now_or_never();
    drop(one);
    let mut two = Reader::join(&*log, "g").await;
    two.own(4).await;
    consume(&*log, &mut [&mut two]).await;
}
