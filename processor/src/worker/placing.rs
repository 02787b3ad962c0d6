//! Records outside of the partition of their key.
//!
//! A log can get more partitions while it holds records, and producers use them at once: records of one key then lie in
//! two partitions, which two members may own. Only one of them may write an app's runs. So all processors place keys by
//! one number of partitions, stored in the tables ([`crate::partitioning`]), and append a record found elsewhere to its
//! own partition before they commit it.

use bytes::Bytes;
use eventlog::{Record, StoredRecord, partition_of};

use crate::step::decode::{self, MOVED};

#[derive(Clone, Debug)]
pub(super) struct Misplaced {
    pub(super) partition: u32,
    pub(super) record: Record,
}

/// Removes and returns the records outside of the partition of their key; the others stay in order.
pub(super) fn take_misplaced(records: &mut Vec<StoredRecord>, partitions: u32) -> Vec<Misplaced> {
    let mut misplaced = Vec::new();
    records.retain(|stored| {
        let partition = partition_of(&stored.record.key, partitions);
        let is_placed = stored.position.partition == partition;
        if !is_placed {
            let mut record = stored.record.clone();
            if !decode::is_moved(stored) {
                let header = (MOVED.to_owned(), Bytes::from_static(b"1"));
                record.headers.push(header);
            }
            misplaced.push(Misplaced { partition, record });
        }
        is_placed
    });
    misplaced
}
