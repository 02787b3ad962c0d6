//! Divides gathered records into steps, and decides what is committed after each step.
//!
//! Rows of a day before yesterday go into a part of their own, which costs some tens of milliseconds. So a step holds
//! few such days, and records without any are stored first: one tenant's import of history does not delay the newest
//! runs of the others. Storing out of order is harmless (P2). An offset is committed only when every record below it is
//! stored (P1).

use std::collections::{BTreeMap, BTreeSet};

use eventlog::{Position, StoredRecord};

use crate::step::decode;

/// Old days in one step: about one to two seconds of storing.
const OLD_DAYS_PER_STEP: usize = 32;
/// Bytes that repricing a run takes per byte of its id: 3 KB for about 60.
const REPRICE_WEIGHT: usize = 50;

#[derive(Clone, Debug)]
pub(super) struct PlannedRecord {
    pub(super) record: StoredRecord,
    pub(super) assume_partial_writes: bool,
}

/// What a record counts towards the bound on a micro-batch: its bytes, and the runs to read that it names.
pub(super) fn weight(record: &StoredRecord) -> usize {
    let names = match decode::is_reprice(record) && !decode::is_slice(record) {
        true => REPRICE_WEIGHT,
        false => 1,
    };
    record.record.payload.len().saturating_mul(names)
}

#[derive(Debug, Default)]
pub(super) struct StepPlan {
    pub(super) records: Vec<StoredRecord>,
    /// See [`crate::step::Sources::assume_partial_writes`].
    pub(super) assume_partial_writes: bool,
    /// By partition, the offsets to commit once this step and all before it are stored.
    pub(super) commit: BTreeMap<u32, u64>,
    /// Whether those offsets are above all of its records.
    pub(super) is_covered: bool,
    /// Whether its records continue changes in large trees: about a second of work instead of one step.
    pub(super) is_slices: bool,
}

/// Divides records into steps of at most `max_weight`: records without old days first, slices last, else in order.
/// Nearly always one step.
pub(super) fn plan(records: Vec<PlannedRecord>, max_weight: usize) -> Vec<StepPlan> {
    let (slices, events): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|planned| decode::is_slice(&planned.record));
    let with_days = events.into_iter().map(|planned| {
        let days = decode::old_days(&planned.record);
        (planned, days)
    });
    let (mut slow, fast): (Vec<_>, Vec<_>) = with_days.partition(|(_, days)| !days.is_empty());
    // Records of the same days side by side: a step stores a day once, no matter how many of its records it holds.
    slow.sort_by(|(_, a), (_, b)| a.cmp(b));
    let mut steps: Vec<StepPlan> = Vec::new();
    for records in [fast, slow] {
        let mut room = 0;
        let mut days = BTreeSet::new();
        for (at, (planned, old_days)) in records.into_iter().enumerate() {
            let weight = weight(&planned.record);
            days.extend(&old_days);
            if at == 0 || weight > room || days.len() > OLD_DAYS_PER_STEP {
                steps.push(StepPlan::default());
                room = max_weight;
                days = old_days.into_iter().collect();
            }
            room = room.saturating_sub(weight);
            if let Some(step) = steps.last_mut() {
                step.assume_partial_writes |= planned.assume_partial_writes;
                step.records.push(planned.record);
            }
        }
    }
    if !slices.is_empty() {
        steps.push(StepPlan {
            assume_partial_writes: slices.iter().any(|planned| planned.assume_partial_writes),
            records: slices.into_iter().map(|planned| planned.record).collect(),
            is_slices: true,
            ..StepPlan::default()
        });
    }
    set_commits(&mut steps);
    steps
}

fn set_commits(steps: &mut [StepPlan]) {
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for record in steps.iter().flat_map(|step| &step.records) {
        let end = ends.entry(record.position.partition).or_insert(0);
        *end = record.position.offset.saturating_add(1).max(*end);
    }
    // From the last step on, each offset is at most the first of the records that are stored later.
    for step in steps.iter_mut().rev() {
        step.is_covered = true;
        for Position { partition, offset } in step.records.iter().map(|record| record.position) {
            let end = ends.get(&partition).copied().unwrap_or(0);
            step.commit.insert(partition, end);
            step.is_covered &= offset < end;
        }
        for Position { partition, offset } in step.records.iter().map(|record| record.position) {
            ends.entry(partition)
                .and_modify(|end| *end = offset.min(*end));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use eventlog::Record;
    use proptest::prelude::*;
    use schemas::record::OLD_DAYS_HEADER;

    use super::*;

    fn record(partition: u32, offset: u64, bytes: usize, old_days: usize) -> StoredRecord {
        // Every five records the same days.
        let first = offset % 5 * 100;
        let days = (first..).take(old_days).map(|day| day.to_string());
        let days = days.collect::<Vec<_>>().join(",");
        let headers = (old_days > 0).then(|| (OLD_DAYS_HEADER.to_owned(), days));
        StoredRecord {
            position: Position { partition, offset },
            record: Record {
                key: Bytes::new(),
                headers: headers
                    .into_iter()
                    .map(|(name, value)| (name, value.into()))
                    .collect(),
                payload: vec![b'x'; bytes].into(),
            },
        }
    }

    fn planned(record: StoredRecord, assume_partial_writes: bool) -> PlannedRecord {
        PlannedRecord {
            record,
            assume_partial_writes,
        }
    }

    proptest! {
        #[test]
        fn nothing_is_committed_before_all_below_it_is_stored_p1(
            records in proptest::collection::vec((0u32..3, 1usize..400, 0usize..40), 0..30),
        ) {
            let mut offsets = [7u64; 3];
            let records: Vec<StoredRecord> = records.into_iter().map(|(partition, bytes, old_days)| {
                let old_days = old_days.saturating_sub(20);
                let offset = &mut offsets[partition as usize];
                *offset += 1;
                record(partition, *offset - 1, bytes, old_days)
            }).collect();
            let given = records.iter().cloned().map(|record| planned(record, false)).collect();
            let steps = plan(given, 1000);
            let mut stored: Vec<(u32, u64)> = Vec::new();
            let mut committed = BTreeMap::new();
            for step in &steps {
                prop_assert!(!step.records.is_empty());
                let place = |record: &StoredRecord| (record.position.partition, record.position.offset);
                stored.extend(step.records.iter().map(place));
                for (partition, end) in &step.commit {
                    let below = records.iter().map(place).filter(|(of, offset)| of == partition && offset < end);
                    for place in below {
                        prop_assert!(stored.contains(&place), "{place:?} is committed before it is stored");
                    }
                    committed.insert(*partition, *end);
                }
            }
            prop_assert_eq!(stored.len(), records.len());
            for (partition, end) in committed {
                prop_assert_eq!(end, offsets[partition as usize], "all of partition {} in the end", partition);
            }
            prop_assert!(steps.last().is_none_or(|step| step.is_covered));
        }
    }

    #[test]
    fn old_days_are_stored_last_and_few_in_a_step_x1() {
        let records = [(0, 0), (1, 20), (2, 0), (3, 20), (4, 3), (5, 0), (6, 25)];
        let records =
            records.map(|(offset, days)| planned(record(0, offset, 10, days), offset == 4));
        let steps = plan(records.into(), 64 << 20);
        let offsets: Vec<Vec<u64>> = steps
            .iter()
            .map(|step| {
                let offsets = step.records.iter().map(|record| record.position.offset);
                offsets.collect()
            })
            .collect();
        assert_eq!(offsets, [vec![0, 2, 5], vec![1, 6], vec![3, 4]]);
        let commits: Vec<u64> = steps.iter().map(|step| step.commit[&0]).collect();
        assert_eq!(commits, [1, 3, 7]);
        let of = |is: fn(&StepPlan) -> bool| steps.iter().map(is).collect::<Vec<_>>();
        assert_eq!(of(|step| step.is_covered), [false, false, true]);
        assert_eq!(of(|step| step.assume_partial_writes), [false, false, true]);
    }
}
