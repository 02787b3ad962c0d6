//! Migrates the database: numbered files, forward only, each applied once.
//!
//! A statement of a migration can be repeated without harm (`IF NOT EXISTS`), so two programs that start at once may
//! both apply it, and one that died in the middle is repeated completely.

mod state;

use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::client::Store;
use crate::client::cluster::Dialect;
use crate::error::StoreError;

/// One numbered file.
struct Migration {
    number: u32,
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql))
    }
}

macro_rules! migration {
    ($number:literal, $file:literal) => {
        Migration {
            number: $number,
            name: name_of($file),
            sql: include_str!(concat!("../../migrations/", $file)),
        }
    };
}

/// The name within a file name: `tables` of `0001_tables.sql`.
const fn name_of(file: &'static str) -> &'static str {
    let (_, name) = file.split_at("0001_".len());
    name.split_at(name.len() - ".sql".len()).0
}

/// In order. Never edited once released: a change is a further file.
const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_tables.sql"),
    migration!(2, "0002_prices.sql"),
    migration!(3, "0003_messages.sql"),
    migration!(4, "0004_jobs.sql"),
    migration!(5, "0005_search.sql"),
    migration!(6, "0006_deployment.sql"),
    migration!(7, "0007_platform.sql"),
    migration!(8, "0008_sessions.sql"),
    migration!(9, "0009_stored_parts.sql"),
    migration!(10, "0010_own_calls.sql"),
    migration!(11, "0011_inherited_threads.sql"),
    migration!(12, "0012_calls_seen_twice.sql"),
    migration!(13, "0013_price_details.sql"),
    migration!(14, "0014_turns.sql"),
    migration!(15, "0015_call_details.sql"),
];

/// Time-out of one statement. `CREATE` takes milliseconds; a later `ALTER` over a large table may take minutes.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Row, Deserialize)]
struct Applied {
    number: u32,
    checksum: String,
}

impl Store {
    /// Creates the database and applies missing migrations. Safe to call at every start and from several programs.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let dialect = Dialect::of(&self.config);
        let create = format!(
            "CREATE DATABASE IF NOT EXISTS {} {}",
            self.config.database,
            dialect.on_cluster()
        );
        let mut outside = self.clone();
        outside.client = self.client.clone().with_database("system");
        outside.execute(&create, STATEMENT_TIMEOUT).await?;
        let table = "CREATE TABLE IF NOT EXISTS migrations @on_cluster \
                     (number UInt32, name String, checksum String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3)) \
                     ENGINE = @engine(applied_at) ORDER BY number SETTINGS @durable index_granularity = 8192";
        self.execute_all(&dialect.render(table)).await?;

        let applied = self.applied_migrations().await?;
        let known = MIGRATIONS.last().map_or(0, |migration| migration.number);
        if let Some(newest) = applied.iter().map(|migration| migration.number).max()
            && newest > known
        {
            return Err(StoreError::TooNew {
                found: newest,
                known,
            });
        }
        for migration in MIGRATIONS {
            let checksum = migration.checksum();
            match applied
                .iter()
                .find(|applied| applied.number == migration.number)
            {
                Some(applied) if applied.checksum == checksum => continue,
                Some(_) => return Err(StoreError::MigrationChanged(migration.number)),
                None => self.apply(migration, &checksum, &dialect).await?,
            }
        }
        Ok(())
    }

    async fn execute_all(&self, statements: &[String]) -> Result<(), StoreError> {
        for statement in statements {
            self.execute(statement, STATEMENT_TIMEOUT).await?;
        }
        Ok(())
    }

    async fn applied_migrations(&self) -> Result<Vec<Applied>, StoreError> {
        self.bounded_query("SELECT number, checksum FROM migrations FINAL ORDER BY number")
            .rows()
            .await
    }

    async fn apply(
        &self,
        migration: &Migration,
        checksum: &str,
        dialect: &Dialect<'_>,
    ) -> Result<(), StoreError> {
        for statement in statements(migration.sql) {
            self.execute_all(&dialect.render(statement)).await?;
        }
        self.client
            .query_raw("INSERT INTO migrations (number, name, checksum) VALUES ({number:UInt32}, {name:String}, {checksum:String})")
            .param("number", migration.number)
            .param("name", migration.name)
            .param("checksum", checksum)
            .execute()
            .await?;
        tracing::info!(
            migration.number = migration.number,
            migration.name = migration.name,
            "migration applied"
        );
        Ok(())
    }
}

/// The statements of a file: each ends with `;` at the end of a line.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(";\n")
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cluster::Cluster;
    use crate::client::config::StoreConfig;

    #[test]
    fn migrations_are_numbered_from_one_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number as usize, index + 1);
        }
    }

    #[test]
    fn every_file_is_embedded_under_its_number_and_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let embedded = MIGRATIONS.iter();
        let embedded = embedded.map(|one| format!("{:04}_{}.sql", one.number, one.name));
        assert_eq!(embedded.collect::<Vec<_>>(), files);
    }

    #[test]
    fn the_tenth_migration_can_be_embedded_like_the_first() {
        assert_eq!(name_of("0010_more_columns.sql"), "more_columns");
        assert_eq!(name_of("1234_x.sql"), "x");
    }

    #[test]
    fn every_table_syncs_to_disk_on_one_server_and_not_on_a_cluster() {
        for migration in MIGRATIONS {
            for statement in
                statements(migration.sql).filter(|statement| statement.contains("CREATE TABLE"))
            {
                let rendered = |cluster| {
                    let config = StoreConfig {
                        cluster,
                        ..StoreConfig::default()
                    };
                    Dialect::of(&config).render(statement).join("")
                };
                let alone = rendered(None);
                assert!(
                    alone.contains("fsync_after_insert = 1") && !alone.contains('@'),
                    "{alone}"
                );
                assert!(!rendered(Some(Cluster::new("main"))).contains("fsync"));
            }
        }
    }

    #[test]
    fn every_statement_is_understood_for_a_cluster() {
        let config = StoreConfig {
            standalone: false,
            cluster: Some(Cluster::new("main")),
            ..StoreConfig::default()
        };
        for migration in MIGRATIONS {
            for statement in statements(migration.sql) {
                for rendered in Dialect::of(&config).render(statement) {
                    assert!(
                        rendered.contains("ON CLUSTER 'main'")
                            && !rendered.contains('@')
                            && !rendered.contains("= ReplacingMergeTree"),
                        "{rendered}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_statement_can_be_repeated() {
        for migration in MIGRATIONS {
            for statement in statements(migration.sql) {
                let is_the_same_again =
                    ["MODIFY SETTING", "MODIFY COLUMN"].map(|change| statement.contains(change));
                assert!(
                    is_the_same_again.contains(&true) || statement.contains("IF NOT EXISTS"),
                    "{statement}"
                );
            }
        }
    }
}
