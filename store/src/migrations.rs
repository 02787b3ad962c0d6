//! Makes the database what this program needs: numbered files, forward only, each applied once.
//!
//! A statement of a migration can be run again without harm (`IF NOT EXISTS`), so two programs that start at
//! once may both apply it, and one that died in the middle is repeated whole.

mod state;

use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::client::Store;
use crate::cluster::Dialect;
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
    ($number:literal, $name:literal) => {
        Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../migrations/000", $number, "_", $name, ".sql")),
        }
    };
}

/// All of them, in order. Never edited once released: a change is a further file.
const MIGRATIONS: &[Migration] = &[
    migration!(1, "tables"),
    migration!(2, "prices"),
    migration!(3, "messages"),
    migration!(4, "jobs"),
    migration!(5, "search"),
    migration!(6, "deployment"),
    migration!(7, "platform"),
    migration!(8, "sessions"),
    migration!(9, "stored_parts"),
];

/// Time for one statement. `CREATE` takes milliseconds; a later `ALTER` over a large table may take minutes.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Row, Deserialize)]
struct Applied {
    number: u32,
    checksum: String,
}

impl Store {
    /// Creates the database and applies what is missing. Safe to call at every start and from several programs.
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
        let known = MIGRATIONS.len() as u32;
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
    use crate::cluster::Cluster;
    use crate::config::StoreConfig;

    #[test]
    fn migrations_are_numbered_from_one_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number as usize, index + 1);
        }
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
                let changes_settings = statement.contains("MODIFY SETTING");
                assert!(
                    changes_settings || statement.contains("IF NOT EXISTS"),
                    "{statement}"
                );
            }
        }
    }
}
