//! Partitions that are added while the group is in the middle of a rebalance.

use std::time::{Duration, Instant};

use eventlog::conformance::broker::Cluster;
use eventlog::{Delivery, Log};

use super::membership::Owner;
use super::{config, in_time, open};

/// Longer than a client of the library waits between two looks at the topic.
const LOOKED: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_added_while_a_revocation_waits_for_its_owner_leave_no_partition_without_one() {
    let cluster = Cluster::shared();
    let config = config(&cluster.bootstrap(), 4);
    let logs = [
        open(&config).await,
        open(&config).await,
        open(&config).await,
    ];
    let mut busy = Owner::join(&logs[0]).await;
    busy.own(4).await;
    let mut second = Owner::join(&logs[1]).await;
    in_time("a revocation", async {
        let is_revoked = |told: &Delivery| matches!(told, Delivery::Revoked(_));
        while !busy.told.iter().any(is_revoked) {
            busy.step().await.unwrap();
            second.step().await.unwrap();
        }
    })
    .await;
    cluster.grow(logs[0].topic(), 6).await;
    // As long as a slow step: the owner comes back after every client could see the new partitions.
    let until = Instant::now() + LOOKED;
    while Instant::now() < until {
        busy.lease().await;
        second.step().await.unwrap();
    }
    let mut third = Owner::join(&logs[2]).await;
    in_time("a share each", async {
        let shares = |owners: &[&mut Owner]| owners.iter().all(|owner| owner.own.len() == 2);
        while !shares(&[&mut busy, &mut second, &mut third]) {
            busy.step().await.unwrap();
            second.step().await.unwrap();
            third.step().await.unwrap();
        }
    })
    .await;
    let all = busy.own.iter().chain(&second.own).chain(&third.own);
    assert_eq!(all.count(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_owns_nothing_gets_a_share_of_added_partitions() {
    let cluster = Cluster::shared();
    let config = config(&cluster.bootstrap(), 1);
    let logs = [open(&config).await, open(&config).await];
    let mut owner = Owner::join(&logs[0]).await;
    owner.own(1).await;
    let mut idle = Owner::join(&logs[1]).await;
    // It joins, and is given nothing.
    for _ in 0..60 {
        owner.step().await.unwrap();
        idle.step().await.unwrap();
    }
    assert!(idle.own.is_empty());
    cluster.grow(logs[0].topic(), 2).await;
    in_time("a share each", async {
        while (owner.own.len(), idle.own.len()) != (1, 1) {
            owner.step().await.unwrap();
            idle.step().await.unwrap();
        }
    })
    .await;
}
