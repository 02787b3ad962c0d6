//! What is kept: saved runs, their descendants and ancestors, and runs that cross the limit.

use super::{CURRENT, KEY, PARENT, Retention};
use crate::error::StoreError;

/// Why a run is kept; the numbers are in the table.
mod way {
    /// Saved, and there.
    pub(super) const SAVED: u8 = 0;
    /// A descendant of a saved run.
    pub(super) const BELOW: u8 = 1;
    /// An ancestor of a saved run.
    pub(super) const ABOVE: u8 = 2;
    /// It began before the limit and continued after it.
    pub(super) const ACROSS: u8 = 3;
    /// A message whose parent is one of these.
    pub(super) const MESSAGE: u8 = 4;
}

/// Levels of a tree that are followed. Cycles end by themselves, because a kept run is not kept again.
const LEVELS_MAX: usize = 10_000;

/// How to follow links from kept rows to further ones.
struct Levels {
    /// Why the found rows are kept.
    way: u8,
    /// The ways of kept rows to follow links from.
    from: &'static [u8],
    /// The column of the row that a link leads to.
    found: &'static str,
    /// The column of the row that a link comes from.
    known: &'static str,
    /// The condition on links.
    condition: &'static str,
}

impl Retention {
    /// Determines everything that is kept, by the current tables.
    pub async fn find_kept(&self) -> Result<(), StoreError> {
        self.run("TRUNCATE TABLE retention_kept").await?;
        self.run("TRUNCATE TABLE retention_links").await?;
        self.keep_saved().await?;
        self.keep_across().await?;
        if self.kept_count().await? == 0 {
            return Ok(());
        }
        self.find_links().await?;
        self.keep_levels(Levels {
            way: way::BELOW,
            from: &[way::SAVED, way::BELOW],
            found: "key",
            known: "parent",
            condition: "1",
        })
        .await?;
        self.keep_levels(Levels {
            way: way::ABOVE,
            from: &[way::SAVED, way::ABOVE],
            found: "parent",
            known: "key",
            condition: "is_message = 0",
        })
        .await?;
        self.keep_levels(Levels {
            way: way::MESSAGE,
            from: &[way::ABOVE, way::ACROSS, way::MESSAGE],
            found: "key",
            known: "parent",
            condition: "is_message = 1",
        })
        .await
    }

    async fn kept_count(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count() FROM retention_kept";
        self.store.bounded_query(sql).one().await
    }

    /// Whether a run was saved since a point in time that is not yet among the kept ones: then they have to be
    /// determined again. A save of a run that was dropped a moment ago waits like one that came before its run.
    pub async fn has_new_saves(&self, since_ms: i64) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT count() FROM (SELECT 1 FROM runs WHERE saved = 1 AND (is_deleted = 0 OR {KEY} IN (SELECT key FROM retention_gone)) \
               AND updated_at >= fromUnixTimestamp64Milli({{since:Int64}}, 'UTC') \
               AND project_id IN (SELECT project_id FROM retention_limits) \
               AND {KEY} NOT IN (SELECT key FROM retention_kept WHERE way = {}) LIMIT 1)",
            way::SAVED
        );
        let query = self.store.bounded_query(&sql).param("since", since_ms);
        let found: u64 = query.one().await?;
        Ok(found > 0)
    }

    /// Saved runs, including dropped ones that were saved a moment ago. The newest row of a run decides, whatever its
    /// start: a row left at another start is outdated. A save that waits for its run keeps what is there: a message
    /// with this id, and what is below it.
    async fn keep_saved(&self) -> Result<(), StoreError> {
        let saved = way::SAVED;
        let rows = format!(
            "(SELECT project_id, app_id, run_id, saved, version, is_deleted FROM runs UNION ALL \
              SELECT project_id, app_id, run_id, saved, version, is_deleted FROM retention_before_runs WHERE {KEY} IN (SELECT key FROM retention_gone))"
        );
        let keys = |is_waiting: u8| {
            format!(
                "SELECT {KEY} AS key FROM {rows} \
                 WHERE project_id IN (SELECT project_id FROM retention_limits) AND {KEY} IN (SELECT {KEY} FROM {rows} WHERE saved = 1) \
                 GROUP BY project_id, app_id, run_id HAVING argMax(saved, version) = 1 AND min(is_deleted) = {is_waiting}"
            )
        };
        self.run(&format!(
            "INSERT INTO retention_kept SELECT key, {saved} FROM ({})",
            keys(0)
        ))
        .await?;
        self.run("TRUNCATE TABLE retention_waiting").await?;
        self.run(&format!("INSERT INTO retention_waiting {}", keys(1)))
            .await?;
        if self.is_empty("retention_waiting").await? {
            return Ok(());
        }
        let there = [
            (KEY, "messages"),
            (KEY, "retention_before_messages"),
            (PARENT, "messages"),
            (PARENT, "retention_before_messages"),
            (PARENT, "runs"),
            (PARENT, "retention_before_runs"),
        ];
        let there = there.map(|(key, table)| {
            format!("SELECT {key} AS key FROM {table} WHERE {key} IN (SELECT key FROM retention_waiting)")
        });
        self.run(&format!(
            "INSERT INTO retention_kept SELECT DISTINCT key, {saved} FROM ({})",
            there.join(" UNION ALL ")
        ))
        .await
    }

    /// Runs with data before and after the limit.
    async fn keep_across(&self) -> Result<(), StoreError> {
        let across = way::ACROSS;
        self.run(&format!(
            "INSERT INTO retention_kept SELECT {KEY}, {across} FROM runs FINAL \
             INNER JOIN retention_limits USING project_id \
             WHERE greatest(started_at, last_event_at) >= cutoff \
               AND least(started_at, first_event_at, ifNull(feedback_at, started_at)) < cutoff \
             SETTINGS {CURRENT}"
        ))
        .await
    }

    /// The parents of all runs, and of dropped runs that may come back.
    async fn find_links(&self) -> Result<(), StoreError> {
        for (table, condition, is_message) in [
            ("runs", "1", 0),
            (
                "retention_before_runs",
                "{run} IN (SELECT key FROM retention_gone)",
                0,
            ),
            ("messages", "1", 1),
            ("retention_before_messages", "1", 1),
        ] {
            let condition = condition.replace("{run}", KEY);
            self.run(&format!(
                "INSERT INTO retention_links SELECT {KEY}, {PARENT}, {is_message} FROM {table} FINAL \
                 WHERE parent_run_id != '' AND project_id IN (SELECT project_id FROM retention_limits) AND {condition} \
                 SETTINGS {CURRENT}"
            ))
            .await?;
        }
        Ok(())
    }

    /// Keeps, level by level, the `found` ends of links whose `known` ends are kept.
    async fn keep_levels(&self, levels: Levels) -> Result<(), StoreError> {
        let Levels {
            way,
            from,
            found,
            known,
            condition,
        } = levels;
        let from: Vec<String> = from.iter().map(u8::to_string).collect();
        let from = from.join(", ");
        let mut before = self.kept_count().await?;
        for _ in 0..LEVELS_MAX {
            self.run(&format!(
                "INSERT INTO retention_kept SELECT DISTINCT {found}, {way} FROM retention_links \
                 WHERE {condition} AND {known} IN (SELECT key FROM retention_kept WHERE way IN ({from})) \
                   AND {found} NOT IN (SELECT key FROM retention_kept WHERE way IN ({way}, 0))"
            ))
            .await?;
            let after = self.kept_count().await?;
            if after == before {
                break;
            }
            before = after;
        }
        Ok(())
    }
}
