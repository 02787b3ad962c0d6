//! Which records the previous owner of a partition may have stored partially.

use std::collections::BTreeMap;

use eventlog::{Lag, Position, StoredRecord};

use super::step_plan::{PlannedRecord, weight};

/// The largest record a log takes.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// By partition, the records that another member may have begun to store without committing them.
#[derive(Debug, Default)]
pub(super) struct Takeovers(BTreeMap<u32, Takeover>);

#[derive(Clone, Copy, Debug)]
struct Takeover {
    /// They lie below this offset: the end of the log at the takeover.
    end: u64,
    /// They have at most this many payload bytes: a member stores at most one micro-batch at once.
    bytes: usize,
}

impl Takeovers {
    /// A partition whose end is unknown is bounded by bytes alone.
    pub(super) fn assign(&mut self, positions: &[Position], ends: &[Lag], batch_bytes: usize) {
        for position in positions {
            let lag = ends.iter().find(|lag| lag.partition == position.partition);
            let takeover = Takeover {
                end: lag.map_or(u64::MAX, |lag| lag.end),
                // The record that fills a batch may exceed the batch's bound.
                bytes: batch_bytes + RECORD_BYTES_MAX,
            };
            self.0.insert(position.partition, takeover);
        }
    }

    pub(super) fn forget(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.0.remove(partition);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Marks the records whose rows may be stored partially, and counts them against the bounds.
    pub(super) fn check(&mut self, records: Vec<StoredRecord>) -> Vec<PlannedRecord> {
        let checked = records.into_iter().map(|record| PlannedRecord {
            assume_partial_writes: self.may_be_partial(&record),
            record,
        });
        checked.collect()
    }

    fn may_be_partial(&mut self, record: &StoredRecord) -> bool {
        let partition = record.position.partition;
        let Some(left) = self.0.get_mut(&partition) else {
            return false;
        };
        let is_past = record.position.offset >= left.end || left.bytes == 0;
        left.bytes = left.bytes.saturating_sub(weight(record));
        if is_past {
            self.0.remove(&partition);
        }
        !is_past
    }
}
