//! The most recent records, kept in memory for members that read right behind.
//!
//! Payloads are shared, not copied. Bounded in bytes; records are dropped once delivered.

use std::collections::VecDeque;

use crate::StoredRecord;

pub(crate) struct Tail {
    partitions: Vec<Partition>,
    bytes: usize,
    max_bytes: usize,
}

struct Partition {
    /// Every record of the partition from this offset on is in `records`.
    start: u64,
    records: VecDeque<StoredRecord>,
}

/// Approximate memory of a record: its bytes and their containers.
fn cost(stored: &StoredRecord) -> usize {
    let record = &stored.record;
    let headers = record.headers.iter().map(|(_, value)| value.len() + 64);
    128 + record.key.len() + record.payload.len() + headers.sum::<usize>()
}

impl Tail {
    pub(crate) fn new(ends: &[u64], max_bytes: usize) -> Self {
        let partition = |&start: &u64| Partition {
            start,
            records: VecDeque::new(),
        };
        Tail {
            partitions: ends.iter().map(partition).collect(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Adds the next record of its partition.
    pub(crate) fn push(&mut self, stored: StoredRecord) {
        self.bytes += cost(&stored);
        self.partitions[stored.position.partition as usize]
            .records
            .push_back(stored);
        while self.bytes > self.max_bytes {
            // The partition with most records drops its oldest first.
            let Some(largest) = self.partitions.iter_mut().max_by_key(|p| p.records.len()) else {
                break;
            };
            let Some(freed) = largest.pop() else { break };
            self.bytes -= freed;
        }
    }

    /// Nothing of this partition below `end` is kept.
    pub(crate) fn skip(&mut self, partition: u32, end: u64) {
        self.release(partition, end);
        let partition = &mut self.partitions[partition as usize];
        partition.start = partition.start.max(end);
    }

    /// Records from this offset on, about `max_bytes` of payload and at least one; `None` if the offset is not covered.
    pub(crate) fn read(
        &self,
        partition: u32,
        from: u64,
        max_bytes: usize,
    ) -> Option<Vec<StoredRecord>> {
        let partition = &self.partitions[partition as usize];
        if from < partition.start {
            return None;
        }
        let first = partition
            .records
            .partition_point(|stored| stored.position.offset < from);
        let mut bytes = 0;
        let mut some = Vec::new();
        for stored in partition.records.range(first..) {
            bytes += stored.record.payload.len();
            if bytes > max_bytes && !some.is_empty() {
                break;
            }
            some.push(stored.clone());
        }
        Some(some)
    }

    /// No group needs anything below this offset.
    pub(crate) fn release(&mut self, partition: u32, below: u64) {
        let partition = &mut self.partitions[partition as usize];
        while partition
            .records
            .front()
            .is_some_and(|stored| stored.position.offset < below)
        {
            self.bytes -= partition.pop().unwrap_or(0);
        }
        if partition.records.is_empty() {
            partition.records.shrink_to(64);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Partition {
    fn pop(&mut self) -> Option<usize> {
        let stored = self.records.pop_front()?;
        self.start = stored.position.offset + 1;
        Some(cost(&stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Position, Record};
    use bytes::Bytes;

    fn stored(offset: u64, len: usize) -> StoredRecord {
        StoredRecord {
            position: Position {
                partition: 0,
                offset,
            },
            record: Record {
                key: Bytes::new(),
                headers: Vec::new(),
                payload: Bytes::from(vec![0; len]),
            },
        }
    }

    fn offsets(records: Option<Vec<StoredRecord>>) -> Option<Vec<u64>> {
        records.map(|records| records.iter().map(|r| r.position.offset).collect())
    }

    #[test]
    fn the_oldest_go_first_when_the_bound_is_reached() {
        let mut tail = Tail::new(&[5], 3 * 228);
        for offset in 5..10 {
            tail.push(stored(offset, 100));
        }
        assert_eq!(offsets(tail.read(0, 6, 1000)), None);
        assert_eq!(offsets(tail.read(0, 7, 1000)), Some(vec![7, 8, 9]));
        assert_eq!(offsets(tail.read(0, 8, 1)), Some(vec![8]));
        assert_eq!(offsets(tail.read(0, 10, 1000)), Some(vec![]));
    }

    #[test]
    fn what_is_delivered_is_let_go_of() {
        let mut tail = Tail::new(&[0], 10_000);
        for offset in 0..4 {
            tail.push(stored(offset, 100));
        }
        tail.release(0, 3);
        assert_eq!(offsets(tail.read(0, 2, 1000)), None);
        assert_eq!(offsets(tail.read(0, 3, 1000)), Some(vec![3]));
        tail.skip(0, 9);
        assert_eq!(tail.bytes(), 0);
        assert_eq!(offsets(tail.read(0, 8, 1000)), None);
        assert_eq!(offsets(tail.read(0, 9, 1000)), Some(vec![]));
    }
}
