//! A member of a group, over any log within this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::groups::{Change, Groups, MemberId};
use crate::{Delivery, Fetch, Lease, LogError, Member, Position, StoredRecord};

/// The log behind a member.
#[async_trait]
pub(crate) trait Source: Send + Sync + 'static {
    fn groups(&self) -> &Groups;

    /// Changes whenever there may be something new for a waiting member.
    fn changes(&self) -> watch::Receiver<u64>;

    /// The group's committed offset.
    fn committed(&self, group: &str, partition: u32) -> u64;

    /// Records of the partition from this offset on: about `max_bytes`, at least one if there is one.
    async fn read(
        &self,
        group: &str,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<StoredRecord>, LogError>;

    /// The member needs nothing below this position again, unless it starts again.
    fn delivered(&self, group: &str, next: Position);

    /// Makes the commit durable. Ownership has been checked.
    async fn commit(&self, group: &str, next: Position) -> Result<(), LogError>;

    /// Changes when members have to start again at the committed offset (a fault of the memory log).
    fn rewinds(&self) -> u64 {
        0
    }

    /// The lease of members that have lost nothing.
    fn lease(&self) -> Lease {
        Lease::Held
    }

    /// Called once, when the member is gone.
    fn left(&self, group: &str);
}

pub(crate) struct GroupMember<S: Source> {
    source: Arc<S>,
    group: String,
    id: MemberId,
    changes: watch::Receiver<u64>,
    rewinds: u64,
    /// The next offset to deliver, of each assigned partition.
    next: BTreeMap<u32, u64>,
    /// The partition after this one is read first, so that none starves.
    last: u32,
    /// Revoked: nothing of them is delivered any more.
    revoked: Vec<u32>,
}

impl<S: Source> GroupMember<S> {
    pub(crate) fn new(source: Arc<S>, group: &str) -> Self {
        let id = source.groups().join(group);
        GroupMember {
            changes: source.changes(),
            rewinds: source.rewinds(),
            source,
            group: group.to_owned(),
            id,
            next: BTreeMap::new(),
            last: 0,
            revoked: Vec::new(),
        }
    }

    fn start(&mut self, partition: u32) -> Position {
        let offset = self.source.committed(&self.group, partition);
        self.next.insert(partition, offset);
        let position = Position { partition, offset };
        self.source.delivered(&self.group, position);
        position
    }

    /// The rebalancing's next change. No await in here: what is taken is delivered.
    fn change(&mut self) -> Option<Delivery> {
        for partition in std::mem::take(&mut self.revoked) {
            self.next.remove(&partition);
        }
        match self.source.groups().poll(&self.group, self.id)? {
            Change::Assigned(partitions) => {
                let starts = partitions.into_iter().map(|p| self.start(p)).collect();
                Some(Delivery::Assigned(starts))
            }
            Change::Revoked(partitions) => {
                self.revoked.clone_from(&partitions);
                Some(Delivery::Revoked(partitions))
            }
            Change::Lost(partitions) => {
                for partition in &partitions {
                    self.next.remove(partition);
                }
                Some(Delivery::Lost(partitions))
            }
        }
    }

    /// The available records, of all partitions in turn.
    async fn records(&mut self, max_bytes: usize) -> Result<Vec<StoredRecord>, LogError> {
        let mut order: Vec<Position> = self
            .next
            .range(self.last + 1..)
            .chain(self.next.range(..=self.last))
            .map(|(&partition, &offset)| Position { partition, offset })
            .collect();
        let mut records: Vec<StoredRecord> = Vec::new();
        let mut bytes = 0;
        for from in order.drain(..) {
            if bytes >= max_bytes && !records.is_empty() {
                break;
            }
            let some = match self.source.read(&self.group, from, max_bytes - bytes).await {
                Ok(some) => some,
                // Available records come first; the error comes back with the next call.
                Err(_) if !records.is_empty() => break,
                Err(error) => return Err(error),
            };
            bytes = some.iter().fold(bytes, |sum, stored| {
                sum.saturating_add(stored.record.payload.len())
            });
            bytes = bytes.min(max_bytes);
            records.extend(some);
        }
        // No await from here on: a dropped call has moved nothing.
        for stored in &records {
            self.last = stored.position.partition;
            self.next
                .insert(stored.position.partition, stored.position.offset + 1);
        }
        for (&partition, &offset) in &self.next {
            self.source
                .delivered(&self.group, Position { partition, offset });
        }
        Ok(records)
    }
}

#[async_trait]
impl<S: Source> Member for GroupMember<S> {
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError> {
        let until = Instant::now() + fetch.max_wait;
        loop {
            self.changes.mark_unchanged();
            if let Some(delivery) = self.change() {
                return Ok(delivery);
            }
            let rewinds = self.source.rewinds();
            if rewinds != self.rewinds {
                self.rewinds = rewinds;
                let mine: Vec<u32> = self.next.keys().copied().collect();
                for partition in mine {
                    self.start(partition);
                }
            }
            let records = self.records(fetch.max_bytes).await?;
            if !records.is_empty() {
                return Ok(Delivery::Records(records));
            }
            match tokio::time::timeout_at(until, self.changes.changed()).await {
                Ok(Ok(())) => {}
                // This member holds the source, which holds the sender.
                Ok(Err(_)) => return Err(LogError::Closed),
                Err(_) => return Ok(Delivery::Idle),
            }
        }
    }

    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError> {
        if !self.source.groups().owns(&self.group, self.id, partition) {
            return Err(LogError::NotAssigned(partition));
        }
        let next = Position {
            partition,
            offset: next_offset,
        };
        self.source.commit(&self.group, next).await
    }

    async fn lease(&mut self) -> Result<Lease, LogError> {
        let groups = self.source.groups();
        let is_lost = |partition: &&u32| !groups.owns(&self.group, self.id, **partition);
        match self.next.keys().find(is_lost) {
            Some(lost) => Err(LogError::NotAssigned(*lost)),
            None => Ok(self.source.lease()),
        }
    }
}

impl<S: Source> Drop for GroupMember<S> {
    fn drop(&mut self) {
        self.source.groups().leave(&self.group, self.id);
        self.source.left(&self.group);
    }
}
