//! The parts of each partition, and what is missing of the recorded ones.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;

/// Tables from which only retention and rebuilds remove rows. Tables with a TTL are not among them.
const TABLES: [&str; 13] = [
    "api_keys",
    "deployment",
    "events",
    "feedback",
    "jobs",
    "messages",
    "migrations",
    "prices",
    "process_builds",
    "process_instances",
    "projects",
    "runs",
    "tokens",
];

/// A partition of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Partition {
    pub(super) table: String,
    pub(super) id: String,
}

impl Partition {
    /// The name in statements.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.table, self.id)
    }
}

/// The active parts of a partition: first block, last block and rows of each, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(Vec<(i64, i64, u64)>);

pub(super) type Seen = BTreeMap<Partition, Parts>;

#[derive(Row, Deserialize)]
pub(super) struct PartsRow {
    table_name: String,
    partition_id: String,
    parts: Vec<(i64, i64, u64)>,
}

pub(super) fn seen(rows: Vec<PartsRow>) -> Seen {
    let rows = rows.into_iter().map(|row| {
        let partition = Partition {
            table: row.table_name,
            id: row.partition_id,
        };
        (partition, Parts(row.parts))
    });
    rows.collect()
}

/// Reads the active parts of the tables, of partitions that satisfy a condition.
pub(super) fn parts_sql(condition: &str) -> String {
    let tables = TABLES.map(|table| format!("'{table}'")).join(", ");
    format!(
        "SELECT table AS table_name, partition_id, \
         arraySort(groupArray((min_block_number, max_block_number, rows))) AS parts FROM system.parts \
         WHERE active AND database = currentDatabase() AND table IN ({tables}) AND {condition} \
         GROUP BY table_name, partition_id"
    )
}

/// The partitions with losses, and the approximate number of rows.
pub(super) fn missing(noted: &Seen, now: &Seen) -> Vec<(Partition, u64)> {
    let lost = noted.iter().filter_map(|(partition, noted)| {
        let nothing = Parts::default();
        let now = now.get(partition).unwrap_or(&nothing);
        Some((partition.clone(), noted.missing_in(now)?))
    });
    lost.collect()
}

impl Parts {
    /// Approximate number of missing rows; `None` when every block is covered.
    fn missing_in(&self, now: &Self) -> Option<u64> {
        let is_covered = |(first, last, _): &(i64, i64, u64)| {
            // Parts may have been split again: after a power cut the sources of a merge may take its place.
            let mut next = *first;
            for (from, to, _) in &now.0 {
                if *from <= next && next <= *to {
                    next = to.saturating_add(1);
                }
            }
            next > *last
        };
        if self.0.iter().all(is_covered) {
            return None;
        }
        // Then there are gaps between those sources, where other partitions have their blocks. All rows are there.
        let newest = self.0.iter().map(|(_, last, _)| *last).max()?;
        let rows = |parts: &[(i64, i64, u64)]| -> u64 {
            let old = parts.iter().filter(|(first, _, _)| *first <= newest);
            old.map(|(_, _, rows)| rows).sum()
        };
        let lost = rows(&self.0).saturating_sub(rows(&now.0));
        (lost > 0).then_some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[(i64, i64, u64)]) -> Parts {
        Parts(parts.to_vec())
    }

    #[test]
    fn merges_inserts_and_duplicates_that_go_are_no_loss() {
        let noted = parts(&[(1, 1, 10), (3, 3, 10), (7, 9, 50)]);
        for now in [
            parts(&[(1, 1, 10), (3, 3, 10), (7, 9, 50)]),
            // Merged, with duplicates.
            parts(&[(1, 3, 12), (7, 9, 50), (10, 10, 5)]),
            parts(&[(1, 12, 40)]),
            parts(&[(1, 9, 1)]),
        ] {
            assert_eq!(noted.missing_in(&now), None, "{now:?}");
        }
    }

    #[test]
    fn parts_that_are_gone_are_missed_also_when_others_came() {
        let noted = parts(&[(1, 1, 10), (3, 3, 10), (7, 9, 50)]);
        for (now, lost) in [
            (parts(&[]), 70),
            (parts(&[(1, 3, 20)]), 50),
            (parts(&[(1, 1, 10), (7, 9, 50)]), 10),
            (parts(&[(3, 9, 60), (10, 20, 1000)]), 10),
        ] {
            assert_eq!(noted.missing_in(&now), Some(lost), "{now:?}");
        }
    }

    #[test]
    fn a_merge_that_a_power_cut_undid_is_no_loss() {
        let noted = parts(&[(1, 9, 60)]);
        assert_eq!(noted.missing_in(&parts(&[(1, 1, 20), (4, 9, 45)])), None);
        assert_eq!(noted.missing_in(&parts(&[(1, 4, 20), (5, 9, 40)])), None);
        assert_eq!(noted.missing_in(&parts(&[(4, 9, 45)])), Some(15));
    }

    #[test]
    fn a_partition_that_is_gone_is_missed_whole() {
        let partition = Partition {
            table: "events".to_owned(),
            id: "20261122".to_owned(),
        };
        let noted = Seen::from([(partition.clone(), parts(&[(1, 9, 60)]))]);
        assert_eq!(missing(&noted, &Seen::new()), [(partition, 60)]);
    }
}
