//! The text index of days that have ended: built once for each, apart from inserts and merges, whose speed it would
//! halve (docs/decisions/0008-search.md).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;

/// A day still receives runs for a while after its end; indexing it then would be wasted.
const REST_MS: UnixMs = 2 * 60 * 60 * 1000;
/// A day is indexed when more than one in so many of its runs is in no index: fewer are scanned faster.
const MISSING_PART: u64 = 10;
/// Time-out of the order; the engine does the work in the background.
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Row, Deserialize)]
struct Part {
    day: String,
    name: String,
    rows: u64,
}

impl Store {
    /// Orders the text index of one day that lacks it, the newest first. Returns the day, or `None` if there is nothing
    /// to do or the engine is still busy with the previous one.
    pub async fn index_texts(&self, now_ms: UnixMs) -> Result<Option<String>, StoreError> {
        if self.config.cluster.is_some() {
            // Only one server is asked which parts lack it; see docs/decisions/0016-clusters.md.
            return Ok(None);
        }
        let busy = "SELECT count() FROM system.mutations \
                    WHERE database = currentDatabase() AND table = 'runs' AND NOT is_done";
        if self.bounded_query(busy).one::<u64>().await? > 0 {
            return Ok(None);
        }
        let parts = "SELECT _partition_id, _part, count() FROM runs GROUP BY _partition_id, _part LIMIT 20000";
        let parts: Vec<Part> = self.bounded_query(parts).rows().await?;
        let indexed = "SELECT DISTINCT part_name FROM mergeTreeTextIndex(currentDatabase(), 'runs', 'by_text')";
        let indexed: Vec<String> = self.bounded_query(indexed).rows().await?;
        let Some(day) = lacking(&parts, &indexed, &day_of(now_ms - REST_MS)) else {
            return Ok(None);
        };
        let order = format!("ALTER TABLE runs MATERIALIZE INDEX by_text IN PARTITION ID '{day}'");
        self.execute(&order, ORDER_TIMEOUT).await?;
        Ok(Some(day))
    }
}

/// The newest day before `today` of which too much is in no index. Only valid days are returned.
fn lacking(parts: &[Part], indexed: &[String], today: &str) -> Option<String> {
    let indexed: HashSet<&str> = indexed.iter().map(String::as_str).collect();
    let mut days: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for part in parts {
        let (all, missing) = days.entry(&part.day).or_default();
        *all += part.rows;
        if !indexed.contains(part.name.as_str()) {
            *missing += part.rows;
        }
    }
    let is_day = |day: &str| day.len() == 8 && day.bytes().all(|digit| digit.is_ascii_digit());
    days.into_iter()
        .rev()
        .find(|(day, (all, missing))| is_day(day) && *day < today && missing * MISSING_PART > *all)
        .map(|(day, _)| day.to_owned())
}

fn day_of(time_ms: UnixMs) -> String {
    let time = chrono::DateTime::from_timestamp_millis(time_ms).unwrap_or_default();
    time.format("%Y%m%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ended_day_that_lacks_much_is_the_one() {
        let part = |day: &str, name: &str, rows| Part {
            day: day.to_owned(),
            name: name.to_owned(),
            rows,
        };
        let parts = [
            part("20261118", "a", 100),
            part("20261119", "b", 100),
            part("20261119", "c", 10),
            part("20261120", "d", 100),
            part("20261120", "e", 20),
            part("20261121", "f", 100),
        ];
        let lacks = |indexed: &[&str]| {
            let indexed: Vec<String> = indexed.iter().map(|name| (*name).to_owned()).collect();
            lacking(&parts, &indexed, "20261121")
        };
        assert_eq!(lacks(&[]).as_deref(), Some("20261120"));
        assert_eq!(lacks(&["d"]).as_deref(), Some("20261120"));
        assert_eq!(lacks(&["d", "e"]).as_deref(), Some("20261119"));
        assert_eq!(lacks(&["d", "e", "b"]).as_deref(), Some("20261118"));
        assert_eq!(lacks(&["d", "e", "b", "a"]), None);
    }
}
