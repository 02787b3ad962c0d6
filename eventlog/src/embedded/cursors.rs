//! Committed offsets of each group, durable, in a small store file.

use std::collections::BTreeMap;

use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction,
};

use super::gaps::Noted;
use super::store::{Store, Surroundings, log_error};
use crate::{LogError, Position};

/// (group, partition) to the next offset.
const COMMITTED: TableDefinition<(&str, u32), u64> = TableDefinition::new("committed");
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const PARTITIONS: &str = "partitions";
/// Partition to where the log ended when it was closed cleanly; empty while it is open.
const ENDED: TableDefinition<u32, u64> = TableDefinition::new("ended");
/// Number of the newest recorded segment. It may be older than the newest segment, never newer.
const NEWEST: &str = "newest_segment";
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

pub(crate) const FILE: &str = "groups";

/// The next offset of each group, by partition.
pub(crate) type Committed = BTreeMap<String, Vec<u64>>;

/// The file with the commits.
pub(crate) struct Cursors {
    store: Store,
    noted: Noted,
}

/// Contents of the file.
struct Loaded {
    format: u64,
    made_with: u64,
    noted: Noted,
    committed: Committed,
}

pub(crate) enum Update {
    /// A group with its new offsets.
    Set(String, Vec<Position>),
    /// A group that was removed.
    Forget(String),
    /// A segment with this number exists.
    Newest(u64),
    /// The log ends here, and nothing is appended any more; without offsets it is open again.
    Ended(Vec<u64>),
}

impl Cursors {
    /// Opens the file, or creates it for this number of partitions.
    pub(crate) fn open(
        around: Surroundings,
        partitions: u32,
    ) -> Result<(Self, Committed), LogError> {
        let names = around.disk.list().map_err(|e| log_error(e.into()))?;
        let store = if names.iter().any(|name| name == FILE) {
            Store::existing(around, FILE)
        } else if names
            .iter()
            .any(|name| super::segment::Segment::id_of(name).is_some())
        {
            return Err(LogError::Damaged(format!(
                "the file `{FILE}` with the commits is missing beside the segments"
            )));
        } else {
            Store::create(around, FILE, |transaction: &WriteTransaction| {
                transaction.open_table(COMMITTED)?;
                let mut about = transaction.open_table(ABOUT)?;
                about.insert(FORMAT, FORMAT_NOW)?;
                about.insert(PARTITIONS, u64::from(partitions))?;
                Ok(())
            })?
        };
        let loaded = store
            .with(|database| Self::load(database, partitions))
            .map_err(log_error)?;
        let Loaded {
            format,
            made_with,
            noted,
            committed,
        } = loaded;
        let cursors = Cursors { store, noted };
        if format != FORMAT_NOW {
            return Err(LogError::Settings(format!(
                "the folder is of format {format}, this is {FORMAT_NOW}"
            )));
        }
        if made_with != u64::from(partitions) {
            return Err(LogError::Settings(format!(
                "the folder was made with {made_with} partitions, the settings say {partitions}"
            )));
        }
        Ok((cursors, committed))
    }

    fn load(database: &Database, partitions: u32) -> Result<Loaded, redb::Error> {
        let transaction = database.begin_read()?;
        let about = transaction.open_table(ABOUT)?;
        let number = |name| about.get(name).map(|value| value.map_or(0, |v| v.value()));
        let mut committed = Committed::new();
        for row in transaction.open_table(COMMITTED)?.iter()? {
            let (key, offset) = row?;
            let (group, partition) = key.value();
            let offsets = committed
                .entry(group.to_owned())
                .or_insert_with(|| vec![0; partitions as usize]);
            if let Some(slot) = offsets.get_mut(partition as usize) {
                *slot = offset.value();
            }
        }
        let ended = match transaction.open_table(ENDED) {
            Ok(table) => {
                let rows = table.iter()?.map(|row| Ok(row?.1.value()));
                rows.collect::<Result<Vec<u64>, redb::Error>>()?
            }
            Err(TableError::TableDoesNotExist(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let noted = Noted {
            newest: about.get(NEWEST)?.map(|value| value.value()),
            ended: (!ended.is_empty()).then_some(ended),
        };
        Ok(Loaded {
            format: number(FORMAT)?,
            made_with: number(PARTITIONS)?,
            noted,
            committed,
        })
    }

    /// What the file records about the segments.
    pub(crate) fn noted(&self) -> &Noted {
        &self.noted
    }

    /// Records that the log is open: its former end is no longer valid.
    pub(crate) fn note_open(&mut self) {
        if self.noted.ended.is_some() && self.write(&[Update::Ended(Vec::new())]).is_ok() {
            self.noted.ended = None;
        }
    }

    /// Records where the log ends, because it is being closed.
    pub(crate) fn note_ended(&mut self, ends: Vec<u64>) {
        match self.write(&[Update::Ended(ends.clone())]) {
            Ok(()) => self.noted.ended = Some(ends),
            Err(error) => tracing::debug!(%error, "cannot note where the log ends"),
        }
    }

    /// Records that a segment with this number exists, once.
    pub(crate) fn note_newest(&mut self, id: u64) {
        if self.noted.newest.is_some_and(|newest| newest >= id) {
            return;
        }
        match self.write(&[Update::Newest(id)]) {
            Ok(()) => self.noted.newest = Some(id),
            // The next commit records it: until then its loss would go unnoticed.
            Err(error) => tracing::debug!(%error, "cannot note the newest segment yet"),
        }
    }

    /// Makes the changes durable, all or none.
    pub(crate) fn write(&self, updates: &[Update]) -> Result<(), LogError> {
        self.store
            .with(|database| Self::try_write(database, updates))
            .inspect_err(|_| self.store.give_up())
            .map_err(log_error)
    }

    /// See [`Store::heal`].
    pub(crate) fn heal(&self) {
        self.store.heal();
    }

    fn try_write(database: &Database, updates: &[Update]) -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut committed = transaction.open_table(COMMITTED)?;
            for update in updates {
                match update {
                    Update::Set(group, positions) => {
                        for at in positions {
                            committed.insert((group.as_str(), at.partition), at.offset)?;
                        }
                    }
                    Update::Newest(id) => {
                        transaction.open_table(ABOUT)?.insert(NEWEST, id)?;
                    }
                    Update::Ended(ends) => {
                        let mut ended = transaction.open_table(ENDED)?;
                        ended.retain(|_, _| false)?;
                        for (partition, end) in (0u32..).zip(ends) {
                            ended.insert(partition, *end)?;
                        }
                    }
                    Update::Forget(group) => {
                        let all = (group.as_str(), 0)..=(group.as_str(), u32::MAX);
                        committed.retain_in(all, |_, _| false)?;
                    }
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }
}
