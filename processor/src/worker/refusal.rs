//! Finds the records of which the store takes no rows.

use std::ops::Range;

use eventlog::{Member, StoredRecord};
use store::StoreError;

use super::Worker;
use super::storing::Halt;
use crate::ProcessorError;
use crate::decode::{self, Code, Poison};
use crate::gate::Pass;
use crate::step::Stored;

/// What ClickHouse answers when its tables, its settings or this program's rights in it are not what they have to be:
/// no row is at fault.
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
/// Records that are refused each alone before any is stored: then it is not the records (X1).
const REFUSED_MAX: usize = 20;

/// What came of records that were stored in parts.
#[derive(Default)]
struct Parts {
    stored: Stored,
    is_any_stored: bool,
    refused: Vec<usize>,
    last: Option<StoreError>,
}

impl Worker {
    /// Stores the records; where the store refuses their rows, in halves, and so on, until those are alone that are at
    /// fault: they count as poison. `None` when it has to be done anew.
    pub(super) async fn store_good(
        &mut self,
        member: &mut dyn Member,
        pass: &Pass,
        records: &[StoredRecord],
        careful: bool,
    ) -> Result<Option<Stored>, Halt> {
        let refused = match self.store(member, pass, records, careful).await {
            Err(Halt::Refused(error)) => error,
            outcome => return outcome,
        };
        if is_setup(&refused) {
            return Err(all_refused(refused));
        }
        let mut parts = Parts::default();
        if records.len() == 1 {
            parts.refuse(0, refused);
        } else {
            let mut rest = halves(0..records.len()).to_vec();
            while let Some(range) = rest.pop() {
                // Some rows of it are stored by now, from the try before.
                self.hot.clear();
                let some = &records[range.clone()];
                match self.store(member, pass, some, true).await {
                    Ok(Some(stored)) => parts.add(range.start, stored),
                    Ok(None) => return Ok(None),
                    Err(Halt::Refused(error)) if some.len() == 1 => {
                        parts.refuse(range.start, error);
                    }
                    Err(Halt::Refused(_)) => rest.extend(halves(range)),
                    Err(halt) => return Err(halt),
                }
                if !parts.is_any_stored && parts.refused.len() == REFUSED_MAX {
                    break;
                }
            }
            if !parts.is_any_stored
                && let Some(error) = parts.last.take()
            {
                return Err(all_refused(error));
            }
        }
        Ok(Some(parts.settle(records)))
    }
}

impl Parts {
    fn add(&mut self, start: usize, mut stored: Stored) {
        self.is_any_stored = true;
        self.stored.events += stored.events;
        self.stored.good_records += stored.good_records;
        self.stored.accepted.append(&mut stored.accepted);
        let poison = stored.poison.into_iter().map(|bad| Poison {
            record: bad.record + start,
            ..bad
        });
        self.stored.poison.extend(poison);
    }

    fn refuse(&mut self, record: usize, error: StoreError) {
        self.refused.push(record);
        self.last = Some(error);
    }

    fn settle(self, records: &[StoredRecord]) -> Stored {
        let mut stored = self.stored;
        let code = match self.last {
            Some(StoreError::Refused { code, .. }) => code,
            _ => 0,
        };
        for record in self.refused {
            let header = decode::header(&records[record]);
            stored.poison.push(Poison {
                record,
                // The message may quote what it choked on.
                reason: format!("ClickHouse refuses its rows (code {code})"),
                part: None,
                events: header.map_or(1, |header| u64::from(header.events)),
                code: Code::Refused,
            });
        }
        stored.poison.sort_by_key(|bad| bad.record);
        stored
    }
}

/// The later half first: they are taken from the end.
fn halves(range: Range<usize>) -> [Range<usize>; 2] {
    let middle = range.start + range.len() / 2;
    [middle..range.end, range.start..middle]
}

fn is_setup(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { code, .. } if SETUP_CODES.contains(code))
}

fn all_refused(error: StoreError) -> Halt {
    Halt::Failed(ProcessorError::AllRefused(error))
}
