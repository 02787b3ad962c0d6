//! The number of partitions that keys are placed by.
//!
//! All processors place keys by one number of partitions, stored in the tables. The number changes under the barrier.

use std::time::Duration;

use store::StoreError;

use crate::dependencies::Shared;
use crate::tables::Tables;

/// How often a process checks whether the log has more partitions.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the barrier still has to hold when the number is stored: many times what that takes.
const WRITE_TIME: Duration = Duration::from_secs(5);

/// Reads the number; the first processor of a deployment decides it.
pub(crate) async fn learn(shared: &Shared, tables: &dyn Tables) -> Result<u32, StoreError> {
    let stored = match tables.placed_by().await? {
        Some(partitions) => partitions,
        None => {
            let partitions = shared.dependencies.log.partitions();
            tables.place_by(partitions).await?;
            // Another process may have decided it at the same time.
            tables.placed_by().await?.unwrap_or(partitions)
        }
    };
    shared.dependencies.barrier.set_partitions(stored);
    Ok(stored)
}

/// Keeps the number equal to the log's number of partitions, as long as it is polled.
pub(crate) async fn follow(shared: &Shared) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let (placed_by, partitions) = (
            shared.dependencies.barrier.partitions(),
            shared.dependencies.log.partitions(),
        );
        if placed_by != 0
            && placed_by < partitions
            && let Err(error) = place_by(shared, partitions).await
        {
            tracing::warn!(error = %error, "records cannot be placed by more partitions for now");
        }
    }
}

async fn place_by(shared: &Shared, partitions: u32) -> Result<(), StoreError> {
    let tables = &shared.dependencies.tables;
    let mut guard = shared.dependencies.barrier.acquire().await;
    // Another process may have changed it while this one waited.
    let stands = tables.placed_by().await?.unwrap_or(0);
    if stands < partitions && guard.remaining() >= WRITE_TIME {
        // Whether the write succeeds or not, the next step reads the current number.
        guard.repartitioned(partitions);
        tables.place_by(partitions).await?;
        tracing::info!(
            log.partitions = partitions,
            "records are placed by more partitions from now on"
        );
    } else if stands >= partitions {
        guard.repartitioned(stands);
    }
    Ok(())
}
