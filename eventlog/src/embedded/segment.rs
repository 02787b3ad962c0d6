//! A segment: one store file with a range of the log, of all partitions, removed as a whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction,
};

use super::frame::{disk_len, read_frame, write_frame};
use super::gaps::Extent;
use super::store::{Store, Surroundings, log_error};
use crate::{LogError, Position, Record, StoredRecord};

/// (partition, offset) to frame.
const RECORDS: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("records");
/// Partition to (first offset of the segment, offset after its last).
const PARTITIONS: TableDefinition<u32, (u64, u64)> = TableDefinition::new("partitions");
/// Partition to where the log ended when the segment was created: its first offset, except for offsets of failed
/// appends.
const PRECEDED: TableDefinition<u32, u64> = TableDefinition::new("preceded");
/// Numbers about the segment.
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const BYTES: &str = "bytes";
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

const ENDING: &str = ".segment";

pub(crate) struct Segment {
    pub(crate) id: u64,
    /// By partition, the first offset that may be in the segment.
    pub(crate) base: Vec<u64>,
    /// See [`Extent::preceded`].
    preceded: Option<Vec<u64>>,
    /// By partition, the offset after the last acknowledged one.
    ends: Mutex<Vec<u64>>,
    bytes: AtomicU64,
    store: Store,
}

/// A record to append.
pub(crate) struct Entry<'a> {
    pub(crate) position: Position,
    pub(crate) record: &'a Record,
    pub(crate) frame_len: usize,
}

impl Segment {
    pub(crate) fn file_name(id: u64) -> String {
        format!("{id:012}{ENDING}")
    }

    /// The number in a segment's file name.
    pub(crate) fn id_of(file_name: &str) -> Option<u64> {
        file_name.strip_suffix(ENDING)?.parse().ok()
    }

    /// Creates an empty segment, durable when this returns, for a log whose last acknowledged records end at
    /// `preceded`.
    pub(crate) fn create(
        around: Surroundings,
        id: u64,
        base: Vec<u64>,
        preceded: Vec<u64>,
    ) -> Result<Self, LogError> {
        let fill = |transaction: &WriteTransaction| -> Result<(), redb::Error> {
            let mut partitions = transaction.open_table(PARTITIONS)?;
            for (partition, offset) in (0u32..).zip(&base) {
                partitions.insert(partition, (*offset, *offset))?;
            }
            let mut ended = transaction.open_table(PRECEDED)?;
            for (partition, offset) in (0u32..).zip(&preceded) {
                ended.insert(partition, *offset)?;
            }
            transaction.open_table(RECORDS)?;
            let mut about = transaction.open_table(ABOUT)?;
            about.insert(FORMAT, FORMAT_NOW)?;
            about.insert(BYTES, 0)?;
            Ok(())
        };
        let store = Store::create(around, &Self::file_name(id), fill)?;
        Ok(Segment {
            id,
            ends: Mutex::new(base.clone()),
            base,
            preceded: Some(preceded),
            bytes: AtomicU64::new(0),
            store,
        })
    }

    /// Opens an existing segment: checks it and restores it to its last complete commit.
    pub(crate) fn open(around: Surroundings, id: u64) -> Result<Self, LogError> {
        let store = Store::existing(around, &Self::file_name(id));
        let (extent, bytes) = store
            .with(|database| Self::read_about(database, id))
            .map_err(|error| match error {
                redb::Error::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
                    log_error(redb::Error::Io(error))
                }
                error => LogError::Damaged(format!("segment {id}: {error}")),
            })?;
        Ok(Segment {
            id,
            base: extent.base,
            preceded: extent.preceded,
            ends: Mutex::new(extent.ends),
            bytes: AtomicU64::new(bytes),
            store,
        })
    }

    fn read_about(database: &Database, id: u64) -> Result<(Extent, u64), redb::Error> {
        let transaction = database.begin_read()?;
        let about = transaction.open_table(ABOUT)?;
        let number = |name| about.get(name).map(|value| value.map_or(0, |v| v.value()));
        let format = number(FORMAT)?;
        if format != FORMAT_NOW {
            let what = format!("format {format} is not known here");
            return Err(redb::Error::Corrupted(what));
        }
        let bytes = number(BYTES)?;
        let mut base = Vec::new();
        let mut ends = Vec::new();
        for row in transaction.open_table(PARTITIONS)?.iter()? {
            let (first, end) = row?.1.value();
            base.push(first);
            ends.push(end);
        }
        let preceded = match transaction.open_table(PRECEDED) {
            Ok(table) => {
                let rows = table.iter()?.map(|row| Ok(row?.1.value()));
                Some(rows.collect::<Result<_, redb::Error>>()?)
            }
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let extent = Extent {
            id,
            preceded,
            base,
            ends,
        };
        Ok((extent, bytes))
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            id: self.id,
            preceded: self.preceded.clone(),
            base: self.base.clone(),
            ends: self.ends(),
        }
    }

    /// Appends records in one transaction and one sync. After an error the segment takes no more.
    pub(crate) fn append(&self, entries: &[Entry<'_>]) -> Result<(), redb::Error> {
        let written = self.store.with(|database| self.write(database, entries));
        let ends = written.inspect_err(|_| self.store.give_up())?;
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
        Ok(())
    }

    fn write(&self, database: &Database, entries: &[Entry<'_>]) -> Result<Vec<u64>, redb::Error> {
        let transaction = database.begin_write()?;
        let mut ends = self.ends();
        let mut bytes = self.bytes();
        {
            let mut records = transaction.open_table(RECORDS)?;
            for entry in entries {
                let key = (entry.position.partition, entry.position.offset);
                let mut frame = records.insert_reserve(key, entry.frame_len)?;
                write_frame(entry.record, frame.as_mut());
                bytes += disk_len(entry.frame_len);
                ends[entry.position.partition as usize] = entry.position.offset + 1;
            }
            let mut partitions = transaction.open_table(PARTITIONS)?;
            let before = self.ends();
            for (partition, end) in (0u32..).zip(&ends) {
                if before[partition as usize] != *end {
                    partitions.insert(partition, (self.base[partition as usize], *end))?;
                }
            }
            transaction.open_table(ABOUT)?.insert(BYTES, bytes)?;
        }
        transaction.commit()?;
        self.bytes.store(bytes, Ordering::Release);
        Ok(ends)
    }

    /// Records of a partition from this offset on, about `max_bytes` of payload, at least one if there is one.
    pub(crate) fn read(
        &self,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<StoredRecord>, LogError> {
        let found = self
            .store
            .with(|database| self.frames(database, from, max_bytes))
            .map_err(log_error)?;
        let mut records = Vec::with_capacity(found.len());
        for (offset, frame) in found {
            let position = Position {
                partition: from.partition,
                offset,
            };
            let record = read_frame(&frame).ok_or_else(|| {
                LogError::Damaged(format!("record {offset} in segment {}", self.id))
            })?;
            records.push(StoredRecord { position, record });
        }
        Ok(records)
    }

    fn frames(
        &self,
        database: &Database,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, redb::Error> {
        let end = self.end(from.partition);
        let mut found = Vec::new();
        let transaction = database.begin_read()?;
        let records = transaction.open_table(RECORDS)?;
        let mut bytes = 0;
        for row in records.range((from.partition, from.offset)..(from.partition, end))? {
            let (key, frame) = row?;
            bytes += frame.value().len();
            if bytes > max_bytes && !found.is_empty() {
                break;
            }
            found.push((key.value().1, Bytes::copy_from_slice(frame.value())));
        }
        Ok(found)
    }

    pub(crate) fn ends(&self) -> Vec<u64> {
        self.ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The offset after the last acknowledged one of the partition.
    pub(crate) fn end(&self, partition: u32) -> u64 {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get(partition as usize).copied().unwrap_or(0)
    }

    /// Bytes of the records on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Whether every record is below these offsets.
    pub(crate) fn is_below(&self, offsets: &[u64]) -> bool {
        let ends = self.ends();
        let mut all = ends.iter().zip(&self.base).zip(offsets);
        all.all(|((end, base), offset)| end == base || offset >= end)
    }

    pub(crate) fn heal(&self) {
        self.store.heal();
    }

    pub(crate) fn close_if_idle(&self) {
        self.store.close_if_idle();
    }

    pub(crate) fn remove(&self) -> std::io::Result<()> {
        self.store.remove()
    }
}
