//! What each group has committed, durable, in a small store file of its own.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::store::{Store, Surroundings, log_error};
use crate::{LogError, Position};

/// (group, partition) to the next offset wanted.
const COMMITTED: TableDefinition<(&str, u32), u64> = TableDefinition::new("committed");
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const PARTITIONS: &str = "partitions";
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

/// Name of the file.
pub(crate) const FILE: &str = "groups";

/// The next offset each group wants, per partition.
pub(crate) type Committed = BTreeMap<String, Vec<u64>>;

/// The file with the commits.
pub(crate) struct Cursors {
    store: Store,
}

/// A change of the cursors.
pub(crate) enum Update {
    /// A group and its cursors, as they shall be.
    Set(String, Vec<Position>),
    /// A group that is no more.
    Forget(String),
}

impl Cursors {
    /// Opens the file, or makes it for this number of partitions.
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
        let cursors = Cursors { store };
        let (format, made_with, committed) = cursors
            .store
            .with(|database| Self::load(database, partitions))
            .map_err(log_error)?;
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

    fn load(database: &Database, partitions: u32) -> Result<(u64, u64, Committed), redb::Error> {
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
        Ok((number(FORMAT)?, number(PARTITIONS)?, committed))
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
