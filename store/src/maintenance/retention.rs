//! Drops whole days of data older than the limit of their project, except what is kept.
//!
//! What is kept is a set of projects and hashes of run ids in a separate table ([`kept`]), which may be large. A day of
//! a table is dropped as a whole if nothing in it is kept, and otherwise replaced by a copy of what is ([`days`]).
//! Nothing is gone for good before the caller decides it: the original days stay beside the tables, as links to the
//! same files, until it is certain that no save was in flight ([`back`]).
//!
//! Every step can be repeated, and is when the process died in it. One caller at a time; the work tables have fixed
//! names.

mod back;
mod days;
mod kept;

use clickhouse::query::Query;

pub use back::{BackEvent, UnresolvedRun};
pub use days::{Day, DayTable, Going};

use crate::client::Store;
use crate::error::StoreError;
use crate::maintenance::statement;

/// The hash of a row's run, as [`crate::reads::states::run_hash`].
pub(crate) const RUN: &str = "xxh3(concat(project_id, '\\0', app_id, '\\0', run_id))";
/// A row's run in the work tables. With its project: a client that chooses ids can make hashes collide, and no tenant's
/// run may keep, or drop, or bring back another's (T1).
const KEY: &str = "(project_id, xxh3(concat(project_id, '\\0', app_id, '\\0', run_id)))";
/// The parent of a row's run, likewise.
const PARENT: &str = "(project_id, xxh3(concat(project_id, '\\0', app_id, '\\0', parent_run_id)))";
/// The run that counts a row's model call, likewise.
const COUNTED: &str =
    "(project_id, xxh3(concat(project_id, '\\0', app_id, '\\0', counted_run_id)))";
/// The nearest model call above a row's run, likewise.
const ENCLOSING: &str =
    "(project_id, xxh3(concat(project_id, '\\0', app_id, '\\0', enclosing_call)))";
/// A read of current rows: keys never leave their partition, and no index may hide the newer row of a key.
const CURRENT: &str =
    "do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 0";

/// One project's limit: data completely before it is older than the project keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub project_id: String,
    /// Start of the first day that is kept, Unix milliseconds.
    pub cutoff_ms: i64,
}

/// Retention over the tables of one store.
#[derive(Clone)]
pub struct Retention {
    store: Store,
}

impl Store {
    /// The days after which the data of each project is dropped; 0 keeps it for ever.
    pub async fn retention_days(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let sql = "SELECT project_id, retention_days FROM projects FINAL ORDER BY project_id";
        self.bounded_query(sql).rows().await
    }

    /// Whether anything was dropped, or requested to be, between two points in time. Dry runs, failed and canceled jobs
    /// do not count, nor do jobs of a clock that was ahead.
    pub async fn retention_between(&self, since_ms: i64, now_ms: i64) -> Result<bool, StoreError> {
        let sql = "SELECT count() FROM jobs FINAL WHERE kind = 'retention' AND state IN ('queued', 'running', 'done') \
                   AND created_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC') \
                   AND created_at <= fromUnixTimestamp64Milli({now:Int64}, 'UTC') \
                   AND NOT JSONExtractBool(parameters, 'dry_run')";
        let found: u64 = self
            .bounded_query(sql)
            .param("since", since_ms)
            .param("now", now_ms)
            .one()
            .await?;
        Ok(found > 0)
    }

    /// When the newest row with a time of the server was stored: events by their acceptance, jobs, projects and
    /// migrations. Unix milliseconds.
    pub async fn newest_stored_ms(&self) -> Result<i64, StoreError> {
        let sql = "SELECT toUnixTimestamp64Milli(greatest((SELECT max(received_at) FROM events), \
                     (SELECT max(updated_at) FROM jobs), (SELECT max(created_at) FROM projects), \
                     (SELECT max(applied_at) FROM migrations)))";
        self.bounded_query(sql).one().await
    }

    /// When the first project was created, Unix milliseconds: the age of the deployment. `None` before that.
    pub async fn first_project_ms(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT count(), toUnixTimestamp64Milli(min(created_at)) FROM projects";
        let (rows, first_ms): (u64, i64) = self.bounded_query(sql).one().await?;
        Ok((rows > 0).then_some(first_ms))
    }

    pub fn retention(&self) -> Retention {
        Retention {
            store: self.clone(),
        }
    }
}

impl Retention {
    /// Creates missing work tables; existing ones keep their rows.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        self.store.only_on_one_server(
            "retention by project",
            "set a TTL on the tables that end in `_local`",
        )?;
        for (name, columns) in [
            (
                "retention_limits",
                "project_id String, cutoff DateTime64(3, 'UTC')",
            ),
            ("retention_kept", "key Tuple(String, UInt64), way UInt8"),
            (
                "retention_links",
                "key Tuple(String, UInt64), parent Tuple(String, UInt64), is_message UInt8",
            ),
            ("retention_gone", "key Tuple(String, UInt64)"),
            ("retention_waiting", "key Tuple(String, UInt64)"),
        ] {
            let (order, _) = columns.split_once(' ').unwrap_or_default();
            self.run(&format!(
                "CREATE TABLE IF NOT EXISTS {name} ({columns}) ENGINE = MergeTree ORDER BY {order}"
            ))
            .await?;
        }
        for table in DayTable::ALL {
            for name in [table.copy(), table.before()] {
                self.run(&format!(
                    "CREATE TABLE IF NOT EXISTS {name} AS {}",
                    table.name()
                ))
                .await?;
            }
        }
        Ok(())
    }

    /// Sets the limits. Projects without a limit keep everything.
    pub async fn set_limits(&self, limits: &[Limit]) -> Result<(), StoreError> {
        self.run("TRUNCATE TABLE retention_limits").await?;
        // Two hundred at a time, of 256 bytes that may all need an escape, fit into a parameter, which is limited to
        // 128 KiB.
        for limits in limits.chunks(200) {
            let projects: Vec<&str> = limits.iter().map(|limit| &*limit.project_id).collect();
            let cutoffs: Vec<i64> = limits.iter().map(|limit| limit.cutoff_ms).collect();
            let sql = "INSERT INTO retention_limits SELECT row.1, fromUnixTimestamp64Milli(row.2, 'UTC') FROM (\
                         SELECT arrayJoin(arrayZip({projects:Array(String)}, {cutoffs:Array(Int64)})) AS row)";
            let query = self.statement(sql);
            statement::finish(query.param("projects", projects).param("cutoffs", cutoffs)).await?;
        }
        Ok(())
    }

    /// Deletes the original days and all work tables. From here on dropped data is gone.
    pub async fn forget(&self) -> Result<(), StoreError> {
        for table in DayTable::ALL {
            for name in [table.copy(), table.before()] {
                self.run(&format!("DROP TABLE IF EXISTS {name} SYNC"))
                    .await?;
            }
        }
        for name in ["kept", "links", "limits", "gone", "wanted"] {
            self.run(&format!("DROP TABLE IF EXISTS retention_{name} SYNC"))
                .await?;
        }
        Ok(())
    }

    /// Executes a statement that may take long, without external values.
    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        statement::finish(self.statement(sql)).await
    }

    fn statement(&self, sql: &str) -> Query {
        statement::of(&self.store, sql).with_setting("max_insert_threads", "1")
    }
}
