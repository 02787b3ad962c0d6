//! Reading without a group, over any log within this process.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::member::Source;
use crate::{Fetch, LogError, Position, Reader, StoredRecord};

/// No group has this name, so such reads prevent no trimming.
const NO_GROUP: &str = "";

pub(crate) struct Scan<S: Source> {
    source: Arc<S>,
    changes: watch::Receiver<u64>,
    /// The next position of each partition, the one read last at the end.
    next: Vec<Position>,
}

impl<S: Source> Scan<S> {
    pub(crate) fn new(source: Arc<S>, from: Vec<Position>) -> Self {
        Self {
            changes: source.changes(),
            source,
            next: from,
        }
    }

    /// The available records of the first partition that has any.
    async fn some(&mut self, max_bytes: usize) -> Result<Vec<StoredRecord>, LogError> {
        for at in 0..self.next.len() {
            let from = self.next[at];
            let records = self.source.read(NO_GROUP, from, max_bytes).await?;
            // No await from here on: a dropped call has moved nothing.
            if let Some(last) = records.last() {
                let offset = last.position.offset + 1;
                self.next.remove(at);
                self.next.push(Position { offset, ..from });
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }
}

#[async_trait]
impl<S: Source> Reader for Scan<S> {
    async fn next(&mut self, fetch: Fetch) -> Result<Vec<StoredRecord>, LogError> {
        let until = Instant::now() + fetch.max_wait;
        loop {
            self.changes.mark_unchanged();
            let records = self.some(fetch.max_bytes).await?;
            if !records.is_empty() {
                return Ok(records);
            }
            match tokio::time::timeout_at(until, self.changes.changed()).await {
                Ok(Ok(())) => {}
                // This reader holds the source, which holds the sender.
                Ok(Err(_)) => return Err(LogError::Closed),
                Err(_) => return Ok(Vec::new()),
            }
        }
    }
}
