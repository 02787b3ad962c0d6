//! Inserts with a deadline.
//!
//! A processor may write only while it owns its partitions. It reads its clock before it writes, but it may be
//! suspended between the two, and its bytes may wait in a buffer long after another process has taken over. So the
//! server compares its own clock, when it has all rows and before it stores any of them.

use std::time::Instant;

use crate::client::Store;
use crate::error::{FENCED_MARK, StoreError};
use crate::tables::row_binary::TableRow;

impl Store {
    /// A store whose inserts of events, runs, messages and feedback fail with [`StoreError::Fenced`] when they would be
    /// stored after `until`, however late their bytes arrive; other operations are unaffected. `None` sets no deadline.
    ///
    /// Rows that pass the check are stored a moment later: a deadline needs a margin of one insert.
    pub fn with_deadline(&self, until: Option<Instant>) -> Store {
        Store {
            until,
            ..self.clone()
        }
    }

    /// The source of a fenced insert: the rows as they are sent, unless the server has them all too late. The clock is
    /// read for each block, and the settings of inserts make all rows one block.
    pub(super) async fn fenced_source<T: TableRow>(
        &self,
        until: Instant,
    ) -> Result<String, StoreError> {
        if Instant::now() >= until {
            return Err(StoreError::Fenced);
        }
        let types = self.column_types(T::TABLE).await?;
        let deadline_ms = self.server_deadline_ms(until).await?;
        let mut structure = Vec::new();
        for column in T::COLUMNS {
            let Some(kind) = types.get(*column) else {
                return Err(StoreError::Shape(format!(
                    "the table {} has no column {column}",
                    T::TABLE
                )));
            };
            structure.push(format!("{column} {kind}"));
        }
        let structure = structure
            .join(", ")
            .replace('\\', "\\\\")
            .replace('\'', "\\'");
        Ok(format!(
            "SELECT * FROM input('{structure}') \
             WHERE throwIf(toUnixTimestamp64Milli(nowInBlock64(3)) > {deadline_ms}, '{FENCED_MARK}') = 0"
        ))
    }
}
