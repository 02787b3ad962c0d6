//! The location of the tables: one server, or the shards and replicas of a cluster.
//!
//! The migration files are the same for all; [`Dialect`] turns their statements into what the server needs. On a
//! cluster events, runs, messages, feedback and instances of processes are sharded: each shard has tables
//! `<name>_local`, and the plain names are `Distributed` tables over them. All data of an app is on one shard, so that
//! data that is read together is together. The small tables are replicated to every node. For the reasons, and what
//! does not work on a cluster, see docs/decisions/0016-clusters.md.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::client::Store;
use crate::client::config::StoreConfig;
use crate::error::StoreError;

/// The sharded tables.
const SHARDED: [&str; 5] = [
    "events",
    "runs",
    "messages",
    "feedback",
    "process_instances",
];
/// Determines the shard of a row.
const SHARDING_KEY: &str = "cityHash64(project_id, app_id)";
/// How long the number of replicas is cached: a removed replica blocks writers for this long.
const REPLICAS_AGE_MAX: Duration = Duration::from_secs(60);

/// A cluster of the servers' configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Name in `remote_servers`. Letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Whether tables are replicated, which needs Keeper and the macros `{shard}` and `{replica}`. If not, every shard
    /// has one node, and the migrations have to be applied to each of them separately.
    pub replicated: bool,
}

impl Cluster {
    /// With replicated tables.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            replicated: true,
        }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match !self.name.is_empty() && self.name.bytes().all(is_fine) {
            true => Ok(()),
            false => Err(StoreError::Invalid(format!(
                "`{}` is no name for a cluster: letters, digits, `_`, `-` and `.` only",
                self.name
            ))),
        }
    }

    /// Settings of every statement.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![
            // Subqueries about the same app are on the same shard.
            ("distributed_product_mode", "local"),
            ("optimize_skip_unused_shards", "1"),
            // An insert returns when the shards have it.
            ("distributed_foreground_insert", "1"),
        ];
        if self.replicated {
            // The small tables: writes are sequential, and each read sees all of them. Inserts into the sharded tables
            // override this, see `Store::replicas_of`.
            settings.extend([("insert_quorum", "auto"), ("insert_quorum_parallel", "0")]);
        }
        settings
    }
}

pub(crate) fn is_sharded(table: &str) -> bool {
    SHARDED.contains(&table)
}

/// Whether a read must see what was written through another replica: the small tables, whose newest row counts. Rows of
/// the sharded tables are on all replicas before their insert returns.
pub(crate) fn reads_small_tables(sql: &str) -> bool {
    !SHARDED
        .iter()
        .any(|table| sql.contains(&format!("FROM {table}")))
}

/// The number of replicas of a shard, and when it was read.
pub(crate) type ReplicaCount = Mutex<Option<(u32, Instant)>>;

impl Store {
    /// The cluster, if its tables are replicated.
    pub(crate) fn replicated(&self) -> Option<&Cluster> {
        let cluster = self.config.cluster.as_ref();
        cluster.filter(|cluster| cluster.replicated)
    }

    /// The number of replicas that an insert into a sharded table waits for: all of them. A read of a run before its
    /// fold continues must see every acknowledged row, whichever replica it reaches (P3).
    pub(crate) async fn replicas_of(&self, cluster: &Cluster) -> Result<u32, StoreError> {
        let mut known = self.replica_count.lock().await;
        if let Some((replicas, at)) = *known
            && at.elapsed() < REPLICAS_AGE_MAX
        {
            return Ok(replicas);
        }
        let sql = "SELECT toUInt32(max(replica_num)) FROM system.clusters WHERE cluster = {cluster:String}";
        let query = self.bounded_query(sql).param("cluster", &cluster.name);
        let replicas: u32 = query.one().await?;
        if replicas == 0 {
            return Err(StoreError::Invalid(format!(
                "the server knows no cluster `{}`: see `remote_servers` in its settings",
                cluster.name
            )));
        }
        *known = Some((replicas, Instant::now()));
        Ok(replicas)
    }

    /// Rejects work over whole tables that exchanges partitions or tables of one server.
    pub(crate) fn only_on_one_server(&self, what: &str, instead: &str) -> Result<(), StoreError> {
        match &self.config.cluster {
            None => Ok(()),
            Some(cluster) => Err(StoreError::Invalid(format!(
                "{what} works on one server only, not on the cluster `{}`: {instead}",
                cluster.name
            ))),
        }
    }
}

/// Translates statements of migrations: the one difference between a server and a cluster.
pub(crate) struct Dialect<'a> {
    database: &'a str,
    cluster: Option<&'a Cluster>,
}

impl<'a> Dialect<'a> {
    pub(crate) fn of(config: &'a StoreConfig) -> Self {
        Self {
            database: &config.database,
            cluster: config.cluster.as_ref(),
        }
    }

    /// `ON CLUSTER` where the servers distribute statements to the other nodes.
    pub(crate) fn on_cluster(&self) -> String {
        match self.cluster {
            Some(cluster) if cluster.replicated => format!("ON CLUSTER '{}'", cluster.name),
            _ => String::new(),
        }
    }

    /// The statements for this server or cluster. Replaces `@engine(...)`, `@on_cluster` and `@durable`.
    pub(crate) fn render(&self, statement: &str) -> Vec<String> {
        let table = table_of(statement);
        let Some(cluster) = self.cluster else {
            return vec![self.filled(statement, "ReplacingMergeTree(")];
        };
        let is_sharded = is_sharded(table);
        let local = if is_sharded {
            format!("{table}_local")
        } else {
            table.to_owned()
        };
        let engine = match (cluster.replicated, is_sharded) {
            (false, _) => "ReplacingMergeTree(".to_owned(),
            (true, true) => self.replicated_engine("{shard}", &local, "{replica}"),
            (true, false) => self.replicated_engine("all", &local, "{shard}-{replica}"),
        };
        let on_local = statement.replacen(&format!(" {table} @"), &format!(" {local} @"), 1);
        let mut statements = vec![self.filled(&on_local, &engine)];
        if is_sharded && statement.contains("CREATE TABLE") {
            statements.push(format!(
                "CREATE TABLE IF NOT EXISTS {table} {} AS {local} \
                 ENGINE = Distributed('{}', '{}', '{local}', {SHARDING_KEY})",
                self.on_cluster(),
                cluster.name,
                self.database,
            ));
        } else if is_sharded && statement.contains(" COLUMN ") {
            statements.push(self.filled(statement, ""));
        }
        statements
    }

    fn replicated_engine(&self, shard: &str, table: &str, replica: &str) -> String {
        let database = self.database;
        format!(
            "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/spindle/{database}/{table}', '{replica}', "
        )
    }

    fn filled(&self, statement: &str, engine: &str) -> String {
        // Offsets are committed over rows that survive a loss of power: on the disk of the only server, or on the disks
        // of several (P1).
        let durable = match self.cluster {
            None => "fsync_after_insert = 1, fsync_part_directory = 1,",
            Some(_) => "",
        };
        statement
            .replace("@engine(", engine)
            .replace("', )", "')")
            .replace("@on_cluster", &self.on_cluster())
            .replace("@durable", durable)
    }
}

/// The table of a statement in a migration: the word before `@on_cluster`.
fn table_of(statement: &str) -> &str {
    let before = statement.split(" @on_cluster").next().unwrap_or_default();
    before.rsplit(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "-- Rows.\nCREATE TABLE IF NOT EXISTS runs @on_cluster (a String) ENGINE = @engine(version, is_deleted) ORDER BY a SETTINGS @durable index_granularity = 1";

    fn dialect(cluster: Option<&Cluster>) -> Dialect<'_> {
        Dialect {
            database: "db",
            cluster,
        }
    }

    #[test]
    fn one_server_gets_the_statement_as_it_stands() {
        let statements = dialect(None).render(CREATE);
        assert_eq!(statements.len(), 1);
        assert!(
            statements[0]
                .contains("runs  (a String) ENGINE = ReplacingMergeTree(version, is_deleted)"),
            "{statements:?}"
        );
    }

    #[test]
    fn a_cluster_gets_a_table_on_every_shard_and_one_over_them() {
        let cluster = Cluster::new("main");
        let statements = dialect(Some(&cluster)).render(CREATE);
        assert!(
            statements[0].contains(
                "runs_local ON CLUSTER 'main' (a String) ENGINE = ReplicatedReplacingMergeTree(\
                 '/clickhouse/tables/{shard}/spindle/db/runs_local', '{replica}', version, is_deleted)"
            ),
            "{statements:?}"
        );
        assert_eq!(
            statements[1],
            "CREATE TABLE IF NOT EXISTS runs ON CLUSTER 'main' AS runs_local \
             ENGINE = Distributed('main', 'db', 'runs_local', cityHash64(project_id, app_id))"
        );
        let small = CREATE
            .replace("runs", "prices")
            .replace("(version, is_deleted)", "()");
        let statements = dialect(Some(&cluster)).render(&small);
        assert_eq!(statements.len(), 1);
        assert!(
            statements[0].contains(
                "prices ON CLUSTER 'main' (a String) ENGINE = ReplicatedReplacingMergeTree(\
                 '/clickhouse/tables/all/spindle/db/prices', '{shard}-{replica}')"
            ),
            "{statements:?}"
        );
    }

    #[test]
    fn columns_are_added_to_both_tables_and_indexes_to_the_local_one() {
        let cluster = Cluster::new("main");
        let column = "ALTER TABLE events @on_cluster ADD COLUMN IF NOT EXISTS x UInt8";
        assert_eq!(
            dialect(Some(&cluster)).render(column),
            [
                "ALTER TABLE events_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS x UInt8",
                "ALTER TABLE events ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS x UInt8",
            ]
        );
        let index = "ALTER TABLE events @on_cluster ADD INDEX IF NOT EXISTS i x TYPE minmax";
        assert_eq!(
            dialect(Some(&cluster)).render(index),
            ["ALTER TABLE events_local ON CLUSTER 'main' ADD INDEX IF NOT EXISTS i x TYPE minmax"]
        );
    }

    #[test]
    fn reads_of_small_tables_are_told_from_those_of_sharded_ones() {
        assert!(reads_small_tables("SELECT 1 FROM jobs FINAL"));
        assert!(!reads_small_tables(
            "SELECT 1 FROM (SELECT 1 FROM runs FINAL)"
        ));
    }

    #[test]
    fn a_cluster_has_a_name_that_can_stand_in_a_statement() {
        assert!(Cluster::new("main-2").check().is_ok());
        assert!(Cluster::new("it's").check().is_err() && Cluster::new("").check().is_err());
    }
}
