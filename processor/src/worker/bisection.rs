//! Finds the records whose rows the store rejects.

use std::ops::Range;

use eventlog::StoredRecord;
use store::StoreError;

use crate::dead_letter::{Code, Poison};
use crate::step::{Stored, decode};

/// ClickHouse error codes for tables, settings or rights that do not fit this program; the rows are not at fault.
const SETUP_CODES: &[u32] = &[
    8,   // THERE_IS_NO_COLUMN
    10,  // NOT_FOUND_COLUMN_IN_BLOCK
    16,  // NO_SUCH_COLUMN_IN_TABLE
    20,  // NUMBER_OF_COLUMNS_DOESNT_MATCH
    47,  // UNKNOWN_IDENTIFIER
    48,  // NOT_IMPLEMENTED
    60,  // UNKNOWN_TABLE
    62,  // SYNTAX_ERROR
    81,  // UNKNOWN_DATABASE
    115, // UNKNOWN_SETTING
    192, // UNKNOWN_USER
    218, // TABLE_IS_DROPPED
    497, // ACCESS_DENIED
    516, // AUTHENTICATION_FAILED
];
/// Rejections in a row, before any success, after which the records are not at fault (X1).
const REJECTED_MAX: usize = 20;

pub(super) fn is_setup(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { code, .. } if SETUP_CODES.contains(code))
}

/// Bisects the records of one step: stores halves one after the other until each rejected record is alone, which
/// becomes poison.
#[derive(Debug)]
pub(super) struct Bisection {
    /// Ranges still to store; the next one is last.
    rest: Vec<Range<usize>>,
    stored: Stored,
    is_any_stored: bool,
    rejected: Vec<usize>,
    last: StoreError,
}

impl Bisection {
    pub(super) fn new(records: usize, error: StoreError) -> Self {
        let mut bisection = Self {
            rest: Vec::new(),
            stored: Stored::default(),
            is_any_stored: false,
            rejected: Vec::new(),
            last: error,
        };
        bisection.split(0..records);
        // There is no other record to compare a single one with.
        bisection.is_any_stored = records == 1;
        bisection
    }

    /// The records to store next; `None` when all are stored or rejected, or the records are not at fault.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        if self.is_hopeless() && self.rejected.len() >= REJECTED_MAX {
            return None;
        }
        self.rest.pop()
    }

    pub(super) fn stored(&mut self, range: &Range<usize>, mut stored: Stored) {
        self.is_any_stored = true;
        self.stored.events += stored.events;
        self.stored.good_records += stored.good_records;
        self.stored.accepted.append(&mut stored.accepted);
        let poison = stored.poison.into_iter().map(|bad| Poison {
            record: bad.record + range.start,
            ..bad
        });
        self.stored.poison.extend(poison);
    }

    pub(super) fn rejected(&mut self, range: Range<usize>, error: StoreError) {
        self.last = error;
        self.split(range);
    }

    fn split(&mut self, range: Range<usize>) {
        if range.len() == 1 {
            self.rejected.push(range.start);
            return;
        }
        let middle = range.start + range.len() / 2;
        self.rest.push(middle..range.end);
        self.rest.push(range.start..middle);
    }

    fn is_hopeless(&self) -> bool {
        !self.is_any_stored
    }

    /// The results, with the rejected records as poison; the last error if nothing was stored.
    pub(super) fn finish(self, records: &[StoredRecord]) -> Result<Stored, StoreError> {
        if self.is_hopeless() {
            return Err(self.last);
        }
        let mut stored = self.stored;
        let code = match self.last {
            StoreError::Refused { code, .. } => code,
            _ => 0,
        };
        for record in self.rejected {
            let header = decode::header(&records[record]);
            stored.poison.push(Poison {
                record,
                // The message may quote the row.
                reason: format!("ClickHouse rejects its rows (code {code})"),
                part: None,
                events: header.map_or(1, |header| u64::from(header.events)),
                code: Code::Refused,
            });
        }
        stored.poison.sort_by_key(|bad| bad.record);
        Ok(stored)
    }
}
