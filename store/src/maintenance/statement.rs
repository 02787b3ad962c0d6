//! Statements over whole tables.

use std::time::Duration;

use clickhouse::query::Query;

use crate::client::Store;
use crate::error::StoreError;

/// Time-out of one statement: the copy of a day of many millions of rows takes minutes.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Memory of one statement: a set of ten million hashes and the blocks of a copy.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// A statement with the bounds of its time, memory and threads.
pub(super) fn of(store: &Store, sql: &str) -> Query {
    store
        .client
        .query_raw(sql)
        .with_setting("max_execution_time", TIMEOUT.as_secs().to_string())
        .with_setting("max_memory_usage", MEMORY_BYTES.to_string())
        .with_setting("max_threads", "2")
        .with_setting("max_partitions_per_insert_block", "0")
}

pub(super) async fn finish(statement: Query) -> Result<(), StoreError> {
    let limit = TIMEOUT + Duration::from_secs(2);
    match tokio::time::timeout(limit, statement.execute()).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(StoreError::TimedOut(limit)),
    }
}
