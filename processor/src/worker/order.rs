//! In which steps gathered records are stored, and what is committed after each of them.
//!
//! Rows of a day before yesterday go into a part of their own, which costs some tens of milliseconds, so a step holds
//! few such days, and records without any are stored first: one tenant's import of history does not hold up the newest
//! runs of the others. Storing out of order is harmless (P2). An offset is committed only when every record below it is
//! stored (P1).

use std::collections::{BTreeMap, BTreeSet};

use eventlog::StoredRecord;

use crate::decode;

/// Old days in one step: about one to two seconds of storing.
const OLD_DAYS_PER_STEP: usize = 32;
/// Bytes a run takes while it is priced again for each byte that names it: 3 KB for about 60.
const REPRICE_WEIGHT: usize = 50;

/// What a record counts against the bound on a micro-batch: its bytes, and the runs it names that have to be read.
pub(super) fn weight(record: &StoredRecord) -> usize {
    let names = match decode::is_reprice(record) && !decode::is_slice(record) {
        true => REPRICE_WEIGHT,
        false => 1,
    };
    record.record.payload.len().saturating_mul(names)
}

/// Records that are stored in one step.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) records: Vec<StoredRecord>,
    /// Whether any of them may have been stored in part before; see [`crate::batch::Sources::careful`].
    pub(super) careful: bool,
    /// Offsets to commit once this part and all before it are stored, by partition.
    pub(super) commit: BTreeMap<u32, u64>,
    /// Whether those offsets are above all of its records.
    pub(super) is_covered: bool,
    /// Whether its records go on with changes in large trees: a while of work instead of one step.
    pub(super) is_slices: bool,
}

/// Cuts records into steps of at most this weight each: those without old days first, slices last, else in order. Nearly
/// always one.
pub(super) fn parts(records: Vec<(StoredRecord, bool)>, most: usize) -> Vec<Part> {
    let (slices, events): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|(record, _)| decode::is_slice(record));
    let with_days = events.into_iter().map(|(record, careful)| {
        let days = decode::old_days(&record);
        (record, careful, days)
    });
    let (mut slow, fast): (Vec<_>, Vec<_>) = with_days.partition(|(_, _, days)| !days.is_empty());
    // Records of the same days next to each other: a step stores a day once however many of them there are.
    slow.sort_by(|(_, _, a), (_, _, b)| a.cmp(b));
    let mut parts: Vec<Part> = Vec::new();
    for records in [fast, slow] {
        let mut room = 0;
        let mut days = BTreeSet::new();
        for (at, (record, careful, old_days)) in records.into_iter().enumerate() {
            let weight = weight(&record);
            days.extend(&old_days);
            if at == 0 || weight > room || days.len() > OLD_DAYS_PER_STEP {
                parts.push(Part::default());
                room = most;
                days = old_days.into_iter().collect();
            }
            room = room.saturating_sub(weight);
            if let Some(part) = parts.last_mut() {
                part.careful |= careful;
                part.records.push(record);
            }
        }
    }
    if !slices.is_empty() {
        parts.push(Part {
            careful: slices.iter().any(|(_, careful)| *careful),
            records: slices.into_iter().map(|(record, _)| record).collect(),
            is_slices: true,
            ..Part::default()
        });
    }
    set_commits(&mut parts);
    parts
}

fn set_commits(parts: &mut [Part]) {
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for record in parts.iter().flat_map(|part| &part.records) {
        let end = ends.entry(record.position.partition).or_insert(0);
        *end = record.position.offset.saturating_add(1).max(*end);
    }
    // From the last part on, each offset is at most the first of the records that are stored later.
    for part in parts.iter_mut().rev() {
        let of = |record: &StoredRecord| (record.position.partition, record.position.offset);
        part.is_covered = true;
        for (partition, offset) in part.records.iter().map(of) {
            let end = ends.get(&partition).copied().unwrap_or(0);
            part.commit.insert(partition, end);
            part.is_covered &= offset < end;
        }
        for (partition, offset) in part.records.iter().map(of) {
            ends.entry(partition)
                .and_modify(|end| *end = offset.min(*end));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use eventlog::{Position, Record};
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
            let given = records.iter().cloned().map(|record| (record, false)).collect();
            let parts = parts(given, 1000);
            let mut stored: Vec<(u32, u64)> = Vec::new();
            let mut committed = BTreeMap::new();
            for part in &parts {
                prop_assert!(!part.records.is_empty());
                let place = |record: &StoredRecord| (record.position.partition, record.position.offset);
                stored.extend(part.records.iter().map(place));
                for (partition, end) in &part.commit {
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
            prop_assert!(parts.last().is_none_or(|part| part.is_covered));
        }
    }

    #[test]
    fn old_days_are_stored_last_and_few_in_a_step_x1() {
        let records = [(0, 0), (1, 20), (2, 0), (3, 20), (4, 3), (5, 0), (6, 25)];
        let records = records.map(|(offset, days)| (record(0, offset, 10, days), offset == 4));
        let parts = parts(records.into(), 64 << 20);
        let offsets: Vec<Vec<u64>> = parts
            .iter()
            .map(|part| {
                let offsets = part.records.iter().map(|record| record.position.offset);
                offsets.collect()
            })
            .collect();
        assert_eq!(offsets, [vec![0, 2, 5], vec![1, 6], vec![3, 4]]);
        let commits: Vec<u64> = parts.iter().map(|part| part.commit[&0]).collect();
        assert_eq!(commits, [1, 3, 7]);
        let of = |is: fn(&Part) -> bool| parts.iter().map(is).collect::<Vec<_>>();
        assert_eq!(of(|part| part.is_covered), [false, false, true]);
        assert_eq!(of(|part| part.careful), [false, false, true]);
    }
}
