//! A log whose members fail once after each delivery of records, as a broker's client does when its broker dies, or
//! whose commits or partitions get lost once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use control::Barrier;
use eventlog::{
    Bounds, Delivery, Fetch, GroupState, Inventory, Lag, Lease, Log, LogError, Member, MemoryLog,
    Position, Reader, Record,
};
use processor::{Dependencies, Metrics, Processor, ProcessorConfig};
use tokio::sync::watch;

use crate::memory_tables::MemoryTables;
use crate::worker::{event, record};

struct FlakyLog {
    log: MemoryLog,
    fails_reads: bool,
    /// The fault of the next commit.
    next_commit: Arc<Mutex<NextCommit>>,
    /// The first member gets no partition, and no other one has it either.
    leaves_out_first: bool,
    joined: AtomicUsize,
}

impl FlakyLog {
    /// Over this log, and without a fault.
    fn new(log: &MemoryLog) -> Self {
        Self {
            log: log.clone(),
            fails_reads: false,
            next_commit: Arc::default(),
            leaves_out_first: false,
            joined: AtomicUsize::new(0),
        }
    }
}

#[derive(Clone, Copy, Default)]
enum NextCommit {
    #[default]
    Works,
    /// It is refused, and the member keeps its partitions.
    IsRefused,
    /// It has no answer.
    NeverEnds,
}

struct FlakyMember {
    member: Box<dyn Member>,
    fails_reads: bool,
    fails: bool,
    is_left_out: bool,
    next_commit: Arc<Mutex<NextCommit>>,
}

#[async_trait]
impl Log for FlakyLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        self.log.append(record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        self.log.append_to(partition, record).await
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        let member = self.log.join(group).await?;
        let is_first = self.joined.fetch_add(1, Ordering::AcqRel) == 0;
        Ok(Box::new(FlakyMember {
            member,
            fails_reads: self.fails_reads,
            fails: false,
            is_left_out: self.leaves_out_first && is_first,
            next_commit: self.next_commit.clone(),
        }))
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.log.lag(group).await
    }

    async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        let mut state = self.log.group_state(group).await?;
        if self.leaves_out_first && self.joined.load(Ordering::Acquire) <= 1 {
            state.owners.clear();
        }
        Ok(state)
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        self.log.reader(from).await
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        self.log.bounds().await
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        self.log.inventory().await
    }

    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn topic(&self) -> &str {
        self.log.topic()
    }

    fn max_record_bytes(&self) -> usize {
        self.log.max_record_bytes()
    }

    async fn close(&self) {
        self.log.close().await;
    }
}

#[async_trait]
impl Member for FlakyMember {
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError> {
        if std::mem::take(&mut self.fails) {
            return Err(LogError::Unavailable("ordered by a test".to_owned()));
        }
        if self.is_left_out {
            tokio::time::sleep(fetch.max_wait).await;
            return Ok(Delivery::Idle);
        }
        // One at a time, so that each record is followed by a failure.
        let one = Fetch {
            max_bytes: 1,
            ..fetch
        };
        let delivery = self.member.next(one).await?;
        self.fails = self.fails_reads && matches!(delivery, Delivery::Records(_));
        Ok(delivery)
    }

    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError> {
        let next_commit = std::mem::take(&mut *self.next_commit.lock().unwrap());
        match next_commit {
            NextCommit::Works => self.member.commit(partition, next_offset).await,
            NextCommit::IsRefused => Err(LogError::NotAssigned(partition)),
            NextCommit::NeverEnds => std::future::pending().await,
        }
    }

    async fn lease(&mut self) -> Result<Lease, LogError> {
        self.member.lease().await
    }
}

fn processor(log: FlakyLog, tables: &MemoryTables, metrics: &Metrics) -> Processor {
    Processor::new(
        ProcessorConfig {
            workers: 1,
            batch_wait: Duration::from_millis(50),
            retry_pause_max: Duration::from_millis(5),
            stalled_after: Duration::from_millis(500),
            ..ProcessorConfig::default()
        },
        Dependencies {
            log: Arc::new(log),
            dead_letters: Arc::new(MemoryLog::new(1)),
            tables: Arc::new(tables.clone()),
            prices: watch::channel(Arc::default()).1,
            barrier: Barrier::default(),
        },
        metrics.clone(),
    )
}

async fn committed(log: &MemoryLog, offset: u64) {
    let committed = async {
        while log.committed(processor::GROUP) != [offset] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), committed)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_hand_outlive_a_failure_of_the_next_read_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    for run in 0..20 {
        log.append(record(&[event(run)])).await.unwrap();
    }
    let flaky = FlakyLog {
        fails_reads: true,
        ..FlakyLog::new(&log)
    };
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    let processor = processor(flaky, &tables, &metrics);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(processor.run(stopped));
    committed(&log, 20).await;
    assert_eq!(
        (tables.event_count(), tables.visible_runs().len()),
        (20, 20)
    );
    stop.send_replace(true);
    task.await.unwrap().unwrap();
}

/// A partition with one record, in a log with a fault: it is reported, with this owner and state, until the worker has
/// joined again.
async fn stalls_until_the_worker_joins_again(
    fault: impl FnOnce(&mut FlakyLog),
    (owner, state): (&str, &str),
) -> Metrics {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    log.append(record(&[event(0)])).await.unwrap();
    let mut flaky = FlakyLog::new(&log);
    fault(&mut flaky);
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    let processor = processor(flaky, &tables, &metrics);
    let mut stalled = processor.stalled();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(processor.run(stopped));
    let reported = stalled.wait_for(|stalled| !stalled.is_empty());
    let reported = tokio::time::timeout(Duration::from_secs(60), reported).await;
    let reported = reported.unwrap().unwrap().clone();
    assert_eq!(reported.len(), 1);
    let found = (
        reported[0].partition,
        reported[0].committed,
        reported[0].lag_records,
    );
    assert_eq!(found, (0, 0, 1));
    assert_eq!(reported[0].owner, owner);
    assert_eq!(reported[0].state, state);
    committed(&log, 1).await;
    assert_eq!((tables.event_count(), metrics.stall_rejoins.get()), (1, 1));
    let gone = stalled.wait_for(Vec::is_empty);
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(metrics.stalled_partitions.get(), 0);
    stop.send_replace(true);
    task.await.unwrap().unwrap();
    metrics
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_nothing_is_committed_of_is_reported_and_its_member_joins_again_r1() {
    let fault = |log: &mut FlakyLog| *log.next_commit.lock().unwrap() = NextCommit::IsRefused;
    let found = ("worker 0 here", "waiting for records");
    let metrics = stalls_until_the_worker_joins_again(fault, found).await;
    assert_eq!(metrics.lost_steps.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_commit_never_ends_joins_again_and_processes_the_records_again_r1() {
    let fault = |log: &mut FlakyLog| *log.next_commit.lock().unwrap() = NextCommit::NeverEnds;
    let found = ("worker 0 here", "committing");
    let metrics = stalls_until_the_worker_joins_again(fault, found).await;
    assert_eq!(metrics.lost_steps.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_no_member_has_after_a_rebalance_gets_an_owner_r1() {
    let fault = |log: &mut FlakyLog| log.leaves_out_first = true;
    let metrics = stalls_until_the_worker_joins_again(fault, ("", "Stable")).await;
    assert_eq!(metrics.lost_steps.get(), 0);
}
