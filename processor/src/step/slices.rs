//! Changes in large trees, cut into slices.
//!
//! An agent that arrives late at the root of 100,000 runs changes all of them, and an event below a chain of 10,000
//! runs changes every subtree total above it. One step carries a change through a bounded number of runs. The rest is a
//! separate record, appended to the log under the same key before the step is stored ([`schemas::reprice::Slice`]): it
//! survives a crash (R1), is processed by the owner of the runs, and queues behind the events of other apps. See
//! docs/decisions/0024-sliced-propagation.md.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use eventlog::{Position, Record, StoredRecord};
use schemas::ids::{AppId, ProjectId};
use schemas::reprice::{Encoded, Reprice, Slice, Way};

use super::decode;
use crate::error::ProcessorError;

/// Runs named by one record: one step loads about as many children.
const RUNS_PER_RECORD: usize = 1000;
/// Levels after which a change is carried no further (X1). Real trees have tens of levels; a change that passes so many
/// is in a cycle of parents longer than one step loads.
pub(crate) const LEVELS_MAX: u32 = 250_000;

#[async_trait]
pub trait Continuations: Send + Sync {
    /// Keeps records to be processed after the current step. When it returns they are as durable as the step's own
    /// records.
    async fn append(&self, records: Vec<Record>) -> Result<(), ProcessorError>;
}

/// Keeps records in memory, for a caller that processes them before the step's own records count as done.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Vec<Record>>);

impl InMemory {
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, records: Vec<Record>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(records);
    }
}

#[async_trait]
impl Continuations for InMemory {
    async fn append(&self, records: Vec<Record>) -> Result<(), ProcessorError> {
        self.add(records);
        Ok(())
    }
}

/// Places records at a position of the log, which determines the versions of their rows.
pub(crate) fn at(position: Position, records: Vec<Record>) -> Vec<StoredRecord> {
    let records = records.into_iter();
    records
        .map(|record| StoredRecord { position, record })
        .collect()
}

/// Records that continue a change from these runs.
pub(crate) fn records<'a>(
    project: &ProjectId,
    app: &AppId,
    runs: &'a [(String, i64)],
    slice: &'a Slice,
    now_ms: i64,
) -> impl Iterator<Item = Record> {
    runs.chunks(RUNS_PER_RECORD).map(move |runs| {
        let reprice = Reprice {
            runs: runs.to_vec(),
            slice: Some(slice.clone()),
            resolves_relations: false,
        };
        record(reprice.encode(project, app, now_ms))
    })
}

pub(crate) fn record(encoded: Encoded) -> Record {
    let headers = encoded.headers.into_iter();
    Record {
        key: encoded.key.into(),
        headers: headers.map(|(name, value)| (name, value.into())).collect(),
        payload: encoded.payload.into(),
    }
}

/// The records of the same kind of slice of one app.
struct Merged {
    names: (ProjectId, AppId),
    position: Position,
    received_at_ms: i64,
    levels: u32,
    runs: Vec<(String, i64)>,
    seen: HashSet<String>,
}

/// Merges equal slices, so that many changes of one tree do not multiply; the apps take turns. Unreadable records stay
/// as they are. `assume_partial_writes` makes all slices deep.
pub(crate) fn merge(
    records: Vec<StoredRecord>,
    assume_partial_writes: bool,
) -> VecDeque<StoredRecord> {
    let mut merged: BTreeMap<bytes::Bytes, BTreeMap<(Way, String, bool), Merged>> = BTreeMap::new();
    let mut by_app: Vec<VecDeque<StoredRecord>> = Vec::new();
    for stored in records {
        let header = decode::header(&stored);
        let reprice = Reprice::decode(&stored.record.payload);
        let (
            Ok(header),
            Ok(Reprice {
                runs,
                slice: Some(slice),
                ..
            }),
        ) = (header, reprice)
        else {
            by_app.push(VecDeque::from([stored]));
            continue;
        };
        let of_app = merged.entry(stored.record.key.clone()).or_default();
        let kind = (slice.way, slice.after, slice.deep || assume_partial_writes);
        let into = of_app.entry(kind).or_insert_with(|| Merged {
            names: (header.project, header.app),
            position: stored.position,
            received_at_ms: header.received_at_ms,
            levels: slice.levels,
            runs: Vec::new(),
            seen: HashSet::new(),
        });
        into.position = into.position.max(stored.position);
        into.levels = into.levels.min(slice.levels);
        let new = runs
            .into_iter()
            .filter(|(run, _)| into.seen.insert(run.clone()));
        into.runs.extend(new);
    }
    for slices in merged.into_values() {
        let mut of_app = VecDeque::new();
        for ((way, after, deep), merged) in slices {
            let slice = Slice {
                way,
                after,
                deep,
                levels: merged.levels,
            };
            let (project, app) = &merged.names;
            let records = self::records(project, app, &merged.runs, &slice, merged.received_at_ms);
            of_app.extend(at(merged.position, records.collect()));
        }
        by_app.push(of_app);
    }
    let mut in_turn = VecDeque::new();
    while !by_app.is_empty() {
        in_turn.extend(by_app.iter_mut().filter_map(VecDeque::pop_front));
        by_app.retain(|of_app| !of_app.is_empty());
    }
    in_turn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(app: &str, offset: u64, runs: &[&str], slice: &Slice) -> Vec<StoredRecord> {
        let runs: Vec<_> = runs.iter().map(|run| ((*run).to_owned(), 0)).collect();
        let (project, app) = (ProjectId::new("p"), AppId::new(app));
        let records = records(&project, &app, &runs, slice, 0).collect();
        at(
            Position {
                partition: 0,
                offset,
            },
            records,
        )
    }

    #[test]
    fn equal_slices_become_one_and_apps_stand_in_turn() {
        let down = Slice {
            way: Way::Down,
            after: String::new(),
            deep: false,
            levels: 9,
        };
        let later = Slice {
            after: "c".to_owned(),
            ..down.clone()
        };
        let fewer = Slice {
            levels: 4,
            ..down.clone()
        };
        let mut records = stored("a", 1, &["x", "y"], &down);
        records.extend(stored("a", 2, &["y", "z"], &fewer));
        records.extend(stored("a", 3, &["x"], &later));
        records.extend(stored("b", 4, &["x"], &down));
        assert!(merge(records.clone(), true).iter().all(decode::is_deep));
        let merged = merge(records, false);
        let read = |stored: &StoredRecord| {
            let reprice = Reprice::decode(&stored.record.payload).unwrap();
            let runs: Vec<String> = reprice.runs.into_iter().map(|(run, _)| run).collect();
            let key = String::from_utf8(stored.record.key.to_vec()).unwrap();
            (
                key,
                stored.position.offset,
                runs.concat(),
                reprice.slice.unwrap().levels,
            )
        };
        let merged: Vec<_> = merged.iter().map(read).collect();
        let expected = [("p/a", 2, "xyz", 4), ("p/b", 4, "x", 9), ("p/a", 3, "x", 9)];
        let expected = expected
            .map(|(key, offset, runs, levels)| (key.to_owned(), offset, runs.to_owned(), levels));
        assert_eq!(merged, expected);
    }
}
