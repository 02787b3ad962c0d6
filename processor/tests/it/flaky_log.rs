//! A log whose members fail once after each delivery of records, as a broker's client does when its broker dies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use eventlog::{
    Bounds, Delivery, Fetch, Inventory, Lag, Lease, Log, LogError, Member, MemoryLog, Position,
    Reader, Record,
};
use processor::{Gate, Metrics, Parts, Processor, ProcessorConfig};
use tokio::sync::watch;

use crate::memory_tables::MemoryTables;
use crate::worker::{event, record};

struct FlakyLog(MemoryLog);

struct FlakyMember {
    member: Box<dyn Member>,
    fails: bool,
}

#[async_trait]
impl Log for FlakyLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        self.0.append(record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        self.0.append_to(partition, record).await
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        let member = self.0.join(group).await?;
        Ok(Box::new(FlakyMember {
            member,
            fails: false,
        }))
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.0.lag(group).await
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        self.0.reader(from).await
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        self.0.bounds().await
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        self.0.inventory().await
    }

    fn partitions(&self) -> u32 {
        self.0.partitions()
    }

    fn topic(&self) -> &str {
        self.0.topic()
    }

    fn max_record_bytes(&self) -> usize {
        self.0.max_record_bytes()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[async_trait]
impl Member for FlakyMember {
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError> {
        if std::mem::take(&mut self.fails) {
            return Err(LogError::Unavailable("ordered by a test".to_owned()));
        }
        // One at a time, so that each record is followed by a failure.
        let one = Fetch {
            max_bytes: 1,
            ..fetch
        };
        let delivery = self.member.next(one).await?;
        self.fails = matches!(delivery, Delivery::Records(_));
        Ok(delivery)
    }

    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError> {
        self.member.commit(partition, next_offset).await
    }

    async fn lease(&mut self) -> Result<Lease, LogError> {
        self.member.lease().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_hand_outlive_a_failure_of_the_next_read_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    for run in 0..20 {
        log.append(record(&[event(run)])).await.unwrap();
    }
    let processor = Processor::new(
        ProcessorConfig {
            workers: 1,
            batch_wait: Duration::from_millis(50),
            retry_pause_max: Duration::from_millis(5),
            ..ProcessorConfig::default()
        },
        Parts {
            log: Arc::new(FlakyLog(log.clone())),
            dead_letters: Arc::new(MemoryLog::new(1)),
            tables: Arc::new(tables.clone()),
            prices: watch::channel(Arc::default()).1,
            gate: Gate::default(),
        },
        Metrics::new(&prometheus::Registry::new()).unwrap(),
    );
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(processor.run(stopped));
    let drained = async {
        while log.committed(processor::GROUP) != [20] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), drained)
        .await
        .unwrap();
    assert_eq!(
        (tables.event_count(), tables.visible_runs().len()),
        (20, 20)
    );
    stop.send_replace(true);
    task.await.unwrap().unwrap();
}
