//! What a scan of the platform reads besides the tables: the log and the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use eventlog::Log;
use query::{DiskReport, Infrastructure, LogReport};
use tokio::sync::Semaphore;

use super::Running;
use super::topics::Topics;

/// Time-out of the processor's lag: the report is complete without it.
const LAG_WITHIN: Duration = Duration::from_secs(3);

/// Reads the state of this process's log and disk.
pub(super) struct Beside {
    events: Arc<dyn Log>,
    kind: Kind,
    data_dir: Option<PathBuf>,
    /// One query of the disk at a time, so that one that hangs holds one thread (X1).
    disk_turn: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kafka,
    Embedded,
}

impl Beside {
    pub(super) fn new(running: &Running, topics: &Topics) -> Self {
        let data_dir = running.config.server.data_dir.clone();
        Self {
            events: topics.events.clone(),
            kind: match running.config.kafka {
                Some(_) => Kind::Kafka,
                None => Kind::Embedded,
            },
            data_dir: running.role.has_folder().then_some(data_dir),
            disk_turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Unprocessed records; `None` if the log does not answer in time.
    async fn lag(&self) -> Option<u64> {
        let lag = tokio::time::timeout(LAG_WITHIN, self.events.lag(processor::GROUP)).await;
        match lag.ok()? {
            Ok(lag) => Some(
                lag.iter()
                    .map(|lag| lag.end.saturating_sub(lag.committed))
                    .sum(),
            ),
            Err(error) => {
                tracing::warn!(error.message = %error, "the lag of the processor is unknown");
                None
            }
        }
    }
}

#[async_trait]
impl Infrastructure for Beside {
    async fn log(&self) -> Result<LogReport, String> {
        let (inventory, lag_records) = tokio::join!(self.events.inventory(), self.lag());
        let inventory = inventory.map_err(|error| {
            tracing::warn!(error.message = %error, "the state of the event log is unknown");
            match error.is_retryable() {
                true => "it does not answer".to_owned(),
                false => "it rejected the query".to_owned(),
            }
        })?;
        Ok(LogReport {
            kind: self.log_kind(),
            version: match self.kind {
                // Brokers do not report their version to clients.
                Kind::Kafka => "unknown".to_owned(),
                Kind::Embedded => env!("CARGO_PKG_VERSION").to_owned(),
            },
            brokers: inventory.brokers.into(),
            topics: match self.kind {
                Kind::Kafka => inventory.topics.into(),
                // The dead letters are a separate log.
                Kind::Embedded => u64::from(inventory.topics) + 1,
            },
            lag_records,
            bytes: inventory.bytes,
        })
    }

    fn log_kind(&self) -> &'static str {
        match self.kind {
            Kind::Kafka => "kafka",
            Kind::Embedded => "embedded",
        }
    }

    async fn disk(&self) -> Option<DiskReport> {
        let folder = self.data_dir.clone()?;
        let turn = self.disk_turn.clone().try_acquire_owned().ok()?;
        // A network disk that is away blocks the caller for minutes.
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            disk_of(&folder)
        });
        asked.await.ok().flatten()
    }
}

/// The disk of a folder.
fn disk_of(folder: &Path) -> Option<DiskReport> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(DiskReport {
        // Without the blocks that the system reserves for root.
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use eventlog::{MemoryLog, Record};

    use super::*;

    fn beside(log: MemoryLog) -> Beside {
        Beside {
            events: Arc::new(log),
            kind: Kind::Embedded,
            data_dir: None,
            disk_turn: Arc::new(Semaphore::new(1)),
        }
    }

    #[tokio::test]
    async fn what_waits_in_the_log_is_counted() {
        let log = MemoryLog::new(2);
        for key in ["a", "b", "c"] {
            let record = Record {
                key: key.into(),
                headers: Vec::new(),
                payload: "p".into(),
            };
            log.append(record).await.unwrap();
        }
        let report = beside(log).log().await.unwrap();
        assert_eq!(report.lag_records, Some(3));
        assert_eq!(
            (report.kind, report.brokers, report.topics),
            ("embedded", 1, 2)
        );
    }

    #[tokio::test]
    async fn the_disk_of_a_folder_is_known_and_that_of_no_folder_is_not() {
        let disk = disk_of(Path::new("/")).unwrap();
        assert!(disk.total_bytes > 0 && disk.free_bytes <= disk.total_bytes);
        assert_eq!(disk_of(Path::new("/nothing/there")), None);
        let mut beside = beside(MemoryLog::new(1));
        assert_eq!(beside.disk().await, None);
        beside.data_dir = Some("/".into());
        assert!(beside.disk().await.is_some());
        let hangs = beside.disk_turn.clone().try_acquire_owned().unwrap();
        assert_eq!(beside.disk().await, None, "one question at a time");
        drop(hangs);
        assert!(beside.disk().await.is_some());
    }
}
