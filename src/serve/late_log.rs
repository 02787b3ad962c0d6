//! A topic that opens once its brokers answer, so that a process can do the rest of its work without them.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use eventlog::{
    Bounds, GroupState, Inventory, Lag, Log, LogError, Member, Position, Reader, Record,
};

/// What is known of a topic before it is open.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) topic: String,
    /// Number of partitions, if it has to be created.
    pub(crate) partitions: u32,
    pub(crate) max_record_bytes: usize,
}

/// The log, or [`LogError::Unavailable`] until [`LateLog::opened`]. Clones are the same.
#[derive(Clone)]
pub(crate) struct LateLog {
    expected: Arc<Expected>,
    log: Arc<OnceLock<Arc<dyn Log>>>,
}

impl LateLog {
    pub(crate) fn new(expected: Expected) -> Self {
        Self {
            expected: Arc::new(expected),
            log: Arc::default(),
        }
    }

    pub(crate) fn opened(&self, log: Arc<dyn Log>) {
        // A second call is ignored.
        let _ = self.log.set(log);
    }

    fn log(&self) -> Result<&Arc<dyn Log>, LogError> {
        let away = || LogError::Unavailable("no broker has answered yet".to_owned());
        self.log.get().ok_or_else(away)
    }
}

#[async_trait]
impl Log for LateLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        self.log()?.append(record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        self.log()?.append_to(partition, record).await
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        self.log()?.join(group).await
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        self.log()?.lag(group).await
    }

    async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        self.log()?.group_state(group).await
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        self.log()?.reader(from).await
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        self.log()?.bounds().await
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        self.log()?.inventory().await
    }

    fn partitions(&self) -> u32 {
        self.log
            .get()
            .map_or(self.expected.partitions, |log| log.partitions())
    }

    fn topic(&self) -> &str {
        &self.expected.topic
    }

    fn max_record_bytes(&self) -> usize {
        self.log
            .get()
            .map_or(self.expected.max_record_bytes, |log| log.max_record_bytes())
    }

    async fn close(&self) {
        if let Some(log) = self.log.get() {
            log.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use eventlog::MemoryLog;

    use super::*;

    #[tokio::test]
    async fn it_is_away_until_it_is_open_and_then_the_log_itself() {
        let late = LateLog::new(Expected {
            topic: "t".to_owned(),
            partitions: 3,
            max_record_bytes: 10,
        });
        let record = Record {
            key: "k".into(),
            headers: Vec::new(),
            payload: "p".into(),
        };
        let refused = late.append(record.clone()).await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        assert_eq!((late.partitions(), late.max_record_bytes()), (3, 10));
        let log = MemoryLog::new(2);
        late.opened(Arc::new(log));
        late.append(record).await.unwrap();
        assert_eq!(late.partitions(), 2);
    }
}
