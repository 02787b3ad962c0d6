//! Leases, static members, and members that were cut off.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use eventlog::conformance::broker::{Cluster, Door, Options, free_ports};
use eventlog::conformance::proxy::{Network, Proxy};
use eventlog::{Delivery, Fetch, KafkaLog, Lease, Log, LogError, Member};

use super::{append, config, in_time, open};

fn fetch() -> Fetch {
    Fetch {
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(50),
    }
}

pub(super) struct Owner {
    pub(super) member: Box<dyn Member>,
    pub(super) own: BTreeSet<u32>,
    /// Deliveries other than records.
    pub(super) told: Vec<Delivery>,
    records: usize,
}

impl Owner {
    pub(super) async fn join(log: &KafkaLog) -> Owner {
        Owner {
            member: log.join("g").await.unwrap(),
            own: BTreeSet::new(),
            told: Vec::new(),
            records: 0,
        }
    }

    pub(super) async fn step(&mut self) -> Result<(), LogError> {
        let delivery = match self.member.next(fetch()).await {
            // Brokers that are away for a moment are no failure.
            Err(error) if error.is_retryable() => return Ok(()),
            other => other?,
        };
        match &delivery {
            Delivery::Assigned(positions) => {
                self.own.extend(positions.iter().map(|at| at.partition));
            }
            Delivery::Revoked(partitions) | Delivery::Lost(partitions) => {
                self.own.retain(|partition| !partitions.contains(partition));
            }
            Delivery::Records(records) => {
                self.records += records.len();
                return Ok(());
            }
            Delivery::Idle => return Ok(()),
        }
        self.told.push(delivery);
        Ok(())
    }

    pub(super) async fn own(&mut self, count: usize) {
        in_time("partitions", async {
            while self.own.len() != count {
                self.step().await.unwrap();
            }
        })
        .await;
    }

    pub(super) async fn lease(&mut self) -> Instant {
        match self.member.lease().await.unwrap() {
            Lease::Until(end) => end,
            Lease::Held => panic!("a broker gives no lease for ever"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_off_has_no_lease_when_another_has_its_partitions() {
    let port = free_ports(1)[0];
    let proxy = Proxy::to(port).await;
    let mut options = Options::new(1);
    options.doors.push(Door {
        port,
        advertised: proxy.address.port(),
    });
    let cluster = tokio::task::spawn_blocking(move || Cluster::with(&options));
    let cluster = cluster.await.unwrap();
    let through = config(&proxy.address.to_string(), 2);
    let mut beside = through.clone();
    beside.brokers = cluster.bootstrap();
    let (cut_off, other) = (open(&through).await, open(&beside).await);
    append(&other, 20).await;

    let mut zombie = Owner::join(&cut_off).await;
    zombie.own(2).await;
    in_time("records", async {
        while zombie.records < 20 {
            zombie.step().await.unwrap();
        }
    })
    .await;
    let mut end = zombie.lease().await;
    assert!(end > Instant::now());
    // A busy member asks often; now and then the broker answers.
    let busy_until = Instant::now() + through.session_timeout;
    while Instant::now() < busy_until {
        end = zombie.lease().await.max(end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.set(Network::Refused);

    let mut heir = Owner::join(&other).await;
    heir.own(2).await;
    assert!(
        Instant::now() > end,
        "the lease went on for {:?}",
        end - Instant::now()
    );
    append(&other, 1).await;
    // It was not informed yet. It has no lease, and its commits do not count.
    let lease = zombie.member.lease().await;
    assert!(lease.is_err(), "{lease:?}");
    let commit = zombie.member.commit(0, 1).await;
    assert!(commit.is_err(), "{commit:?}");

    proxy.set(Network::Whole);
    in_time("word that they are lost", async {
        while zombie.own.len() == 2 {
            zombie.step().await.unwrap();
            heir.step().await.unwrap();
        }
    })
    .await;
    let lost = zombie
        .told
        .iter()
        .any(|told| matches!(told, Delivery::Lost(all) if all.len() == 2));
    assert!(lost, "{:?}", zombie.told);
    in_time("a share each", async {
        while (zombie.own.len(), heir.own.len()) != (1, 1) {
            zombie.step().await.unwrap();
            heir.step().await.unwrap();
        }
    })
    .await;
    assert!(zombie.lease().await > Instant::now());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_keep_a_lease_without_asking_the_broker() {
    let log = open(&config(&Cluster::shared().bootstrap(), 1)).await;
    append(&log, 50).await;
    let mut owner = Owner::join(&log).await;
    owner.own(1).await;
    let first = owner.lease().await;
    for offset in 1..=50 {
        owner.member.commit(0, offset).await.unwrap();
        let before = Instant::now();
        assert!(owner.lease().await > before);
    }
    assert!(owner.lease().await > first, "the commits have renewed it");
}

async fn a_share_each(one: &mut Owner, other: &mut Owner) {
    in_time("a share each", async {
        while (one.own.len(), other.own.len()) != (2, 2) {
            one.step().await.unwrap();
            other.step().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_static_member_comes_back_to_its_partitions_without_a_rebalance() {
    let mut config = config(&Cluster::shared().bootstrap(), 4);
    config.session_timeout = Duration::from_secs(20);
    config.instance_id = Some("pod-0".to_owned());
    let first = open(&config).await;
    let mut stays = Owner::join(&first).await;
    config.instance_id = Some("pod-1".to_owned());
    let second = open(&config).await;
    let mut goes = Owner::join(&second).await;
    a_share_each(&mut stays, &mut goes).await;
    stays.told.clear();
    let before = goes.own.clone();
    drop(goes);
    second.close().await;
    let third = open(&config).await;
    let mut back = Owner::join(&third).await;
    back.own(2).await;
    assert_eq!(back.own, before);
    stays.step().await.unwrap();
    assert!(stays.told.is_empty(), "{:?}", stays.told);

    // A second process with the same name: the first one gets an error that asks an operator to change that.
    let fourth = open(&config).await;
    let mut twin = Owner::join(&fourth).await;
    twin.own(2).await;
    let error = in_time("word of the twin", async {
        loop {
            if let Err(error) = back.step().await {
                break error;
            }
        }
    })
    .await;
    assert!(matches!(error, LogError::Settings(_)), "{error}");
    assert!(back.own.is_empty());
    assert!(back.member.commit(0, 1).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_kept_alive_by_its_lease_goes_on_where_it_was() {
    let log = open(&config(&Cluster::shared().bootstrap(), 2)).await;
    append(&log, 100).await;
    let mut owner = Owner::join(&log).await;
    owner.own(2).await;
    let one = Fetch {
        max_bytes: 1,
        max_wait: Duration::from_millis(50),
    };
    let mut seen = BTreeSet::new();
    in_time("all records, each once", async {
        while seen.len() < 100 {
            if let Delivery::Records(records) = owner.member.next(one).await.unwrap() {
                for stored in records {
                    let at = stored.position;
                    assert!(seen.insert(at), "{at:?} twice");
                }
            }
            if seen.len() % 40 == 20 {
                // As long as a slow step: the lease has to be renewed, and the library is polled for events only.
                tokio::time::sleep(Duration::from_millis(1500)).await;
                owner.lease().await;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_ends_does_not_keep_its_partitions_until_its_session_ends() {
    let mut config = config(&Cluster::shared().bootstrap(), 4);
    // Longer than this test waits.
    config.session_timeout = Duration::from_secs(300);
    let first = open(&config).await;
    let mut stays = Owner::join(&first).await;
    for _ in 0..4 {
        let second = open(&config).await;
        let mut goes = Owner::join(&second).await;
        a_share_each(&mut stays, &mut goes).await;
        drop(goes);
        stays.own(4).await;
    }
}
