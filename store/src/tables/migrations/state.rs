//! The state of the migrations, for programs that wait until another one has migrated the database.

use crate::client::Store;
use crate::error::StoreError;

use super::{Applied, MIGRATIONS};

/// UNKNOWN_TABLE and UNKNOWN_DATABASE: nothing was migrated yet.
const NOTHING_THERE: [u32; 2] = [60, 81];

impl Store {
    /// Whether the tables fit this program. Tables of a newer program do: its migrations only add to them, so that both
    /// can run side by side while one replaces the other.
    ///
    /// # Errors
    /// [`StoreError::MigrationChanged`] when a migration differs from the compiled-in one; otherwise errors of reads.
    pub async fn is_migrated(&self) -> Result<bool, StoreError> {
        match self.applied_migrations().await {
            Ok(applied) => covers(&applied),
            Err(StoreError::Refused { code, .. }) if NOTHING_THERE.contains(&code) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether every migration of this program was applied.
fn covers(applied: &[Applied]) -> Result<bool, StoreError> {
    for migration in MIGRATIONS {
        let found = applied
            .iter()
            .find(|applied| applied.number == migration.number);
        match found {
            None => return Ok(false),
            Some(found) if found.checksum != migration.checksum() => {
                return Err(StoreError::MigrationChanged(migration.number));
            }
            Some(_) => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied() -> Vec<Applied> {
        let all = MIGRATIONS.iter().map(|migration| Applied {
            number: migration.number,
            checksum: migration.checksum(),
        });
        all.collect()
    }

    #[test]
    fn every_migration_has_to_be_there_and_further_ones_do_no_harm() {
        let mut found = applied();
        assert!(covers(&found).unwrap());
        found.push(Applied {
            number: 999,
            checksum: "of a newer program".to_owned(),
        });
        assert!(covers(&found).unwrap());
        let first = found.remove(0);
        assert!(!covers(&found).unwrap());
        found.push(Applied {
            checksum: "another".to_owned(),
            ..first
        });
        assert!(matches!(
            covers(&found),
            Err(StoreError::MigrationChanged(1))
        ));
    }
}
