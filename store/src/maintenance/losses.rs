//! Detection of lost and damaged rows, because the engine silently detaches damaged parts, and does not miss parts
//! whose folders were removed.
//!
//! * **Damaged parts** are in `system.detached_parts`, with the reason.
//! * **Missing parts** are found by an inventory. An insert makes a part with a new block number, and a merge a part
//!   that covers the numbers of its sources, so a number that some part covered is covered for as long as nothing is
//!   lost. Rows are no measure: merges remove duplicates. Operations that remove partitions on purpose (retention, a
//!   rebuild) restart the inventory for them. The inventory is kept where only one process writes.
//!
//! This does not detect: rows that were stored and lost between two checks, bytes damaged inside of a part (a read of
//! them fails, by their checksum), and a folder that was replaced by an older one as a whole.

mod inventory;

use std::collections::BTreeSet;
use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;
use tokio::sync::watch;

use crate::client::Store;
pub use crate::client::process_state::StoredLoss;
use crate::error::StoreError;
use inventory::{Partition, Seen};

/// Losses that are logged by name; all are counted (X1).
const NAMED_MAX: usize = 20;
/// Partitions in one statement: their names fit into a parameter, which is limited to 128 KiB.
const NOTED_AT_ONCE: usize = 1000;
/// A version above all existing ones, whatever a clock said when they were made.
const VERSION: &str = "greatest(toUInt64(toUnixTimestamp64Micro(now64(6))), (SELECT max(version) + 1 FROM stored_parts))";
/// Time-out of storing the inventory of so many partitions.
const NOTE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Row, Deserialize)]
struct DetachedRow {
    table: String,
    path: String,
}

impl Store {
    /// The losses that the last check found.
    pub fn losses(&self) -> watch::Receiver<BTreeSet<StoredLoss>> {
        self.losses.subscribe()
    }

    /// Checks for damaged and missing parts, logs new ones, and records the existing parts. Costs a read of the
    /// engine's own tables. No retention and no rebuild may be running.
    pub async fn look_for_losses(&self) -> Result<(), StoreError> {
        let mut found = self.damaged_parts().await?;
        if self.keeps_inventory() {
            let now = self.parts_now().await?;
            let noted = self.noted_parts().await?;
            let missing = inventory::missing(&noted, &now);
            let lost: BTreeSet<Partition> = missing.iter().map(|(of, _)| of.clone()).collect();
            // Lost partitions stay recorded as they were, so that the next start finds them again.
            let changed = now.iter().filter(|(partition, parts)| {
                !lost.contains(partition) && noted.get(partition) != Some(parts)
            });
            let changed: Vec<Partition> = changed.map(|(partition, _)| partition.clone()).collect();
            found.extend(missing.into_iter().map(|(of, rows)| StoredLoss::Missing {
                table: of.table,
                partition: of.id,
                rows,
            }));
            self.note_parts(&changed).await?;
        }
        self.tell(found);
        Ok(())
    }

    /// Accepts the current parts as complete: the known losses were handled.
    pub async fn accept_losses(&self) -> Result<(), StoreError> {
        if !self.keeps_inventory() {
            return Ok(());
        }
        self.forget_where("1", &[]).await?;
        self.look_for_losses().await
    }

    /// Restarts the inventory of a table. Call it before the table is exchanged.
    pub(crate) async fn forget_table(&self, table: &str) -> Result<(), StoreError> {
        let condition = "table_name = {table:String}";
        self.forget_where(condition, &[("table", table)]).await
    }

    /// Restarts the inventory of a partition. Call it before the partition is dropped or replaced.
    pub(crate) async fn forget_parts(
        &self,
        table: &str,
        partition: &str,
    ) -> Result<(), StoreError> {
        let condition = "table_name = {table:String} AND partition_id = {partition:String}";
        let values = [("table", table), ("partition", partition)];
        self.forget_where(condition, &values).await
    }

    async fn forget_where(
        &self,
        condition: &str,
        values: &[(&str, &str)],
    ) -> Result<(), StoreError> {
        if !self.keeps_inventory() {
            return Ok(());
        }
        let sql = format!(
            "INSERT INTO stored_parts SELECT table_name, partition_id, {VERSION}, [] FROM stored_parts FINAL \
             WHERE notEmpty(parts) AND {condition}"
        );
        let query = self.client.query_raw(&sql);
        let query = values
            .iter()
            .fold(query, |query, (name, value)| query.param(name, value));
        self.written(query).await
    }

    fn keeps_inventory(&self) -> bool {
        self.config.standalone && self.config.cluster.is_none()
    }

    async fn damaged_parts(&self) -> Result<BTreeSet<StoredLoss>, StoreError> {
        let sql = "SELECT table, path FROM system.detached_parts \
                   WHERE database = currentDatabase() AND startsWith(ifNull(reason, ''), 'broken') \
                   ORDER BY table, name LIMIT 1000";
        let rows: Vec<DetachedRow> = self.bounded_query(sql).rows().await?;
        let damaged = rows.into_iter().map(|row| StoredLoss::Damaged {
            table: row.table,
            path: row.path,
        });
        Ok(damaged.collect())
    }

    async fn parts_now(&self) -> Result<Seen, StoreError> {
        let sql = inventory::parts_sql("1");
        Ok(inventory::seen(self.bounded_query(&sql).rows().await?))
    }

    async fn noted_parts(&self) -> Result<Seen, StoreError> {
        let sql = "SELECT table_name, partition_id, parts FROM stored_parts FINAL \
                   WHERE notEmpty(parts)";
        Ok(inventory::seen(self.bounded_query(sql).rows().await?))
    }

    async fn note_parts(&self, partitions: &[Partition]) -> Result<(), StoreError> {
        for some in partitions.chunks(NOTED_AT_ONCE) {
            let names: Vec<String> = some.iter().map(Partition::name).collect();
            let sql = format!(
                "INSERT INTO stored_parts SELECT table_name, partition_id, {VERSION}, parts FROM ({})",
                inventory::parts_sql(
                    "has({names:Array(String)}, concat(table, '/', partition_id))"
                )
            );
            self.written(self.client.query_raw(&sql).param("names", names))
                .await?;
        }
        Ok(())
    }

    async fn written(&self, query: clickhouse::query::Query) -> Result<(), StoreError> {
        match tokio::time::timeout(NOTE_TIMEOUT, query.execute()).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(StoreError::TimedOut(NOTE_TIMEOUT)),
        }
    }

    fn tell(&self, found: BTreeSet<StoredLoss>) {
        let count = |is_kind: fn(&StoredLoss) -> bool| {
            let of_kind = found.iter().filter(|loss| is_kind(loss));
            i64::try_from(of_kind.count()).unwrap_or(i64::MAX)
        };
        let lost = &self.metrics.lost_partitions;
        lost.with_label_values(&["missing"])
            .set(count(|loss| matches!(loss, StoredLoss::Missing { .. })));
        lost.with_label_values(&["damaged"])
            .set(count(|loss| matches!(loss, StoredLoss::Damaged { .. })));
        let known = self.losses.borrow().clone();
        let new: Vec<&StoredLoss> = found.difference(&known).collect();
        for loss in new.iter().take(NAMED_MAX) {
            tracing::error!(
                "{loss}; restore the data folder from a backup, or accept the loss: `spindle rebuild` makes the runs of \
                 the events that are left, and a damaged part is reported until its folder is removed"
            );
        }
        if new.len() > NAMED_MAX {
            tracing::error!(
                losses = new.len(),
                "more partitions have losses than are named"
            );
        }
        self.losses.send_if_modified(|known| {
            let is_other = *known != found;
            *known = found;
            is_other
        });
    }
}
