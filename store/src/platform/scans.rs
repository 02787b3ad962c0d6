//! Results of platform scans: each is written once, and listed newest first.
//!
//! A scan is two JSON texts in the caller's format: the complete report, and a digest for lists. They are dropped by
//! age (`TTL` of the table).
//!
//! No read here is merged (`FINAL`): a row is written once, and merging would read every report to show one.

use bytes::BytesMut;
use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::tables::row_binary::Column as _;

/// Maximum number of scans on a page.
pub const SCANS_LISTED_MAX: usize = 100;

const COLUMNS: &str = "scanned_at, scan_id, version, scanned_by, digest, report";

/// Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Scan {
    /// When the scan ended.
    pub scanned_at: i64,
    pub scan_id: String,
    /// The requester.
    pub scanned_by: String,
    /// JSON for lists.
    pub digest: String,
    /// JSON; empty in lists.
    pub report: String,
}

/// A position in the history: the scan with this time and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPlace {
    /// When the scan ended, Unix milliseconds.
    pub scanned_at: i64,
    pub scan_id: String,
}

impl Store {
    /// Durable when it returns; repeating it changes nothing.
    pub async fn put_scan(&self, scan: &Scan) -> Result<(), StoreError> {
        // As the body of an insert: a report may be larger than a parameter of a statement.
        let sql = format!("INSERT INTO scans ({COLUMNS}) FORMAT RowBinary");
        let timeouts = (self.config.send_timeout, self.config.insert_timeout);
        let mut insert = self
            .client
            .insert_formatted_with(sql)
            .with_timeouts(Some(timeouts.0), Some(timeouts.1))
            .with_setting("async_insert", "0");
        let mut row = BytesMut::new();
        scan.scanned_at.put(&mut row);
        scan.scan_id.as_str().put(&mut row);
        scan.scanned_at.unsigned_abs().put(&mut row);
        for text in [&scan.scanned_by, &scan.digest, &scan.report] {
            text.as_str().put(&mut row);
        }
        insert.send(row.freeze()).await?;
        insert.end().await?;
        Ok(())
    }

    /// With its report.
    pub async fn last_scan(&self) -> Result<Option<Scan>, StoreError> {
        let sql = "SELECT toUnixTimestamp64Milli(scanned_at) AS scanned_at, scan_id, scanned_by, digest, report \
            FROM scans PREWHERE scans.scanned_at = (SELECT max(scanned_at) FROM scans) \
            ORDER BY scan_id DESC LIMIT 1";
        self.bounded_query(sql).optional().await
    }

    /// With its report.
    pub async fn scan(&self, scan_id: &str) -> Result<Option<Scan>, StoreError> {
        let sql = "SELECT toUnixTimestamp64Milli(scanned_at) AS scanned_at, scan_id, scanned_by, digest, report \
            FROM scans PREWHERE scan_id = {scan_id:String} LIMIT 1";
        self.bounded_query(sql)
            .param("scan_id", scan_id)
            .optional()
            .await
    }

    /// Scans before a position, or from the newest on: at most `limit`, newest first, without their reports.
    pub async fn scans(
        &self,
        before: Option<&ScanPlace>,
        limit: usize,
    ) -> Result<Vec<Scan>, StoreError> {
        let sql = "SELECT toUnixTimestamp64Milli(scanned_at) AS scanned_at, scan_id, scanned_by, digest, '' AS report \
            FROM scans \
            WHERE (scans.scanned_at, scan_id) < (fromUnixTimestamp64Milli({before:Int64}, 'UTC'), {before_id:String}) \
            ORDER BY scans.scanned_at DESC, scan_id DESC LIMIT 1 BY scan_id LIMIT {limit:UInt64}";
        // 2299-12-31, the last time in the column's range: after every scan.
        const END_MS: i64 = 10_413_791_999_999;
        let (at, id) = before.map_or((END_MS, ""), |place| (place.scanned_at, &place.scan_id));
        self.bounded_query(sql)
            .param("before", at.clamp(0, END_MS))
            .param("before_id", id)
            .param("limit", limit.min(SCANS_LISTED_MAX + 1) as u64)
            .rows()
            .await
    }
}
