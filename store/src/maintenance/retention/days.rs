//! Days of the tables: what of them is dropped, and dropping it.

use clickhouse::Row;
use serde::Deserialize;

use super::{CURRENT, KEY, Retention};
use crate::client::query::ReadBounds;
use crate::error::StoreError;
use crate::maintenance::statement;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Counting what is dropped of one day.
const COUNT_BOUNDS: ReadBounds = ReadBounds {
    time: std::time::Duration::from_secs(600),
    result_rows: 1_000_000,
    result_bytes: 256 << 20,
    memory_bytes: 1 << 30,
    threads: 2,
};

/// A table that retention drops by day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DayTable {
    /// By their start.
    Runs,
    /// By their own time.
    Events,
    /// By their time.
    Messages,
    /// By its time.
    Feedback,
}

impl DayTable {
    /// Runs first: without them the rest is not read.
    pub const ALL: [Self; 4] = [Self::Runs, Self::Events, Self::Messages, Self::Feedback];

    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Events => "events",
            Self::Messages => "messages",
            Self::Feedback => "feedback",
        }
    }

    /// The table with the copy of the rows that stay.
    pub(super) fn copy(self) -> String {
        format!("retention_copy_{}", self.name())
    }

    /// The table with the original days.
    pub(super) fn before(self) -> String {
        format!("retention_before_{}", self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    pub table: DayTable,
    /// The name of the partition: `20261120`.
    pub id: String,
    /// Its first moment, Unix milliseconds.
    pub start_ms: i64,
    /// Rows in it, replaced ones included.
    pub rows: u64,
    pub bytes: u64,
}

/// What is dropped of one project on one day.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Going {
    pub project_id: String,
    /// Rows that reads return.
    pub rows: u64,
}

#[derive(Row, Deserialize)]
struct PartitionRow {
    partition_id: String,
    rows: u64,
    bytes: u64,
}

impl Retention {
    /// The days of a table of which something may be dropped: before the latest limit, oldest first.
    pub async fn days(&self, table: DayTable) -> Result<Vec<Day>, StoreError> {
        let sql = "SELECT partition_id, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts \
                   WHERE active AND database = currentDatabase() AND table = {table:String} \
                   GROUP BY partition_id ORDER BY partition_id";
        let query = self.store.bounded_query(sql).param("table", table.name());
        let rows: Vec<PartitionRow> = query.rows().await?;
        let sql = "SELECT toUnixTimestamp64Milli(max(cutoff)) FROM retention_limits";
        let latest: i64 = self.store.bounded_query(sql).one().await?;
        let days = rows.into_iter().filter_map(|row| {
            let start_ms = day_start_ms(&row.partition_id)?;
            (row.rows > 0 && start_ms + DAY_MS <= latest).then_some(Day {
                table,
                id: row.partition_id,
                start_ms,
                rows: row.rows,
                bytes: row.bytes,
            })
        });
        Ok(days.collect())
    }

    /// What is dropped of a day, by project, and the number of rows, including rows that no read returns.
    pub async fn going(&self, day: &Day) -> Result<(Vec<Going>, u64), StoreError> {
        let (table, goes) = (day.table.name(), goes());
        let sql = format!("SELECT count() FROM {table} WHERE {goes}");
        let all: u64 = self.count(&sql, day).one().await?;
        if all == 0 {
            return Ok((Vec::new(), 0));
        }
        let sql = format!(
            "SELECT project_id, count() AS rows FROM {table} FINAL WHERE {goes} \
             GROUP BY project_id ORDER BY project_id SETTINGS {CURRENT}"
        );
        Ok((self.count(&sql, day).rows().await?, all))
    }

    fn count(&self, sql: &str, day: &Day) -> crate::client::query::BoundedQuery {
        let query = self.store.bounded_query_within(sql, COUNT_BOUNDS);
        query
            .param("day", &day.id)
            .param("end", day.start_ms + DAY_MS)
    }

    /// A number that changes with every insert into the day, and with no merge.
    pub async fn mark(&self, day: &Day) -> Result<u64, StoreError> {
        let sql = "SELECT toUInt64(max(max_block_number)) FROM system.parts \
                   WHERE active AND database = currentDatabase() AND table = {table:String} AND partition_id = {day:String}";
        let query = self.store.bounded_query(sql);
        query
            .param("table", day.table.name())
            .param("day", &day.id)
            .one()
            .await
    }

    /// Copies the rows that stay, and sets the original day aside; `false` when nothing stays.
    pub async fn copy(&self, day: &Day) -> Result<bool, StoreError> {
        let (table, copy, before) = (day.table.name(), day.table.copy(), day.table.before());
        let id = partition(day)?;
        if day.table == DayTable::Runs {
            let sql = format!(
                "INSERT INTO retention_gone SELECT DISTINCT {KEY} FROM runs WHERE {}",
                goes()
            );
            self.over(&sql, day).await?;
        }
        self.run(&format!(
            "ALTER TABLE {before} REPLACE PARTITION ID {id} FROM {table}"
        ))
        .await?;
        self.run(&format!("TRUNCATE TABLE {copy}")).await?;
        let sql = format!(
            "INSERT INTO {copy} SELECT * FROM {table} WHERE _partition_id = {{day:String}} AND NOT ({})",
            goes()
        );
        self.over(&sql, day).await?;
        let stays: u64 = self
            .store
            .bounded_query(&format!(
                "SELECT count() FROM (SELECT 1 FROM {copy} LIMIT 1)"
            ))
            .one()
            .await?;
        Ok(stays > 0)
    }

    /// Replaces the day by its copy, atomically. No process may be writing into the day, and nothing may have been
    /// written since it was copied.
    pub async fn put_in_place(&self, day: &Day, stays: bool) -> Result<(), StoreError> {
        let (table, copy, id) = (day.table.name(), day.table.copy(), partition(day)?);
        self.store.forget_parts(table, &day.id).await?;
        if stays {
            self.run(&format!(
                "ALTER TABLE {table} REPLACE PARTITION ID {id} FROM {copy}"
            ))
            .await
        } else {
            self.run(&format!("ALTER TABLE {table} DROP PARTITION ID {id}"))
                .await
        }
    }

    /// Whether a statement that outlived its connection is still exchanging days of the table.
    pub async fn is_exchanging(&self, day: &Day) -> Result<bool, StoreError> {
        let sql = "SELECT count() FROM system.processes WHERE current_database = currentDatabase() \
                   AND startsWith(query, {begin:String})";
        let begin = format!("ALTER TABLE {} ", day.table.name());
        let query = self.store.bounded_query(sql).param("begin", begin);
        Ok(query.one::<u64>().await? > 0)
    }

    async fn over(&self, sql: &str, day: &Day) -> Result<(), StoreError> {
        let query = self.statement(sql);
        statement::finish(
            query
                .param("day", &day.id)
                .param("end", day.start_ms + DAY_MS),
        )
        .await
    }
}

/// The condition for rows of a day that are dropped: the limit of their project is behind the whole day, and nothing
/// keeps them. The day and its end are parameters.
fn goes() -> String {
    format!(
        "_partition_id = {{day:String}} \
         AND project_id IN (SELECT project_id FROM retention_limits WHERE cutoff >= fromUnixTimestamp64Milli({{end:Int64}}, 'UTC')) \
         AND {KEY} NOT IN (SELECT key FROM retention_kept)"
    )
}

/// The day as a literal: only digits.
fn partition(day: &Day) -> Result<String, StoreError> {
    let is_day = day.id.len() == 8 && day.id.bytes().all(|byte| byte.is_ascii_digit());
    if !is_day {
        return Err(StoreError::Shape(format!("`{}` is no day", day.id)));
    }
    Ok(format!("'{}'", day.id))
}

fn day_start_ms(id: &str) -> Option<i64> {
    let date = chrono::NaiveDate::parse_from_str(id, "%Y%m%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
}
