//! Brings ClickHouse to where it has to be, and goes on looking at it.

use std::time::Duration;

use store::StoreError;

use super::Running;
use super::access::{SettleError, settle};
use super::folder::{DataFolder, Secrets, credentials_file};
use super::health::Part;
use super::parts::Parts;

/// How often a server that is away is tried again, and how often one that is there is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks between two reloads of credentials and prices that another process may have changed.
const LOOKS_PER_REFRESH: u32 = 5;
/// Looks between two orders to index the texts of a day that has ended: one day at a time, and none is in a hurry.
const LOOKS_PER_INDEX: u32 = 300;

/// Migrates the tables, reads the prices and settles the first credentials, trying for as long as ClickHouse is away.
pub(crate) async fn run(
    running: &Running,
    parts: &Parts,
    folder: &DataFolder,
    url: &str,
) -> anyhow::Result<()> {
    let health = &running.health;
    until_there(running, async || Ok(parts.store.migrate().await?)).await?;
    health.ready(Part::Engine);
    // Before anything is processed: a call must not be priced by a table that lacks what people changed.
    until_there(running, async || Ok(parts.prices.refresh().await?)).await?;
    health.ready(Part::Migrations);
    let made = until_there(running, async || {
        settle(&parts.credentials, folder.path()).await
    })
    .await?;
    health.ready(Part::Credentials);
    if let Some(secrets) = made {
        show_first_start(&secrets, folder, url);
    }
    Ok(())
}

/// Looks at ClickHouse, at the credentials and at the prices until the server stops.
pub(crate) async fn watch(running: &Running, parts: &Parts) {
    let mut looks = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = running.stop.cancelled() => return,
        }
        match parts.store.ping().await {
            Ok(()) => running.health.ready(Part::Engine),
            Err(error) => {
                tracing::debug!(error.message = %error, "ClickHouse does not answer");
                running.health.missing(Part::Engine, "does not answer");
                continue;
            }
        }
        looks += 1;
        if looks % LOOKS_PER_REFRESH != 0 {
            continue;
        }
        if let Err(error) = parts.credentials.refresh().await {
            tracing::debug!(error.message = %error, "credentials were not refreshed");
        }
        if looks % LOOKS_PER_INDEX == 0 {
            index_texts(parts).await;
        }
        if let Err(error) = parts.prices.refresh().await {
            tracing::debug!(error.message = %error, "prices were not refreshed");
        }
    }
}

/// Has the texts of a day that has ended indexed. Search works without; it only takes longer.
async fn index_texts(parts: &Parts) {
    match parts
        .store
        .index_texts(chrono::Utc::now().timestamp_millis())
        .await
    {
        Ok(Some(day)) => tracing::info!(index.day = day, "indexing the texts of a day"),
        Ok(None) => {}
        Err(error) => tracing::debug!(error.message = %error, "texts were not indexed"),
    }
}

/// Tries again while ClickHouse is away; any other failure ends the server, because it needs a person.
async fn until_there<T>(
    running: &Running,
    work: impl AsyncFn() -> Result<T, SettleError>,
) -> anyhow::Result<T> {
    let mut told = false;
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(SettleError::Store(error)) if is_away(&error) => {
                running.health.missing(Part::Engine, "does not answer");
                if !told {
                    tracing::warn!(error.message = %error, "ClickHouse does not answer; trying until it does");
                }
                told = true;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_away(error: &StoreError) -> bool {
    error.is_retryable()
}

/// Shown once, on standard output, apart from the logs.
fn show_first_start(secrets: &Secrets, folder: &DataFolder, url: &str) {
    let shown = |secret: &Option<String>| secret.clone().unwrap_or_else(|| "(as given)".to_owned());
    println!("Spindle is ready.");
    println!("  address      {url}");
    println!("  project      {}", secrets.project);
    println!("  API key      {}", shown(&secrets.api_key));
    println!("  admin token  {}", shown(&secrets.admin_token));
    println!(
        "  both are kept in {}",
        credentials_file(folder.path()).display()
    );
}
